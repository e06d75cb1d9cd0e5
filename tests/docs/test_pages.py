"""Pages can be read and compared by line: none over 140 characters outside of tables and code, and one sentence a line in contract.md.

Every link to a file, or to a heading of a page, leads there. docs/architecture.md lists all modules, scripts and folders of sources,
and docs/modules.md all public headers.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LONGEST = 140
GENERATED = {"settings.md"}  # by `trainer help markdown`: a line for each setting
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def prose(text):
    """Numbers and lines of a page that are neither in a table nor in code."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.startswith("```")
        if not code and not line.startswith(("|", "```", "Measured: ")):  # scripts/performance_tables.py writes the last
            yield number, line


def outside(line):
    """The line without what is in `code`, and without parentheses: sentences end outside of both."""
    line = re.sub(r"`[^`]*`", "code", line)
    while (shorter := re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", line)) != line:
        line = shorter
    return line


def headings(page):
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def dead_links(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "code", page.read_text())):
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        if "://" not in link and not (target.exists() and (not heading or heading in headings(target))):
            yield f"{page.name} links to {link}, which is not there"


def missing_in_architecture():
    """The page lists every module, every script, and every folder of sources."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = {path.name for path in (ROOT / "scripts").iterdir() if path.is_file()}
    names |= {path.name for path in (ROOT / "src").rglob("*") if path.is_dir()}
    yield from (f"architecture.md does not name {name}" for name in sorted(names) if name not in page)
    modules = [path.name for path in (ROOT / "src").iterdir() if path.is_dir()]
    yield from (f"architecture.md has no row of the module {name}" for name in sorted(modules) if f"\n| {name} | " not in page)


def missing_in_modules():
    """docs/modules.md has the public headers of each module, and no others."""
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", (ROOT / "docs" / "modules.md").read_text(), re.MULTILINE | re.DOTALL))
    for folder in sorted([*(ROOT / "include" / "ringshard").iterdir(), ROOT / "text" / "include" / "ringshard" / "text"]):
        rows = [line.split("|")[1] for line in sections.get(folder.name, "").splitlines() if line.startswith("| `")]
        listed = re.findall(r"`(\w+\.hpp)`", "".join(rows))
        there = {path.name for path in folder.glob("*.hpp")}
        yield from (f"modules.md, {folder.name}: {name} is missing" for name in sorted(there - set(listed)))
        yield from (f"modules.md, {folder.name}: there is no {name}" for name in sorted(set(listed) - there))


def main():
    bad = [*missing_in_architecture(), *missing_in_modules()]
    for page in PAGES:
        bad += dead_links(page)
    for page in PAGES:
        if page.name in GENERATED:
            continue
        for number, line in prose(page.read_text()):
            if len(line) > LONGEST:
                bad.append(f"{page.name}:{number} has {len(line)} characters; at most {LONGEST} outside of tables")
            if page.name == "contract.md" and not line.startswith("#") and re.search(r"(?<!\.)[.?!] +(?=[A-Z])", outside(line)):
                bad.append(f"{page.name}:{number} has more than one sentence: {line}")
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
