#!/usr/bin/env python3
"""Runs a command-line test: a text file of files, commands and what they must print.

    # a comment
    --- file layers.csv           the lines below, up to the next "---", become a file in the test's own folder
    a,b
    ---
    $ pipeplan show clusters      a command, run by bash with pipeplan on the PATH
    > a line of stdout            {*} stands for any text within a line
    ! a line of stderr
    ...                           any lines of the stream that was named last
    ? 3                           the exit code; 0 if not given

stdout and stderr must match completely. $SOURCE is the repository, $DATA and $CASES lead to the reference data; a test whose first line is
"# needs reference data" is skipped (exit 77) without them. Usage: run_cli_test.py PIPEPLAN FILE...
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
DATA = pathlib.Path(os.environ.get("PIPEPLAN_DATA", SHARED / "data"))
CASES = pathlib.Path(os.environ.get("PIPEPLAN_CASES", SHARED / "cases"))
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


class Step:
    def __init__(self, line, command):
        self.line, self.command, self.code = line, command, 0
        self.expected = {"stdout": [], "stderr": []}
        self.stream = "stdout"

    def expect(self, stream, text):
        self.stream = stream
        self.expected[stream].append(text)


def parse(text):
    files, steps, current = {}, [], None
    for number, line in enumerate(text.splitlines(), 1):
        if current is not None:
            if line.startswith("---"):
                current = None
            else:
                current.append(line)
                continue
        if line.startswith("--- file "):
            current = files.setdefault(line[len("--- file "):].strip(), [])
        elif line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif line.startswith(">"):
            steps[-1].expect("stdout", line[2:])
        elif line.startswith("!"):
            steps[-1].expect("stderr", line[2:])
        elif line == "...":
            steps[-1].expect(steps[-1].stream, line)
        elif line.startswith("? "):
            steps[-1].code = int(line[2:])
        elif line.strip() not in ("", "---") and not line.startswith("#"):
            raise SystemExit(f"line {number}: neither file, command, output nor comment: {line}")
    return files, steps


def pattern_of(lines):
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(piece) for piece in line.split("{*}")) + "\n")
    return re.compile("".join(parts) + r"\Z")


def run_step(step, folder, environment):
    ran = subprocess.run(["bash", "-c", step.command], cwd=folder, env=environment, capture_output=True, timeout=300)
    seen = {"stdout": ran.stdout.decode(errors="replace"), "stderr": ran.stderr.decode(errors="replace")}
    faults = []
    if ran.returncode != step.code:
        faults.append(f"exit code {ran.returncode}, wanted {step.code}")
    for stream, text in seen.items():
        if not text.endswith("\n") and text:
            text += "\n"
        if not pattern_of(step.expected[stream]).match(text):
            wanted = "\n".join(step.expected[stream])
            faults.append(f"{stream} differs; wanted:\n{wanted}\nseen:\n{text}")
    if faults and not any(f.startswith("stderr") for f in faults):
        faults.append(f"stderr was:\n{seen['stderr']}")
    return faults


def run_test(program, path):
    text = path.read_text()
    if text.startswith("# needs reference data") and not (DATA.is_dir() and CASES.is_dir()):
        print("skipped: no reference data (set PIPEPLAN_DATA and PIPEPLAN_CASES)")
        return SKIPPED
    files, steps = parse(text)
    if not steps:
        print(f"{path}: no command in it")
        return 1
    environment = dict(os.environ, DATA=str(DATA), CASES=str(CASES), SOURCE=str(SOURCE), NO_COLOR="1",
                       PATH=f"{pathlib.Path(program).resolve().parent}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in files.items():
            (pathlib.Path(folder) / name).write_text("".join(line + "\n" for line in lines))
        for step in steps:
            faults = run_step(step, folder, environment)
            if faults:
                print(f"{path}:{step.line}: $ {step.command}\n" + "\n".join(faults))
                return 1
    print(f"{path.name}: {len(steps)} commands as they must be")
    return 0


def main():
    results = [run_test(sys.argv[1], pathlib.Path(name)) for name in sys.argv[2:]]
    return max(results, default=1)


if __name__ == "__main__":
    sys.exit(main())
