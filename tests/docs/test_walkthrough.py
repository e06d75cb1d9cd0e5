"""The excerpts of docs/walkthrough.md are in the files that they name, line by line; `// ...` stands for lines that are left out."""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The step, a block forward and backward, a gather, a ring step, a save.
SHOWN = {"src/train/trainer.cpp", "src/model/block.cpp", "src/shard/zero.cpp", "src/attention/ring_attention.cpp",
         "src/checkpoint/save_job.cpp"}
EXCERPT = re.compile(r"^<!-- excerpt of (\S+) -->\n```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def stripped(text):
    return "\n".join(line.strip() for line in text.strip().splitlines())


def main():
    page = (ROOT / "docs" / "walkthrough.md").read_text()
    bad, found = [], EXCERPT.findall(page)
    for file, excerpt in found:
        source, begin = stripped((ROOT / file).read_text()), 0
        for piece in re.split(r"^\s*// \.\.\.$", excerpt, flags=re.MULTILINE):
            piece = stripped(textwrap.dedent(piece))
            at = source.find(piece, begin)
            if at < 0:
                bad.append(f"{file} does not have, in this order:\n{textwrap.indent(piece, '    ')}")
                break
            begin = at + len(piece)
    bad += [f"there is no excerpt of {file}" for file in sorted(SHOWN - {file for file, _ in found})]
    if len(found) != page.count("```cpp"):
        bad.append("an excerpt does not name its file")
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
