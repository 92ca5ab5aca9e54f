"""Clusters of real server processes: `tutti server`, or TensorFlow's own servers, or some of each.

A Cluster owns its processes and ends them by id. It needs no TensorFlow itself.
"""
import copy
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
START_SECONDS = 120  # a TensorFlow server on a busy machine takes many seconds to import itself
PR_SET_PDEATHSIG = 1


class HarnessError(Exception):
    pass


class Options:
    """How servers and clients are started.

    servers: "tutti", "tensorflow", or "ps=tutti,worker=tensorflow" for a mixed cluster. tutti_flags: more words for
    `tutti server`, in one string. log_dir: where the servers' output is kept; else it goes with the cluster.
    """

    def __init__(self, servers="tutti", tutti=ROOT / "build/release/bin/tutti", client_python=sys.executable,
                 server_python=None, log_dir=None, tutti_flags=""):
        self.servers = servers
        self.tutti = str(tutti)
        self.tutti_flags = tutti_flags
        self.client_python = str(client_python)
        self.server_python = str(server_python or client_python)
        self.log_dir = log_dir
        for kind in self._kinds().values():
            if kind not in ("tutti", "tensorflow"):
                raise HarnessError(f"--servers: unknown kind {kind!r}")

    def _kinds(self):
        if "=" not in self.servers:
            return {"*": self.servers}
        return dict(part.split("=", 1) for part in self.servers.split(","))

    def kind(self, job):
        kinds = self._kinds()
        if job not in kinds and "*" not in kinds:
            raise HarnessError(f"--servers {self.servers} does not say what runs job {job}")
        return kinds.get(job, kinds.get("*"))

    def only(self):
        """"tutti" or "tensorflow" where all servers are of that kind, else "mixed"."""
        kinds = set(self._kinds().values())
        return kinds.pop() if len(kinds) == 1 else "mixed"

    def with_flags(self, tutti_flags):
        """The same, with more words for `tutti server`."""
        more = copy.copy(self)
        more.tutti_flags = f"{self.tutti_flags} {tutti_flags}"
        return more

    def to_json(self):
        return json.dumps({key: None if value is None else str(value) for key, value in vars(self).items()})

    @staticmethod
    def from_json(text):
        return Options(**json.loads(text))


def die_with_parent():
    """For a child, before exec: it does not outlive whoever started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


HELD_SOCKETS = []


def free_ports(count):
    """Ports that nothing listens on, and that stay ours until this program ends: bound sockets that do not listen hold
    them, so that the system gives them to nobody else, while a server that asks for one with SO_REUSEADDR gets it."""
    sockets = [socket.socket() for _ in range(count)]
    HELD_SOCKETS.extend(sockets)
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
    return [s.getsockname()[1] for s in sockets]


def quiet_environment():
    env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="", PYTHONUNBUFFERED="1")
    env.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same sums from run to run; benchmarks set what is fast
    env.pop("TF_CONFIG", None)
    return env


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise HarnessError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


class Task:
    """One server process; restart() starts another at the same address."""

    def __init__(self, cluster, job, index):
        self.cluster, self.job, self.index = cluster, job, index
        self.kind = cluster.options.kind(job)
        self.address = cluster.spec[job][index]
        self.log_path = Path(cluster.log_dir) / f"{job}_{index}_{self.address.rsplit(':', 1)[1]}.log"
        self.process = None
        self.log_seen = 0

    @property
    def pid(self):
        return self.process.pid

    def command(self):
        if self.kind == "tutti":
            start = [self.cluster.options.tutti, "server", *self.cluster.options.tutti_flags.split()]
        else:
            start = [self.cluster.options.server_python, str(HERE / "tf_server.py")]
        role = ["--job_name", self.job, "--task_index", str(self.index)]
        if self.cluster.how == "json":
            return start + ["--cluster", json.dumps(self.cluster.spec)] + role
        if self.cluster.how == "hosts":
            return start + [f"--{job}_hosts={','.join(hosts)}" for job, hosts in self.cluster.spec.items()] + role
        return start

    def environment(self):
        env = quiet_environment()
        if self.cluster.how == "tf_config":
            env["TF_CONFIG"] = json.dumps(
                {"cluster": self.cluster.spec, "task": {"type": self.job, "index": self.index}})
        return env

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment(), cwd=self.cluster.folder,
                                            preexec_fn=die_with_parent)

    def wait_listening(self, seconds=START_SECONDS):
        def listening():
            if self.process.poll() is not None:
                raise HarnessError(
                    f"{self.job}:{self.index} ended with {self.process.returncode}: {self.log()[-2000:]}")
            try:
                host, port = self.address.rsplit(":", 1)
                socket.create_connection((host, int(port)), timeout=1).close()
                return True
            except OSError:
                return False

        wait_until(listening, seconds, f"{self.job}:{self.index} to listen on {self.address}")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        self.kill()
        self.start()
        self.wait_listening()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def new_log(self):
        """What it wrote since the last call."""
        text = self.log()
        fresh, self.log_seen = text[self.log_seen:], len(text)
        return fresh

    def memory_bytes(self):
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise HarnessError(f"no memory size of process {self.pid}")

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cluster:
    """`jobs` is {"ps": 2, "worker": 3}. `how` servers learn of it: "json", "hosts" or "tf_config". Relative paths that
    they write to begin in `folder`."""

    def __init__(self, options, jobs, how="json", start=True, folder=None):
        self.options, self.how, self.folder = options, how, folder
        self._folder = None
        if options.log_dir is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cluster_")
        self.log_dir = options.log_dir or self._folder.name
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        ports = iter(free_ports(sum(jobs.values())))
        self.spec = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}
        self.tasks = {(job, i): Task(self, job, i) for job, count in jobs.items() for i in range(count)}
        if start:
            self.start()

    def start(self):
        try:
            for task in self.tasks.values():
                task.start()
            for task in self.tasks.values():
                task.wait_listening(START_SECONDS * (1 + len(self.tasks) / 8))
        except BaseException:
            self.stop()
            raise

    def task(self, job, index=0):
        return self.tasks[job, index]

    def target(self, job="worker", index=0):
        return "grpc://" + self.spec[job][index]

    def alive(self):
        return all(task.process is not None and task.process.poll() is None for task in self.tasks.values())

    def dead(self):
        """The tasks that ended, with the ends of their logs."""
        return {f"{t.job}:{t.index}": (t.process.returncode, t.log()[-2000:])
                for t in self.tasks.values() if t.process is not None and t.process.poll() is not None}

    def new_logs(self):
        """What each task wrote since the last call, if anything."""
        logs = {f"{t.job}:{t.index}": t.new_log() for t in self.tasks.values()}
        return {task: text for task, text in logs.items() if text.strip()}

    def client(self, function, *arguments):
        """Starts another client process that calls `function(cluster, *arguments)` of a programs module."""
        return Client(self, function, arguments)

    def stop(self):
        for task in self.tasks.values():
            task.kill()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()


class ClusterView:
    """A cluster that another process owns."""

    def __init__(self, spec):
        self.spec = spec

    def target(self, job="worker", index=0):
        return "grpc://" + self.spec[job][index]


class Client:
    """A second client process. result() gives what its function returned."""

    def __init__(self, cluster, function, arguments):
        name = f"{function.__module__}:{function.__qualname__}"
        self.name = name
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [cluster.options.client_python, str(HERE / "client.py"), "--call", name, json.dumps(cluster.spec),
             json.dumps(arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr,
            env=quiet_environment(), preexec_fn=die_with_parent)

    def result(self, seconds=120):
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise HarnessError(f"client {self.name} did not end in {seconds} s: {self._errors()}") from None
        if self.process.returncode != 0:
            raise HarnessError(f"client {self.name} ended with {self.process.returncode}: {self._errors()}")
        return json.loads(out.decode().strip().splitlines()[-1])

    def _errors(self):
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-3000:]

    def kill(self):
        self.process.kill()
        self.process.wait()
