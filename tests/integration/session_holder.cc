// A client that holds a session until it is killed.
#include <unistd.h>

#include <cstdio>

#include "tutti/distributed/server.h"
#include "tutti/ops/op_table.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tutti::Graph graph(tutti::builtin_ops());
  const auto session = tutti::connect(argv[1], graph);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().to_string().c_str());
    return 1;
  }
  std::puts("holds a session");
  std::fflush(stdout);
  while (true) pause();
}
