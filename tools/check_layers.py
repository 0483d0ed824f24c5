#!/usr/bin/env python3
"""Checks that folders include each other only leftwards: models, profiler, planner, simulator, executor, tools.

tests/ may include all, nothing includes tests/ but tests/. Heavy third-party headers stay out of our headers, and Boost,
Eigen and CLI11 stay in the folders that own them, CUDA in those of the plug-in. Prints each offence as file:line and
exits 1 if there is any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ["models", "profiler", "planner", "simulator", "executor", "tools"]
# Third-party headers and where they may be included: folders, and whether headers may.
THIRD_PARTY = {
    "boost/": ({"models"}, False),
    "Eigen/": ({"models"}, True),
    "CLI/": ({"tools"}, False),
    "nlohmann/json.hpp": (set(ORDER), False),
    "xxhash.h": ({"models"}, False),
    "doctest/": (set(), False),
}
# Headers of CUDA: in the plug-in's folders alone.
CUDA = re.compile(r"^(cuda|cublas|cupti|nvtx)\w*(\.h|/)|^(driver_types|vector_types)\.h$")
SOURCES = {".cpp", ".hpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def offences(path):
    folder = path.relative_to(ROOT).parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        place = f"{path.relative_to(ROOT)}:{number}"
        head = target.split("/")[0]
        if match.group(1) == '"':
            if head not in ORDER + ["tests"] or not (ROOT / target).is_file():
                yield f'{place}: "{target}" is not a path from the root'
            elif "/cuda/" in target and folder != "tests" and "cuda" not in path.relative_to(ROOT).parts:
                yield f"{place}: {target} is the plug-in's: nothing outside it may include it"
            elif folder != "tests" and (head == "tests" or ORDER.index(head) > ORDER.index(folder)):
                yield f"{place}: {folder} includes {target}, which lies to its right"
            continue
        if folder != "tests" and CUDA.match(target) and "cuda" not in path.relative_to(ROOT).parts:
            yield f"{place}: <{target}> belongs in a folder named cuda"
        for prefix, (folders, headers) in THIRD_PARTY.items():
            if folder == "tests" or not target.startswith(prefix):
                continue
            if folder not in folders:
                yield f"{place}: <{target}> does not belong in {folder}"
            elif path.suffix in {".hpp", ".cuh"} and not headers:
                yield f"{place}: <{target}> is too heavy for a header"


def main():
    found = []
    for folder in ORDER + ["tests"]:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SOURCES:
                found.extend(offences(path))
    print("\n".join(found) if found else "layers: every include leads left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
