"""scripts/check_layers accepts the good include and names the bad ones."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers"


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckLayers(unittest.TestCase):
    def assert_refused(self, name, line, message):
        code, out = check({name: f"// first line\n{line}\n"})
        self.assertEqual(code, 1, out)
        self.assertIn(f"{name}:2: ", out)
        self.assertIn(message, out)

    def test_good_includes(self):
        code, out = check({
            "tutti/graph/graph.cc": '#include "tutti/graph/graph.h"\n#include "proto/graph.pb.h"\n#include <vector>\n',
            "tutti/runtime/session.cc": '#include "tutti/ops/op_table.h"\n#include "tutti/core/status.h"\n',
            "tutti/distributed/rpc/server.cc": "#include <grpcpp/grpcpp.h>\n",
            "tutti/tutti.h": '#include "tutti/core/status.h"\n',
            "examples/a.cc": '#include "tutti/tutti.h"\n',
            "tests/a.cc": '#include "tutti/graph/internal/x.h"\n',
        })
        self.assertEqual((code, out), (0, "ok\n"))

    def test_upward_include(self):
        self.assert_refused("tutti/core/status.cc", '#include "tutti/graph/graph.h"', "core may not include")

    def test_sideways_include(self):
        self.assert_refused("tutti/kernels/cpu/matmul.cc", '# include "tutti/graph/graph.h"', "kernels may not include")

    def test_optim_sees_no_kernels(self):
        self.assert_refused("tutti/optim/adam.cc", '#include "tutti/kernels/kernel.h"', "optim may not include")

    def test_protobuf_below_its_layer(self):
        self.assert_refused("tutti/runtime/session.cc", '#include "proto/graph.pb.h"', "protobuf")

    def test_grpc_outside_rpc(self):
        self.assert_refused("tutti/distributed/master.cc", "#include <grpcpp/grpcpp.h>", "gRPC")

    def test_private_header(self):
        self.assert_refused("tutti/ops/a.cc", '#include "tutti/graph/internal/x.h"', "private to graph")

    def test_umbrella_inside(self):
        self.assert_refused("tutti/ops/a.cc", '#include "tutti/tutti.h"', "is for users")

    def test_example_past_the_umbrella(self):
        self.assert_refused("examples/a.cc", '#include "tutti/graph/graph.h"', "tutti/tutti.h only")

    def test_unknown_folder(self):
        code, out = check({"tutti/misc/a.h": ""})
        self.assertEqual(code, 1)
        self.assertIn("misc is not in the table", out)

    def test_protobuf_through_the_umbrella(self):
        code, out = check({
            "tutti/tutti.h": '#include "tutti/graph/graph.h"\n',
            "tutti/graph/graph.h": '#include "proto/graph.pb.h"\n',
        })
        self.assertEqual(code, 1)
        self.assertIn("reaches users", out)


if __name__ == "__main__":
    unittest.main()
