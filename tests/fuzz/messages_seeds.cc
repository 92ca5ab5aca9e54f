// Writes one message of each kind for the fuzzer to start from, in its own form: messages_seeds FOLDER
#include <cstdio>
#include <string>

#include "tests/distributed/message_samples.h"
#include "tutti/core/file_system.h"
#include "tutti/distributed/codec.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: messages_seeds FOLDER\n");
    return 2;
  }
  try {
    int kind = 0;
    tutti::testing::each_sample([&](const auto& message) {
      const std::string bytes = std::string{static_cast<char>(kind), 7} + encode(message).value_or_throw().flatten();
      throw_if_error(write_file(local_file_system(), str_cat(argv[1], "/seed_", kind++), bytes));
    });
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "messages_seeds: %s\n", error.what());
    return 1;
  }
}
