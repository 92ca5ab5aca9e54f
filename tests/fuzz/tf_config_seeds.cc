// Writes TF_CONFIGs for the fuzzer to start from: tf_config_seeds FOLDER
#include <cstdio>
#include <string>

#include "tutti/core/file_system.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: tf_config_seeds FOLDER\n"), 2;
  const std::string folder = argv[1];
  const std::pair<const char*, const char*> seeds[] = {
      {"worker", R"({"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]}, "task": {"type": "worker", "index": 1},
                     "environment": "cloud", "rpc_layer": "grpc"})"},
      {"evaluator", R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})"},
      {"sparse", R"({"ps": {"0": "a:1", "7": "b:2"}, "worker": []})"},
  };
  try {
    for (const auto& [name, text] : seeds) {
      throw_if_error(write_file(local_file_system(), folder + "/" + name, text));
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "tf_config_seeds: %s\n", error.what());
    return 1;
  }
}
