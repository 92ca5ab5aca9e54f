// Writes a few good texts for the fuzzer to start from, in its own form: key_seeds FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/distributed/rpc/internal/answer_parts.h"

using namespace tutti;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: key_seeds FOLDER\n");
    return 2;
  }
  const std::string device = "/job:ps/replica:0/task:1/device:CPU:0";
  const std::string zeros(32, '0');
  Payload several;
  for (const std::size_t size : {std::size_t{3} << 20, std::size_t{100}, std::size_t{1} << 20, std::size_t{70'000}}) {
    several.append(std::string(size, 'y'));
  }
  const std::vector<std::pair<char, std::string>> seeds = {
      {0, device + ";0123456789abcdef;" + device + ";edge_1_x;0:0"},
      {0, device + ";ffffffffffffffff;" + device + ";x;18446744073709551615:9223372036854775807"},
      {1, "tutti://job/ps/task/1"},
      {1, "https://elsewhere\ntutti://job/worker/task/10\ntutti://job/worker/task/10"},
      {2, "hello"},
      {2, "plain 6162"},
      {2, "mac " + zeros + " " + zeros + " 1 " + zeros + zeros},
      {3, rpc_internal::part_request(zeros, 1)},
      {3, rpc_internal::drop_request(zeros)},
      {3, rpc_internal::outline_of(Payload(std::string(300, 'x'))).flatten()},
      {3, rpc_internal::outline_of(several).flatten()}};
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const std::string text = seeds[i].first + seeds[i].second;
    const Status written = write_file(local_file_system(), str_cat(argv[1], "/seed_", i), text);
    if (written.ok()) continue;
    std::fprintf(stderr, "key_seeds: %s\n", written.to_string().c_str());
    return 1;
  }
  return 0;
}
