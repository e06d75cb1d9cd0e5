"""The subjects of commits: at most 72 characters, no full stop.

Looks at the commits after BASE. A tree without its history (an archive, a shallow clone, one that begins anew) has nothing to look at.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASE = "4a84eb903d6bced60923630aa35303ea1f5ef282"  # the rule holds for what came later
LONGEST = 72


def git(*arguments):
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def problems_of(subject):
    if len(subject) > LONGEST:
        yield f"has {len(subject)} characters; at most {LONGEST} are allowed: the rest goes into the body"
    if subject.endswith("."):
        yield "ends with a full stop"


def main():
    if git("merge-base", "--is-ancestor", BASE, "HEAD") is None:
        print("no history after the base here")
        return
    found = [f"{line.split(' ', 1)[0]}: the subject '{line.split(' ', 1)[1]}' {problem}"
             for line in (git("log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD") or "").splitlines()
             for problem in problems_of(line.split(" ", 1)[1])]
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
