"""For scripts/gpu-check: what no program runs without. The loopback interface, the allocator, libraries off a cold disk."""

import os
import pathlib
import shutil
import subprocess
import sys

from checks import last_line
from machine import library_folders, torch_of_python

LOOPBACK = pathlib.Path("/sys/class/net/lo/flags")
IS_UP = 1


def is_loopback_up():
    return LOOPBACK.exists() and bool(int(LOOPBACK.read_text(), 16) & IS_UP)


def look_at_loopback(check):
    """MPI_Init fails without a network interface, in every program, `trainer doctor` included. Root may start it."""
    if not is_loopback_up() and shutil.which("ip"):
        subprocess.run(["ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    check.judge("loopback interface", is_loopback_up(), "the interface lo is down, and MPI_Init fails without it: ip link set lo up")


def look_at_allocator(check):
    """Expandable segments need virtual memory management, which a virtual machine may lack: each allocation fails then."""
    if "PYTORCH_ALLOC_CONF" in os.environ:
        return check.skip("expandable segments", f"PYTORCH_ALLOC_CONF is {os.environ['PYTORCH_ALLOC_CONF']} already")
    if torch_of_python() is None:
        return check.skip("expandable segments", "this Python has no torch")
    allocate = [sys.executable, "-c", "import torch; torch.empty(1 << 30, dtype=torch.uint8, device='cuda'); "
                                      "print(torch.cuda.mem_get_info())"]
    code, output = check.attempt(allocate, 60)
    if code is None:
        return check.skip("expandable segments", "PyTorch took too long to start; they stay on")
    if code == 0:
        return check.judge("expandable segments", True, output)
    check.variables["PYTORCH_ALLOC_CONF"] = "expandable_segments:False"
    check.skip("expandable segments", f"this machine has none, so they are off: {last_line(output)}")
    return check.run("memory of the GPU without expandable segments", allocate, most=30)


class ReadAhead:
    """Reads LibTorch's and CUDA's libraries, some 2.5 GB, while other things are looked at: the first program would wait for the
    disk."""

    def __enter__(self):
        files = [str(file) for folder in library_folders() for file in sorted(folder.glob("*.so*"))]
        self.process = subprocess.Popen(["cat", *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if files else None
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
