// Runs graphs that a script wrote and writes down what came out, for scripts that compare with TensorFlow:
//   graph_runner FOLDER
// Every folder in FOLDER has graph.pb and fetches.txt (names of tensors or, without a colon, of nodes, one a line).
// Beside them appear 0.pb, 1.pb, ...: a TensorProto for each tensor; or error.txt: the code's number and the message.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/tensor.pb.h"
#include "tutti/core/file_system.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/tensor_codec.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

constexpr std::chrono::seconds kTimeout{60};

std::vector<Tensor> run_graph(const std::string& folder) {
  FileSystem& files = local_file_system();
  Graph graph(builtin_ops());
  throw_if_error(import_graph_def(read_file(files, folder + "/graph.pb").value_or_throw(), graph));
  std::vector<TensorName> fetches;
  std::vector<NodeName> targets;
  const std::string names = read_file(files, folder + "/fetches.txt").value_or_throw();
  for (std::string_view name : str_split(names, '\n')) {
    if (name.empty()) continue;
    if (name.find(':') == std::string_view::npos) {
      targets.emplace_back(std::string(name));
    } else {
      fetches.emplace_back(std::string(name));
    }
  }
  LocalSession session(graph);
  return session.run({}, fetches, targets, {.timeout = kTimeout});
}

void run_folder(const std::string& folder) {
  FileSystem& files = local_file_system();
  try {
    const std::vector<Tensor> results = run_graph(folder);
    for (std::size_t i = 0; i < results.size(); ++i) {
      tensorflow::TensorProto proto;
      throw_if_error(encode_tensor(results[i], &proto));
      throw_if_error(write_file(files, str_cat(folder, "/", i, ".pb"), proto.SerializeAsString()));
    }
  } catch (const Error& error) {
    throw_if_error(write_file(files, folder + "/error.txt",
                              str_cat(static_cast<int>(error.code()), "\n", error.status().message())));
  }
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: graph_runner FOLDER_OF_GRAPHS\n");
    return 2;
  }
  try {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) tutti::interop::run_folder(entry.path());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph_runner: %s\n", error.what());
    return 1;
  }
}
