"""A project outside of the tree that adds Tutti as a folder of its own:

  outside_test.py TUTTI_SOURCE TUTTI_BUILD BUILD_TYPE CXX_COMPILER

Configures the project in this folder, compiles its program with the flags that it gets from the target `tutti`, and
links that as it is told to, but with the libraries that are built already in TUTTI_BUILD. Then runs it.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile


def main():
    source, build, build_type, compiler = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "-S", here, "-B", folder, "-G", "Ninja", f"-DTUTTI_SOURCE={source}",
                        f"-DCMAKE_BUILD_TYPE={build_type}", f"-DCMAKE_CXX_COMPILER={compiler}"], check=True)

        def commands_for(*targets):
            return subprocess.run(["ninja", "-C", folder, "-t", "commands", *targets], capture_output=True, text=True,
                                  check=True).stdout.splitlines()

        foreign = [command for command in commands_for() if f"{source}/tests/" in command and here not in command]
        if foreign:
            sys.exit(f"Tutti's own tests are part of the outside project: {foreign}")
        commands = commands_for("own_op")
        (compiles,) = [command for command in commands if f" -c {here}/own_op.cc" in command]
        links, libraries = re.subn(r" tutti/(\S+\.a)\b", rf" {shlex.quote(build)}/\1", commands[-1])
        if libraries == 0:
            sys.exit(f"no library of Tutti is linked: {commands[-1]}")
        os.makedirs(f"{folder}/CMakeFiles/own_op.dir", exist_ok=True)
        for command in (f"{compiles} -Wall", links):
            subprocess.run(command, shell=True, cwd=folder, check=True)
        said = subprocess.run([f"{folder}/own_op"], capture_output=True, text=True, check=True).stdout
        if said != "Negate(3) = -3\n":
            sys.exit(f"the outside program said {said!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
