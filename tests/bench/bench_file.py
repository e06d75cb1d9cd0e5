"""What every benchmark here shares: the machine it ran on, medians, a dated result file."""

import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("RINGSHARD_TEST_BUILD", ROOT / "build" / "release"))
PYTHON = ROOT / ".deps" / "venv" / "bin" / "python"


def machine():
    with open("/proc/cpuinfo") as file:
        lines = file.read().splitlines()
    field = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}
    wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    # A virtual machine gives the same name to processors of several generations.
    generation = f", family {field['cpu family']} model {field['model']}" if "cpu family" in field else ""
    return {
        "processor": field.get("model name", platform.processor()) + generation,
        "cores": os.cpu_count(),
        "flags": [flag for flag in field.get("flags", "").split() if flag in wanted],
    }


def json_lines(command, **variables):
    """The JSON lines that a program prints."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMP_NUM_THREADS="1", **variables)
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def median(values):
    return statistics.median(values)


def write(name, what, command, rows):
    """tests/bench/results/<date>-<name>.json, and the rows as a table on the screen."""
    date = datetime.date.today().isoformat()
    path = ROOT / "tests" / "bench" / "results" / f"{date}-{name}.json"
    path.parent.mkdir(exist_ok=True)
    command = re.sub(r"(?<= )/\S+", "FOLDER", command)  # a path of this machine says nothing elsewhere
    content = {"what": what, "date": date, "command": command, "machine": machine(), "rows": rows}
    path.write_text(json.dumps(content, indent=1) + "\n")
    columns = list(rows[0])
    table = [columns] + [[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))
    print(f"written to {path.relative_to(ROOT)}")
