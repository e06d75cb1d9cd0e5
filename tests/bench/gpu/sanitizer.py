"""For scripts/gpu-check: tests under compute-sanitizer, which finds out-of-bounds accesses, races and memory that nobody wrote."""

import pathlib
import re
import shutil

SHOWN = 20  # lines of a report
# The allocator's blocks are larger than tensors: a kernel that leaves its tensor stays inside. Each tensor has a block of its own.
WITHOUT_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def compute_sanitizer():
    places = [pathlib.Path("/usr/local/cuda") / folder / "compute-sanitizer" for folder in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer") or next((str(place) for place in places if place.exists()), None)


def sanitized(tool, command):
    return [compute_sanitizer(), "--tool", tool, "--error-exitcode", "99", *command]


def device_test(check, name, most=120):
    """Runs a Boost test of the GPU. A case that fails runs again by itself under memcheck, whose report says where."""
    program = check.program(name)
    if check.run(name, [program], most=most) is not None:
        return
    last = check.results.content["ran"][-1:]
    if not last or last[0]["what"] != name or last[0]["passed"]:
        return  # it did not run
    case = first_case_in(last[0]["output"])
    again = f"{name}, {case or 'all of it'}, under memcheck"
    if compute_sanitizer() is None:
        check.skip(again, "compute-sanitizer is not on PATH")
    elif not check.has_time():
        check.skip(again, "out of time")
    else:
        case_alone = [program, *([f"--run_test={case}"] if case else [])]
        _, output = check.attempt(sanitized("memcheck", case_alone), 60, variables=WITHOUT_CACHE)
        report(check, again, output)


def report(check, what, output):
    """Keeps the report of a sanitizer, and shows where it begins."""
    check.results.add("reports", {"what": what, "output": output[:10000]})
    print(f"       {what}:", flush=True)
    check.show(output.strip().splitlines()[:SHOWN])


def first_case_in(output):
    """Returns the first failed case in a report of Boost.Test, as --run_test names it; None without one."""
    found = re.search(r'error: in "([\w/]+)"', output)
    return found.group(1) if found else None


def memcheck(check):
    """Out-of-bounds accesses, races and uninitialised memory of our kernels, at small shapes."""
    program = check.program("kernels_on_gpu_test")
    for tool in ("memcheck", "racecheck", "initcheck"):
        what = f"compute-sanitizer {tool}"
        if compute_sanitizer() is None:
            check.skip(what, "not on PATH")
            continue
        lines = []
        command = [None] if program is None else sanitized(tool, [program, "--", "small"])
        if check.run(what, command, most=140 if tool == "racecheck" else 60, each_line=lines.append, **WITHOUT_CACHE) is None and lines:
            report(check, what, "".join(lines))
