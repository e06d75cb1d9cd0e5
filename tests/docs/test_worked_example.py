"""scripts/worked-example comes to its end, and the model has learned to answer: on SLURM or with mpirun, as the argument says."""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from trainer import clean_environment  # noqa: E402

UNAVAILABLE, SKIPPED = 69, 77


def main():
    where = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="worked-example-") as folder:
        result = subprocess.run(["bash", str(ROOT / "scripts" / "worked-example"), "--on", where, f"{folder}/example"],
                                env=clean_environment(PYTHON=sys.executable), capture_output=True, text=True, timeout=280)
    print(result.stdout + result.stderr)
    if result.returncode == UNAVAILABLE:
        sys.exit(SKIPPED)
    assert result.returncode == 0, result.returncode
    said = result.stdout
    assert re.search(r"resuming from \S+/checkpoint-\d+$", said, re.MULTILINE)
    assert len(re.findall(r"^checkpoint-\d+ +whole, of attempt [12]$", said, re.MULTILINE)) == 10
    assert re.search(r"^answers +There are \d windows in the market\.$", said, re.MULTILINE)
    assert where == "mpirun" or "restart 1: ends with 0" in said


if __name__ == "__main__":
    main()
