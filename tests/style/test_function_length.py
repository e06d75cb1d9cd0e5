#!/usr/bin/env python3
"""A function fits a screen: at most 60 lines. Tables of options and the texts of pages are no functions to read.

Relies on scripts/format: a function begins at the indent of its namespace or class, and ends with a brace of its own at that indent.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 60
TABLES = re.compile(r"^src/config/options/\w+\.cpp: add_\w+_options$|^src/report/page_(style|script)\.cpp: ")
CONTAINER = re.compile(r"\b(namespace|struct|class|enum|union|extern)\b")
NAME = re.compile(r"([\w~]+|operator\S+)\(")


def is_end_of_another(line):
    return not line.strip() or line.rstrip().endswith((";", "{", "}", ":")) or line.lstrip().startswith(("//", "#"))


def functions_of(lines):
    """(name, number of its first line, its number of lines)"""
    for last, line in enumerate(lines):
        if not re.fullmatch(r"(    )?\}", line):
            continue
        indent = line[:-1]
        first = last - 1
        while first >= 0 and (not lines[first].strip() or lines[first].startswith((indent + " ", "#")) or not lines[first].startswith(indent)):
            first -= 1
        if first < 0 or not lines[first].endswith("{"):
            continue
        opening = first
        while first > 0 and not is_end_of_another(lines[first - 1]):
            first -= 1
        head = " ".join(lines[first:opening + 1])
        name = NAME.search(head)
        if name and not CONTAINER.search(head.split("(")[0]):
            yield name[1], first + 1, last - first + 1


def main():
    too_long, count = [], 0
    sources = [path for folder in ("src", "text/src", "include", "text/include") for path in sorted((ROOT / folder).rglob("*"))
               if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"}]
    for path in sources:
        place = path.relative_to(ROOT).as_posix()
        for name, line, length in functions_of(path.read_text().splitlines()):
            count += 1
            if length > LONGEST and not TABLES.search(f"{place}: {name}"):
                too_long.append(f"{place}:{line}: {name} has {length} lines, and a function at most {LONGEST}: take a part of it out")
    if count < 3000:
        too_long.append(f"only {count} functions were found: does this test still read the form that scripts/format writes?")
    sys.exit("\n".join(too_long) or 0)


if __name__ == "__main__":
    main()
