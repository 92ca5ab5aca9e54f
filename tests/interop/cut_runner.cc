// Runs graphs cut between three tasks of this process, for check_cut.py: cut_runner GRAPH... prints for each its path
// and the values of "out:0" and "grad:0", or "! error".
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/integration/cut_cluster.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/op_table.h"

namespace tutti::interop {
namespace {

Result<std::vector<Tensor>> run_cut(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  Graph graph(builtin_ops());
  TUTTI_RETURN_IF_ERROR(import_graph_def(bytes.str(), graph));
  TUTTI_ASSIGN_OR_RETURN(const Output out, graph.find_output("out:0"));
  TUTTI_ASSIGN_OR_RETURN(const Output grad, graph.find_output("grad:0"));
  testing::CutCluster cluster({"a", "b", "c"});
  return cluster.run(graph, {}, {out, grad});
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto results = tutti::interop::run_cut(argv[i]);
    if (results.ok()) {
      std::printf("%s %.9g %.9g\n", argv[i], (*results)[0].scalar<float>(), (*results)[1].scalar<float>());
    } else {
      std::printf("%s ! %s\n", argv[i], results.status().to_string().c_str());
    }
  }
  return 0;
}
