"""The list of programs, filled by the modules of programs/."""
import dataclasses
import importlib
from typing import Callable, Optional

MODULES = ("listings", "values", "training", "control_flow", "shared_state", "errors", "sessions", "callables",
           "output", "semantics", "failures", "replicas")
SHARED_JOBS = {"ps": 2, "worker": 3}


@dataclasses.dataclass
class Program:
    name: str
    run: Callable
    timeout: int  # seconds
    jobs: Optional[dict]  # None: it runs on the cluster that all share
    how: str  # how the servers learn of their own cluster
    tutti_flags: str  # more words for Tutti's servers
    about: str
    rows: str  # of the seeds' listings

    @property
    def module(self):
        return self.run.__module__.rsplit(".", 1)[-1]


PROGRAMS = {}


def program(function=None, *, timeout=60, jobs=None, how="json", tutti_flags="", rows=""):
    """Marks `function(cluster)` as a client program; it fails by raising. With `jobs` it gets a cluster of its own,
    which it may break; `tutti_flags` are for that."""

    def add(f):
        about = " ".join((f.__doc__ or "").split())
        PROGRAMS[f.__name__] = Program(f.__name__, f, timeout, jobs, how, tutti_flags, about, rows)
        return f

    return add if function is None else add(function)


def load():
    for module in MODULES:
        importlib.import_module(f"programs.{module}")
    return PROGRAMS
