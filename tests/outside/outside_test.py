"""A project outside of the tree that adds Tutti as a folder of its own: outside_test.py TUTTI_SOURCE CXX_COMPILER

Configures the project in this folder and has the compiler read its program, with the flags that it gets from the target
`tutti`. Nothing is built.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile


def main():
    source, compiler = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "-S", here, "-B", folder, "-G", "Ninja", f"-DTUTTI_SOURCE={source}",
                        f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], check=True)
        with open(f"{folder}/compile_commands.json", encoding="utf-8") as file:
            commands = json.load(file)
        files = [command["file"] for command in commands]
        foreign = [file for file in files if "/tests/" in file and not file.startswith(here)]
        if foreign:
            sys.exit(f"Tutti's own tests are part of the outside project: {foreign}")
        (command,) = [command for command in commands if command["file"].endswith("own_op.cc")]
        subprocess.run([*shlex.split(command["command"]), "-fsyntax-only", "-Wall"], cwd=command["directory"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
