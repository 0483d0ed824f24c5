#!/usr/bin/env python3
"""Checks which libraries must be there for a program to start: none of CUDA for pipeplan, and neither driver nor CUPTI
for its CUDA plug-in. Arguments: the program, then the plug-in where there is one. Prints each offence and exits 1."""
import re
import subprocess
import sys

CUDA_LIBRARY = re.compile(r"lib(cuda|cudart|cupti|cublas|cublasLt|nv\w*)\.so")
FOUND_AT_RUN_TIME = re.compile(r"lib(cuda|cupti|nv\w*)\.so")


def needed(path):
    """What the file names itself; what those need in turn is theirs."""
    text = subprocess.run(["readelf", "--dynamic", "--wide", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def loaded(path):
    """All that the loader would load, by name."""
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in text.splitlines()]


def exported(path):
    text = subprocess.run(["nm", "--dynamic", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in text.splitlines()]


def offences(program, plugin):
    for library in needed(program) + loaded(program):
        if CUDA_LIBRARY.match(library):
            yield f"{program}: needs {library}, but must start without CUDA"
    if plugin is None:
        return
    for library in needed(plugin):
        if FOUND_AT_RUN_TIME.match(library):
            yield f"{plugin}: needs {library}, which is to be found at run time"
    names = exported(plugin)
    if names != ["pipeplan_cuda_backend"]:
        yield f"{plugin}: exports {', '.join(names[:5])}, wanted pipeplan_cuda_backend alone"


def main():
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__)
        return 2
    found = list(offences(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else None))
    print("\n".join(found) if found else "linkage: nothing of CUDA is needed to start")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
