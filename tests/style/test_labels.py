"""Every test is labelled by its folder, so that `ctest -L shard` runs those of one module."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


# The folder of the CMakeLists.txt from which a test was added: the outermost file of the backtrace below tests/ that is not tests/ itself,
# or text/tests.
def folder_of(test, graph):
    folder = None
    node = test.get("backtrace")
    while node is not None:
        entry = graph["nodes"][node]
        file = pathlib.Path(graph["files"][entry["file"]])
        if ROOT / "tests" in file.parents and file.parent != ROOT / "tests":
            folder = file.parent.name
        elif file.parent == ROOT / "text" / "tests":
            folder = "text"
        node = entry.get("parent")
    return folder


def main(build, ctest):
    listed = json.loads(subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout)
    bad = []
    for test in listed["tests"]:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        folder = folder_of(test, listed["backtraceGraph"])
        if folder not in labels:
            bad.append(f"{test['name']} lacks the label of its folder, {folder}: it has {labels}")
    print("\n".join(bad))
    sys.exit(1 if bad or len(listed["tests"]) < 50 else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
