"""What docs/troubleshooting.md quotes, the program says."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def words_of_the_program():
    text = ""
    for folder, pattern in (("src", "*.?pp"), ("text/src", "*.?pp"), ("slurm", "*.sh")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            text += path.read_text()
    return re.sub(r'"\s*\n\s*"', "", text)  # a text in several pieces


def main():
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    quotes = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    said = words_of_the_program()
    unknown = [piece.strip() for quote in quotes for piece in quote.split("...") if piece.strip() and piece.strip() not in said]
    print("\n".join(f"docs/troubleshooting.md quotes '{piece}', which nothing says" for piece in unknown))
    sys.exit(1 if unknown or len(quotes) < 10 else 0)


if __name__ == "__main__":
    main()
