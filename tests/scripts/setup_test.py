"""What scripts/setup says on systems that it does not know: setup_test.py SCRIPT"""
import os
import subprocess
import sys
import tempfile

SYSTEMS = {"Ubuntu 22.04.4 LTS": "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n",
           "Debian GNU/Linux 11 (bullseye)": "ID=debian\nVERSION_ID=\"11\"\n"}


def main():
    script = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        # No package is installed, and a try to install one is seen.
        for name, status in (("dpkg-query", 1), ("apt-get", 0), ("sudo", 0)):
            path = f"{folder}/{name}"
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n[ {name} = dpkg-query ] || touch {folder}/installed\nexit {status}\n")
            os.chmod(path, 0o755)
        for name, text in SYSTEMS.items():
            release = f"{folder}/os-release"
            with open(release, "w", encoding="utf-8") as file:
                file.write(f"{text}PRETTY_NAME=\"{name}\"\n")
            environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TUTTI_OS_RELEASE": release}
            done = subprocess.run([script], env=environment, capture_output=True, text=True, check=False)
            first = done.stderr.split("\n")[0]
            if done.returncode != 1 or first != f"scripts/setup knows Debian 12 only; this is {name}.":
                sys.exit(f"{name}: exit status {done.returncode}, {done.stderr}")
            if "libprotobuf-dev" not in done.stderr:
                sys.exit(f"{name}: it does not say what is missing")
            if os.path.exists(f"{folder}/installed"):
                sys.exit(f"{name}: it tried to install packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
