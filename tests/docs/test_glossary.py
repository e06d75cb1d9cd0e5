"""docs/glossary.md holds to the code: each file exists and has the name."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROW = re.compile(r"^\| (?P<term>[^|]+) \| `(?P<name>\w+)` \| [^|]+ \| `(?P<file>[\w/.]+)` \|$")
FEWEST = 40  # rows


def main():
    bad = []
    names = set()
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        if not line.startswith("| ") or line.startswith("| the field says"):
            continue
        row = ROW.match(line)
        if not row:
            bad.append(f"no row of term, name, meaning and file: {line}")
            continue
        file = ROOT / row["file"]
        if not file.is_file():
            bad.append(f"{row['term']}: there is no file {row['file']}")
        elif not re.search(rf"\b{row['name']}\b", file.read_text()):
            bad.append(f"{row['term']}: {row['file']} does not have {row['name']}")
        names.add((row["name"], row["file"]))
    print("\n".join(bad))
    sys.exit(1 if bad or len(names) < FEWEST else 0)


if __name__ == "__main__":
    main()
