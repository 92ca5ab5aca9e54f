"""Lets PyTorch's wheel run on a machine without CUDA, sparing gigabytes of GPU libraries.

The wheel's libraries name CUDA libraries that the loader wants to see, though nothing in them is of use without a
GPU. This puts a small library in the place of each: every symbol that PyTorch wants from it, as a function that
answers "no device". Run with the virtual environment's Python, after `pip install --no-deps torch`.
"""
import collections
import pathlib
import re
import subprocess
import sysconfig

FOLDER = pathlib.Path(sysconfig.get_path("purelib")) / "torch" / "lib"
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|util|z|quadmath)|ld-linux-x86-64)\.so")
NO_DEVICE = 100  # cudaErrorNoDevice


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def needed(library):
    found = (re.search(r"\(NEEDED\).*\[(.+)\]", line) for line in lines("readelf", "-d", library))
    return [match.group(1) for match in found if match]


def symbols(library, *flags):
    """Names, with their versions where they have one: cublasCreate_v2@libcublas.so.13."""
    return {line.split()[-1].replace("@@", "@") for line in lines("nm", "-D", *flags, library)}


def version_owners(library):
    """Version name -> library that must define it."""
    owners, owner = {}, None
    for line in lines("readelf", "-V", library):
        if match := re.search(r"File: (\S+)", line):
            owner = match.group(1)
        elif match := re.search(r"Name: (\S+) +Flags", line):
            owners[match.group(1)] = owner
    return owners


def stub_source(names):
    body = "".join(f".globl {name}\n.type {name}, @function\n{name}:\n" for name in sorted(names))
    return f".text\n{body}mov ${NO_DEVICE}, %eax\nret\n.section .note.GNU-stack,\"\",@progbits\n"


def build_stub(soname, wanted):
    """wanted: version (or None) -> names."""
    source = FOLDER / f"{soname}.s"
    versions = FOLDER / f"{soname}.map"
    source.write_text(stub_source(set().union(*wanted.values())))
    versions.write_text("".join(f"{version} {{ {' '.join(name + ';' for name in sorted(names))} }};\n"
                                for version, names in wanted.items() if version))
    command = ["g++", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-o", FOLDER / soname, source]
    if versions.stat().st_size:
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)
    source.unlink()
    versions.unlink()


def main():
    libraries = sorted(FOLDER.glob("*.so*"))
    present = {library.name for library in libraries}
    missing = sorted({name for library in libraries for name in needed(library)} - present)
    missing = [name for name in missing if not SYSTEM.match(name)]
    defined = set().union(*(symbols(library, "--defined-only") for library in libraries))
    undefined = set().union(*(symbols(library, "--undefined-only") for library in libraries)) - defined

    owners = {version: owner for library in libraries for version, owner in version_owners(library).items()}

    wanted = collections.defaultdict(lambda: collections.defaultdict(set))
    for symbol in undefined:
        name, _, version = symbol.partition("@")
        if owners.get(version) in missing:
            wanted[owners[version]][version].add(name)
        elif not version and re.match(r"(cu|nv|nccl)", name):
            wanted[missing[0]][None].add(name)  # which one defines it does not matter
    for soname in missing:
        build_stub(soname, wanted[soname] or {None: set()})
    print(f"{len(missing)} CUDA libraries stubbed: {' '.join(missing)}")


if __name__ == "__main__":
    main()
