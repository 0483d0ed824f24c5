#!/usr/bin/env python3
"""Runs every command of the README, block by block, as a reader would.

A fenced block marked "console" holds "$ " commands. Output that follows a command is held against what the command prints,
"..." standing for any lines. In a block marked "console measured" it holds what one machine measured: there the commands must
succeed and print a line with the same first word for every line of it. The scripts of a block marked "sh" must be there.
Usage: run_readme.py PIPEPLAN
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
    """The first word of a line: what stays where numbers and cuts differ from machine to machine."""
    word = re.search(r"[A-Za-z]+", line)
    return word.group(0) if word else ""


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
    return "no line with the first word of:\n" + "\n".join(missing) if missing else None


def is_there(script):
    """A script of the repository, or a benchmark, which is built from the source of its name."""
    bench = re.match(r"build/release/bench/bench_(\w+)$", script)
    return (ROOT / f"tools/bench/{bench.group(1)}.cpp").is_file() if bench else os.access(ROOT / script, os.X_OK)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    environment = dict(os.environ, NO_COLOR="1", PATH=f"{program.parent}:{os.environ['PATH']}")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for language, marks, block in FENCE.findall((ROOT / "README.md").read_text()):
            if language == "sh":
                missing = [line for line in block.splitlines() if line.strip() and not is_there(line.split()[0])]
                if missing:
                    print(f"README.md: '{missing[0]}' is not there or cannot be run")
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
