#!/usr/bin/env python3
"""Checks what a compiler does not: sizes of files and functions, how headers open, where code may lie, test names,
leftover marks, and the format where clang-format 14 is installed. Prints each offence as file:line, exits 1 if any."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["models", "profiler", "planner", "simulator", "executor", "tools", "tests"]
LONGEST_FILE = 500
LONGEST_FUNCTION = 60
LONGEST_LINE = 120
TEST_NAME = re.compile(r'^\s*TEST_CASE(?:_TEMPLATE)?\("([^"]*)"')
GOOD_NAME = re.compile(r"^[A-Za-z0-9_ :=,.()/+-]*$")
LEFT_OPEN = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|not implemented|unimplemented")


def function_lengths(lines):
    """(first line, length) of every brace block that opens after a parameter list: a function or a lambda's body."""
    stack = []
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', "", line)
        for char in code:
            if char == "{":
                before = code[: code.index("{")].rstrip()
                is_function = bool(re.search(r"\)\s*(const|noexcept|override|final|mutable|\s)*(->\s*[\w:<>,\s]+)?$", before))
                is_function = is_function and not re.match(r"\s*(if|for|while|switch|namespace|else|TEST_SUITE)\b", code)
                stack.append((number, is_function))
            elif char == "}" and stack:
                start, is_function = stack.pop()
                if is_function:
                    yield start, number - start + 1


def check_file(path):
    name = path.relative_to(ROOT)
    lines = path.read_text().splitlines()
    if len(lines) > LONGEST_FILE:
        yield f"{name}:1: {len(lines)} lines, at most {LONGEST_FILE}"
    if path.suffix in {".hpp", ".cuh"}:
        if not lines or lines[0] != "#pragma once":
            yield f"{name}:1: a header opens with #pragma once"
        elif len(lines) < 3 or not lines[2].startswith("//"):
            yield f"{name}:3: a header says in its first sentences what it is"
    for start, length in function_lengths(lines):
        if length > LONGEST_FUNCTION:
            yield f"{name}:{start}: a function of {length} lines, at most {LONGEST_FUNCTION}"
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            yield f"{name}:{number}: {len(line)} columns, at most {LONGEST_LINE}"
        if LEFT_OPEN.search(line) and path.name != "check_style.py":
            yield f"{name}:{number}: a mark left open"
        test = TEST_NAME.match(line)
        if test and not GOOD_NAME.match(test.group(1)):
            yield f"{name}:{number}: test name '{test.group(1)}' has characters that ctest garbles"


def check_places():
    for path in ROOT.iterdir():
        if path.is_dir() and path.name not in FOLDERS + [".git", ".ci", "build", ".cache"] and not path.name.startswith("build"):
            yield f"{path.name}: not a folder of this project"
    for folder in FOLDERS:
        if not (ROOT / folder / "README.md").is_file():
            yield f"{folder}: no README.md"


def check_format(files):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if "version 14" not in version:
        print("format not checked: clang-format 14 is not installed (other versions format differently)")
        return
    result = subprocess.run([tool, "--dry-run", "-Werror", *map(str, files)], capture_output=True, text=True)
    for line in sorted({":".join(line.split(":")[:2]) for line in result.stderr.splitlines() if "error:" in line}):
        yield f"{line}: not formatted"


def main():
    sources = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*")) if p.suffix in {".cpp", ".hpp", ".cu", ".cuh"}]
    found = [offence for path in sources for offence in check_file(path)]
    found += [*check_places(), *check_format(sources)]
    print("\n".join(found) if found else f"style: {len(sources)} files are fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
