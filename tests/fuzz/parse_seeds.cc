// Writes an Example, a sequence, a sound, lines and a tensor for the fuzzer to start from, in its own form: parse_seeds
// FOLDER
#include <cstdio>
#include <string>

#include "tutti/core/file_system.h"

using namespace tutti;

namespace {

std::string field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

std::string example() {
  const std::string lists[] = {field(2, field(1, std::string("\0\0\x80\x3f\0\0\0\x40", 8))),
                               field(3, field(1, "\x05\xac\x02")), field(1, field(1, "ab") + field(1, ""))};
  std::string features;
  for (int i = 0; i < 9; ++i) {
    features += field(1, field(1, std::string(1, static_cast<char>('a' + i))) + field(2, lists[i % 3]));
  }
  std::string out(1, 0x0a);
  out.push_back(static_cast<char>((features.size() & 0x7f) | 0x80));
  out.push_back(static_cast<char>(features.size() >> 7));
  return out + features;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: parse_seeds FOLDER\n"), 2;
  try {
    const std::string folder = argv[1];
    const auto write = [&](const char* name, char kind, const std::string& bytes) {
      throw_if_error(write_file(local_file_system(), folder + "/" + name, std::string(1, kind) + bytes));
    };
    write("example", 0, example());
    write("sequence", 1,
          field(1, field(1, field(1, "a") + field(2, field(3, field(1, "\x05"))))) +
              field(2, field(1, field(1, "c") + field(2, field(1, field(3, field(1, "\x05\x06")))))));
    write("sound", 4,
          std::string("RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x08\0\0\0\x10\0\0\0\x02\0\x10\0data\x04\0\0\0abcd",
                      48));
    write("lines", 2, "1,a,2.5,,\"b \"\"c\"\"\",NA");
    write("quoted", 6, "1,\"a,b\",2.5 7,x,1e3");
    write("columns", 18, "1,a,2.5,x,9 1,a,2.5,x,9");
    write("tensor", 3, std::string("\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08\0\0\x80\x3f\0\0\0\x40", 18));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "parse_seeds: %s\n", error.what());
    return 1;
  }
}
