#!/usr/bin/env python3
"""test_kernel_files.py LIBRARY NAME...: the files NAME.cpp, which are compiled for one kind of processor, share no function with others.

The linker keeps one copy of a function that several files define, and it may keep the one whose instructions an older processor lacks.
"""

import re
import subprocess
import sys

library, *names = sys.argv[1:]
symbols = subprocess.run(["nm", "-A", "-C", library], capture_output=True, text=True, check=True).stdout.splitlines()
failed = False
for name in names:
    own = [line for line in symbols if re.search(rf"[:(]{name}\.cpp\.o", line)]
    tables = [line for line in own if re.search(r" [DR] .*_kernels$", line)]
    shared = [line for line in own if re.search(r"[0-9a-f]+ [Wu] ", line)]
    if len(tables) != 1:
        print(f"{name}: {len(tables)} tables of kernels in {library}, not one")
    for line in shared:
        print(f"{name} defines a function that other files may define too: {line}")
    failed = failed or len(tables) != 1 or bool(shared)
sys.exit(1 if failed else 0)
