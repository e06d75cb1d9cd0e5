#!/usr/bin/env python3
"""Memory of a training step beside PyTorch's and TRL's; fp32 and bf16, gradient checkpointing on everywhere, one thread.

    .deps/venv/bin/python tests/bench/memory.py [activations] [slope] [longest --rows 27200 47400]

activations  Peak of live activations of one step over 1 x 4,096 tokens of shape c. PyTorch (step_torch.py): what the
             process gains in that step over what it held before it, with gradients and moments in place
             (VmHWM, cleared before the step), and the sum of live allocations that its profiler records. Ours: what
             the host memory counts (device::host_memory_use), and the process as for PyTorch.
slope        The 14.4M-parameter model (shape m) in `trainer` and in TRL's SFTTrainer, as shipped and with the tile of
             its fused head at 256 tokens: greatest resident memory of the whole process over the length of the row.
             What follows is the longest row in a process of 4 GiB.
longest      One step of `trainer` over rows of these lengths: 10 times the longest row of TRL as shipped, and twice that of
             TRL with the tile. Their greatest resident memory, and whether it is within 4 GiB. Takes half an hour.

A process's resident memory treats all alike: a limit on addresses would count what is only reserved.
"""

import argparse
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import models
import step
from bench_file import BUILD, write

LIMIT = 4 << 30
ALL = ["activations", "slope", "longest"]
SETTINGS = {"max_steps": 2, "per_device_train_batch_size": 1, "logging_steps": 1, "save_strategy": "no",
            "gradient_checkpointing": True, "bf16": False}


def status_bytes(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def gain_in_a_step(side):
    """Bytes that the process gains in its next step."""
    pid = side.process.pid
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM begins anew
    before = status_bytes(pid, "VmRSS")
    side.step()
    return status_bytes(pid, "VmHWM") - before


def measure_activations(scratch):
    shape = models.SHAPES["c"] | {"rows": 1, "tokens": 4096}
    folder = models.make_model(shape, scratch / "c")
    rows = models.write_rows(models.random_rows(shape), scratch / "c.rows")
    results = []
    for precision, torch_kinds in (("fp32", ["fp32"]), ("bf16", ["autocast", "bf16"])):
        torch_gain, torch_counted = {}, {}
        for kind in torch_kinds:
            side = step.Side(kind, step.torch_command(folder, rows, kind, "fused", True) + ["memory"], 1)
            side.read()
            torch_gain[kind] = gain_in_a_step(side)
            side.step()
            torch_counted[kind] = side.answers[-1]["peak_activations"]
            side.end()
        for policy in ("attention", "input"):
            ours = step.Side("ours", [BUILD / "bin" / "bench_step", folder, rows, precision, policy], 1)
            ours.read()
            gain = gain_in_a_step(ours)
            ours.end()
            counted = ours.answers[-1]["peak_activations"]
            results.append({"what": "activations, 1 x 4096, shape c", "precision": precision, "policy": policy,
                            "ours_mb": counted / 1e6, "ours_process_mb": gain / 1e6,
                            "torch_mb": {kind: value / 1e6 for kind, value in torch_counted.items()},
                            "torch_process_mb": {kind: value / 1e6 for kind, value in torch_gain.items()},
                            "ratio": counted / min(torch_counted.values()),
                            "ratio_of_processes": gain / min(torch_gain.values()), "floor": 0.5})
            print(json.dumps(results[-1]), flush=True)
    return results


class LongRows:
    """Runs of the 14.4M-parameter model on one row."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.folder = models.make_model(models.SHAPES["m"], scratch / "m")
        models.add_tokenizer(self.folder)

    def peak(self, who, tokens, steps=2):
        rows = models.write_input_ids(models.random_rows(models.SHAPES["m"], 2, tokens), self.scratch / f"{tokens}.jsonl")
        settings = SETTINGS | {"max_length": tokens, "max_steps": steps}
        output = self.scratch / f"{who}-{tokens}"
        tile = {"TRL": (), "TRL, tile 256": (256,)}
        if who in tile:
            command = models.trl_command(self.folder, rows, output, settings, *tile[who])
        else:
            policy = {"activation_policy": who.split()[-1]} if " " in who else {}
            command = models.trainer_command(self.folder, rows, output, settings | policy)
        run = models.run_process(command)
        row = {"what": f"one row of {tokens} tokens, shape m", "who": who, "peak_rss_mb": run["peak_rss"] / 1e6,
               "seconds": run["seconds"]}
        print(json.dumps(row), flush=True)
        return run["peak_rss"], row


def measure_slopes(long_rows):
    results = []
    for who, lengths in (("ours", (4096, 16384)), ("ours with activation_policy input", (4096, 16384)),
                         ("TRL, tile 256", (4096, 8192)), ("TRL", (1024, 2048))):
        peaks = []
        for tokens in lengths:
            peak, row = long_rows.peak(who, tokens)
            peaks.append(peak)
            results.append(row)
        slope = (peaks[1] - peaks[0]) / (lengths[1] - lengths[0])
        results.append({"what": "bytes per token, and the longest row in 4 GiB that follows", "who": who,
                        "kb_per_token": slope / 1e3, "longest": int(lengths[1] + (LIMIT - peaks[1]) / slope)})
        print(json.dumps(results[-1]), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=ALL, help=" ".join(ALL))
    parser.add_argument("--rows", nargs="+", type=int, default=[27200, 47400], help="tokens of the rows of longest")
    arguments = parser.parse_args()
    parts = arguments.parts
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        if "activations" in parts:
            results += measure_activations(scratch)
        if "slope" in parts or "longest" in parts:
            long_rows = LongRows(scratch)
        if "slope" in parts:
            results += measure_slopes(long_rows)
        if "longest" in parts:
            for tokens in arguments.rows:
                peak, row = long_rows.peak("ours", tokens, steps=1)
                results.append(row | {"is_within_4_gib": peak <= LIMIT})
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "trl")}
    columns = list(dict.fromkeys(name for row in results for name in row))
    write("-".join(["memory", *parts]), __doc__ + f"\n{versions}", " ".join(sys.argv), [{name: row.get(name) for name in columns} for row in results])


if __name__ == "__main__":
    main()
