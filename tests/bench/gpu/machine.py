"""For scripts/gpu-check: the GPUs of the machine, and where LibTorch's libraries are."""

import json
import os
import pathlib
import subprocess
import sys


def torch_of_python():
    return next((pathlib.Path(path) / "torch" for path in sys.path if (pathlib.Path(path) / "torch" / "lib").exists()), None)


def library_folders():
    torch = torch_of_python()
    if torch is None:
        return []
    return [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]


def variables_of_programs():
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 # Containers may forbid a process to read another one's memory, and Open MPI finds out too late.
                 "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                 # As the program sets it: tests and benchmarks, and PyTorch, load their libraries before they could.
                 "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    if torch_of_python() is not None:
        variables["RINGSHARD_TORCH_DIR"] = str(torch_of_python())
    return {name: value for name, value in variables.items() if name not in os.environ}


def gpu_facts():
    query = "name,memory.total,driver_version,clocks.max.sm,power.limit,compute_cap"
    try:
        text = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True,
                              check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return gpu_facts_of_torch()
    return [dict(zip(query.split(","), [field.strip() for field in line.split(",")])) for line in text.splitlines()]


def gpu_facts_of_torch():
    """Containers without nvidia-smi have GPUs all the same."""
    program = """
import json, torch
gpus = [torch.cuda.get_device_properties(gpu) for gpu in range(torch.cuda.device_count())]
print(json.dumps([{"name": gpu.name, "memory.total": f"{gpu.total_memory >> 20} MiB",
                   "compute_cap": f"{gpu.major}.{gpu.minor}"} for gpu in gpus]))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return json.loads(found.stdout) if found.returncode == 0 else []
