// Writes record files for the fuzzer to start from, in its own form: record_seeds FOLDER
#include <zlib.h>

#include <cstdio>
#include <string>

#include "memory_files.h"
#include "tutti/io/internal/coding.h"
#include "tutti/io/record_writer.h"

using namespace tutti;

namespace {

std::string records() {
  fuzz::MemoryFileSystem files;
  const auto out = RecordWriter::create(files, "/records").value_or_throw();
  for (const char* record : {"", "abc", "a longer record"}) throw_if_error(out->write(record));
  throw_if_error(out->close());
  return read_file(files, "/records").value_or_throw();
}

std::string deflated(const std::string& bytes, int window_bits) {
  z_stream stream = {};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Lengths and records, without checksums.
std::string unchecked() {
  std::string bytes;
  for (const std::string record : {"", "abc", "a longer record"}) {
    put_fixed64(bytes, record.size());
    bytes += record;
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: record_seeds FOLDER\n"), 2;
  try {
    const std::string folder = argv[1];
    const auto write = [&](const char* name, char kind, const std::string& bytes) {
      throw_if_error(write_file(local_file_system(), folder + "/" + name, std::string(1, kind) + bytes));
    };
    write("plain", 0, records());
    write("unchecked", 1, unchecked());
    write("zlib", 2, deflated(records(), MAX_WBITS));
    write("gzip", 3, deflated(records(), MAX_WBITS + 16));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "record_seeds: %s\n", error.what());
    return 1;
  }
}
