// Tutti's side of check_checkpoints.py. Each command reads with Tutti what TensorFlow wrote, or writes what it will
// read:
//   checkpoint_tool dump PREFIX FOLDER      every tensor's bytes to FOLDER/<number>, a list of names to standard output
//   checkpoint_tool copy PREFIX TO          a bundle, slice by slice
//   checkpoint_tool copy_slice_file PATH TO
//   checkpoint_tool copy_records PATH COMPRESSION TO
//   checkpoint_tool session GRAPH FEED VALUE TARGET...   runs the targets one after the other, with one string fed
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/graph/graph_def.h"
#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/record_reader.h"
#include "tutti/io/record_writer.h"
#include "tutti/io/slice_file.h"
#include "tutti/ops/host/variant_messages.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_session.h"

namespace tutti::interop {
namespace {

FileSystem& files() { return local_file_system(); }

// Elements as they lie in memory; strings one after the other, each with its length before it as eight bytes.
std::string element_bytes(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return {static_cast<const char*>(tensor.raw()), tensor.bytes()};
  std::string bytes;
  for (const std::string& element : tensor.flat<std::string>()) {
    const std::uint64_t length = element.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += element;
  }
  return bytes;
}

void dump(const std::string& prefix, const std::string& folder) {
  const auto in = BundleReader::open(files(), prefix).value_or_throw();
  int number = 0;
  for (const std::string& name : in->names()) {
    const Tensor tensor = in->read(name).value_or_throw();
    throw_if_error(write_file(files(), str_cat(folder, "/", number), element_bytes(tensor)));
    std::printf("%d %s %s %s\n", number++, std::string(dtype_name(tensor.dtype())).c_str(),
                tensor.shape().to_string().c_str(), name.c_str());
  }
}

void copy(const std::string& prefix, const std::string& to) {
  const auto in = BundleReader::open(files(), prefix, &kVariantMessages).value_or_throw();
  const auto out = BundleWriter::create(files(), to, {.variants = &kVariantMessages}).value_or_throw();
  for (const std::string& name : in->names()) {
    const BundleEntry entry = in->find(name).value_or_throw();
    if (entry.slices.empty()) throw_if_error(out->add(name, in->read(name).value_or_throw()));
    for (const TensorSlice& slice : entry.slices) {
      throw_if_error(out->add_slice(name, entry.shape, slice, in->read_slice(name, slice).value_or_throw()));
    }
  }
  throw_if_error(out->finish());
}

void copy_slice_file(const std::string& path, const std::string& to) {
  const auto in = SliceFileReader::open(files(), path).value_or_throw();
  SliceFileWriter out(files(), to);
  for (const std::string& name : in->names()) {
    const Tensor tensor = in->read(name).value_or_throw();
    throw_if_error(out.add(name, tensor.shape(), TensorSlice::whole(tensor.rank()), tensor));
  }
  throw_if_error(out.finish());
}

void copy_records(const std::string& path, const std::string& compression, const std::string& to) {
  const auto in = RecordReader::open(files(), path, {.compression = compression}).value_or_throw();
  const auto out = RecordWriter::create(files(), to).value_or_throw();
  std::string record;
  while (in->next(&record).value_or_throw()) throw_if_error(out->write(record));
  throw_if_error(out->close());
}

void run_session(const std::vector<std::string>& args) {
  Graph graph(builtin_ops());
  throw_if_error(import_graph_def(read_file(files(), args[0]).value_or_throw(), graph));
  LocalSession session(graph);
  Feeds feeds;
  feeds.emplace_back(TensorName(args[1]), Tensor::scalar(args[2]));
  for (std::size_t i = 3; i < args.size(); ++i) session.run(feeds, {}, {NodeName(args[i])});
}

int usage() {
  std::fprintf(stderr, "checkpoint_tool: see the comment at the top of its source\n");
  return 2;
}

int main(const std::string& command, const std::vector<std::string>& args) {
  if (command == "dump" && args.size() == 2) {
    dump(args[0], args[1]);
  } else if (command == "copy" && args.size() == 2) {
    copy(args[0], args[1]);
  } else if (command == "copy_slice_file" && args.size() == 2) {
    copy_slice_file(args[0], args[1]);
  } else if (command == "copy_records" && args.size() == 3) {
    copy_records(args[0], args[1], args[2]);
  } else if (command == "session" && args.size() > 3) {
    run_session(args);
  } else {
    return usage();
  }
  return 0;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  if (argc < 2) return tutti::interop::usage();
  try {
    return tutti::interop::main(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
