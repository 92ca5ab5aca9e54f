// libFuzzer target: bytes are the text of a file `checkpoint`. Anything may fail, with a status; nothing may crash,
// read out of bounds, hang or recurse without end. What was read is written and read again, and must be the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "memory_files.h"
#include "tutti/io/checkpoint_state.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256:detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<CheckpointState> state = parse_checkpoint_state(text);
  if (!state.ok()) return 0;
  const Result<CheckpointState> again = parse_checkpoint_state(checkpoint_state_text(*state));
  // Times may be NaN, which equals nothing.
  if (!again.ok() || again->all_model_checkpoint_paths != state->all_model_checkpoint_paths) std::abort();
  fuzz::MemoryFileSystem files;
  if (!write_file(files, "/d/checkpoint", text).ok()) return 0;
  (void)latest_checkpoint(files, "/d");
  return 0;
}
