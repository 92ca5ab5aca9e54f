"""Runs tf.compat.v1 client programs against a cluster of server processes.

  run.py --servers tutti                          all programs, Tutti's servers
  run.py --servers tensorflow                     the reference: the same programs, TensorFlow's servers
  run.py --servers ps=tutti,worker=tensorflow     a mixed cluster
  run.py --only 'errors_.*'                       some programs
  run.py --list                                   what there is
  run.py --readme                                 the table in README.md, written anew
"""
import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import HERE, ROOT, START_SECONDS, Options, die_with_parent, quiet_environment

IMPORT_SECONDS = 180


class ClientProcess:
    """client.py in a process group of its own, with the servers that it starts."""

    def __init__(self, options):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([options.client_python, str(HERE / "client.py"), options.to_json()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=quiet_environment(), start_new_session=True, preexec_fn=die_with_parent)
        self.buffer = b""

    def read_answer(self, seconds):
        """The next answer; None after `seconds` without one or when the process ended."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def run(self, program):
        """"" when it passed, else why not; the process may be unusable afterwards."""
        start = time.monotonic()
        self.process.stdin.write(program.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.read_answer(IMPORT_SECONDS + START_SECONDS)
        if answer and answer["event"] == "begin":
            start = time.monotonic()
            answer = self.read_answer(self.timeouts[program])
        if answer and answer["event"] == "end":
            return answer["error"], answer["seconds"]
        return self.why_no_answer(), time.monotonic() - start

    def why_no_answer(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)  # prints where it stands
            time.sleep(0.5)
            why = "timed out"
        else:
            why = f"the client ended with {self.process.returncode}"
        self.kill()
        self.errors.seek(0)
        errors = self.errors.read().decode(errors="replace")
        stack = errors.rfind("most recent call first")
        frames = [line.strip() for line in errors[stack:].splitlines() if "/programs/" in line] if stack >= 0 else []
        return "\n".join([why] + (frames or [errors[-500:]])) + "\n----\n" + errors[-4000:]

    def usable(self):
        return self.process.poll() is None

    def end(self):
        """Lets it stop its servers, then ends whatever is left of its group."""
        if self.usable():
            self.process.stdin.close()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def list_programs(options):
    """Names, timeouts and texts, from a client (this process may have no TensorFlow)."""
    code = ("import sys, json; sys.path.insert(0, sys.argv[1]); import registry; print(json.dumps([dict(name=p.name, "
            "timeout=p.timeout, about=p.about, rows=p.rows, module=p.module, own=p.jobs or {}) "
            "for p in registry.load().values()]))")
    out = subprocess.run([options.client_python, "-c", code, str(HERE)], env=quiet_environment(), check=True,
                         timeout=IMPORT_SECONDS, capture_output=True).stdout
    return json.loads(out.decode().strip().splitlines()[-1])


def write_readme(programs):
    path = HERE / "README.md"
    head = path.read_text().split("| program |")[0]
    rows = ["| program | rows | what it shows |", "|---|---|---|"]
    rows += [f"| `{p['module']}.{p['name']}` | {p['rows']} | {p['about']} |" for p in programs]
    path.write_text(head + "\n".join(rows) + "\n")


def run_all(options, programs, verbose):
    client, failed = None, []
    ClientProcess.timeouts = {p["name"]: p["timeout"] for p in programs}
    try:
        for p in programs:
            if client is None or not client.usable():
                client = ClientProcess(options)
            error, seconds = client.run(p["name"])
            print(f"{'FAIL' if error else 'ok  '} {p['module']}.{p['name']} ({seconds:.1f} s)", flush=True)
            if error:
                failed.append(p["name"])
                text = error if verbose else error.split("\n----\n")[0]
                print("    " + text.strip().replace("\n", "\n    "), flush=True)
    finally:
        if client is not None:
            client.end()
    print(f"{len(programs) - len(failed)} of {len(programs)} programs passed against {options.servers} servers"
          + (f"; failed: {' '.join(failed)}" if failed else ""))
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="tutti")
    parser.add_argument("--tutti", default=ROOT / "build/release/bin/tutti", type=Path)
    parser.add_argument("--client-python", default=ROOT / "build/peers/bin/python", type=Path)
    parser.add_argument("--server-python", type=Path, help="for TensorFlow's servers; the client's when not given")
    parser.add_argument("--log-dir", help="keeps the servers' logs there")
    parser.add_argument("--only", default="", help="a regular expression of programs")
    parser.add_argument("--skip", default="^$", help="a regular expression of programs")
    parser.add_argument("--verbose", action="store_true", help="whole traces of failures")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--readme", action="store_true")
    args = parser.parse_args()
    options = Options(args.servers, args.tutti.absolute(), args.client_python.absolute(),
                      args.server_python and args.server_python.absolute(), args.log_dir)
    programs = list_programs(options)
    if args.readme:
        write_readme(programs)
        return 0
    programs = [p for p in programs if re.search(args.only, p["name"]) and not re.search(args.skip, p["name"])]
    if args.list:
        for p in programs:
            print(f"{p['module']}.{p['name']}: {p['about']}")
        return 0
    return 0 if run_all(options, programs, args.verbose) else 1


if __name__ == "__main__":
    sys.exit(main())
