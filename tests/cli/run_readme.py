#!/usr/bin/env python3
"""Runs every command of the README, block by block, as a reader would.

A fenced block marked "console" holds "$ " commands. Where output follows a command it is held against what the command
prints, "..." standing for any lines; numbers that a machine measures are written {*} nowhere, so blocks with such numbers
are marked "console measured" and only have to succeed and to print lines of the same shape (digits and times ignored).
The two set-up commands of a block marked "sh" are checked to exist and to be executable. Usage: run_readme.py PIPEPLAN
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)(.*?)\n(.*?)^```", re.M | re.S)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from run_cli_test import pattern_of  # noqa: E402


def shape(line):
    """A line without what a measurement changes: numbers, units, runs of spaces and rules."""
    line = re.sub(r"\d+(\.\d+)?", "0", line)
    line = re.sub(r"\b0 (ns|us|ms|s|B|KiB|MiB|GiB)\b", "0", line)
    return re.sub(r"[-+]?0|[-\s]+", " ", line).split()


def commands_of(block):
    found = []
    for line in block.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            found.append((re.sub(r"\s+", " ", line[2:]), []))
        elif found:
            found[-1][1].append(line)
    return found


def check_output(seen, expected, measured):
    while expected and not expected[-1].strip():
        expected.pop()
    if not expected:
        return None
    if not measured:
        return None if pattern_of(expected).match(seen) else "\n".join(expected)
    wanted = [line for line in expected if line.strip() and line != "..."]
    shapes = [shape(line) for line in seen.splitlines()]
    missing = [line for line in wanted if shape(line) not in shapes]
    return "no line of the shape of:\n" + "\n".join(missing) if missing else None


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    environment = dict(os.environ, NO_COLOR="1", PATH=f"{program.parent}:{os.environ['PATH']}")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for language, marks, block in FENCE.findall((ROOT / "README.md").read_text()):
            if language == "sh":
                for line in block.split("\n"):
                    script = line.split("#")[0].strip()
                    if script and not (script.split()[0].startswith("bench/") or os.access(ROOT / script.split()[0], os.X_OK)):
                        print(f"README.md: '{script}' is not there or cannot be run")
                        return 1
            if language != "console":
                continue
            for command, expected in commands_of(block):
                ran = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=600)
                count += 1
                seen = ran.stdout.decode()
                wrong = check_output(seen, expected, "measured" in marks)
                if ran.returncode != 0 or wrong:
                    print(f"README.md: $ {command}\nexit code {ran.returncode}\n{ran.stderr.decode()}\n"
                          f"wanted:\n{wrong or ''}\nseen:\n{seen}")
                    return 1
    print(f"README.md: {count} commands ran")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
