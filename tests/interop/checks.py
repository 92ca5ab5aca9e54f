"""Counted checks of one program: their failures are printed when they happen, and `report` gives the exit status."""
import subprocess
import tempfile

TIMEOUT_S = 120

_made = 0
_failed = 0


def check(good, what):
    global _made, _failed
    _made += 1
    if not good:
        _failed += 1
        print(f"FAILED: {what}")


def same(got, expected, what):
    check(got == expected, f"{what}: {got!r}, not {expected!r}")


def run_tool(program, *args):
    """What the program printed; that it ends well is a check."""
    done = subprocess.run([program, *map(str, args)], capture_output=True, timeout=TIMEOUT_S, check=False)
    check(done.returncode == 0, f"{args[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def run_parts(parts):
    """Each part is a function of an empty folder."""
    for part in parts:
        made, failed = _made, _failed
        with tempfile.TemporaryDirectory() as folder:
            part(folder)
        print(f"{part.__name__}: {_made - made} checks, {_failed - failed} failures")


def report(name):
    print(f"{name}: {_made} checks, {_failed} failures")
    return 1 if _failed or not _made else 0
