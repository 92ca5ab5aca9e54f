// Writes files `checkpoint` for the fuzzer to start from: checkpoint_state_seeds FOLDER
#include <cstdio>
#include <string>

#include "tutti/io/checkpoint_state.h"

int main(int argc, char** argv) {
  using namespace tutti;
  if (argc != 2) return 2;
  const CheckpointState plain{.model_checkpoint_path = "m-2", .all_model_checkpoint_paths = {"m-1", "m-2"}};
  const CheckpointState timed{.model_checkpoint_path = "/a/\"b\"\n",
                              .all_model_checkpoint_paths = {"/a/\"b\"\n"},
                              .all_model_checkpoint_timestamps = {1.5e9},
                              .last_preserved_timestamp = 1e9};
  int number = 0;
  for (const CheckpointState& state : {plain, timed}) {
    const Status status =
        write_file(local_file_system(), str_cat(argv[1], "/", number++), checkpoint_state_text(state));
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.to_string().c_str());
      return 1;
    }
  }
  return 0;
}
