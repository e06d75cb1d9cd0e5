#!/usr/bin/env python3
"""The tables of docs/performance.md, docs/long-context.md, docs/adapters.md and docs/gpus.md, made from tests/bench/results/*.json.

  scripts/performance_tables.py            prints all of them
  scripts/performance_tables.py --write    puts them into the pages, each between its two marks
  scripts/performance_tables.py --check    fails if a page holds other numbers than the results

A bench that is run again writes a new dated file: the newest of each name counts.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "bench" / "results"
PAGES = [ROOT / "docs" / name for name in ("performance.md", "long-context.md", "adapters.md", "gpus.md")]


def newest(name):
    files = sorted(RESULTS.glob(f"????-??-??-{name}.json"))
    if not files:
        sys.exit(f"{RESULTS} holds no result of {name}")
    return json.loads(files[-1].read_text())


def rows_of(*names):
    return [row for name in names for row in newest(name)["rows"]]


def table(head, rows, *names):
    return table_of(head, rows, [newest(name) for name in names])


def table_of(head, rows, results):
    """Markdown, and below it where every number comes from."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    origins = []
    for result in results:
        machine = result["machine"]
        origins.append(f"`{result['command']}`, {result['date']}, {machine['cores']} cores of {machine['processor']}")
    return "\n".join([*lines, "", "Measured: " + "; ".join(origins) + "."])


def times(slow, fast):
    return f"{slow / fast:.1f}"


def kind_of(machine):
    """The processor's name; a virtual machine may hide the AMX of an Intel processor."""
    hides_tiles = "Intel" in machine["processor"] and "avx512_bf16" in machine["flags"] and "amx_bf16" not in machine["flags"]
    return machine["processor"].replace("(R)", "") + (" without AMX" if hides_tiles else "")


def of_each_processor(pattern, *key):
    """The newest rows of each kind of processor, as pairs (processor, row), and their results. `key` tells rows apart."""
    found = {}
    for file in sorted(RESULTS.glob(f"????-??-??-{pattern}.json")):
        result = json.loads(file.read_text())
        processor = kind_of(result["machine"])
        for row in result["rows"]:
            found[(processor, *(row[name] for name in key))] = (row, result)
    processors = sorted({place[0] for place in found})
    ordered = [(processor, *found[place]) for processor in processors for place in found if place[0] == processor]
    results = []
    for _, _, result in ordered:
        if result not in results:
            results.append(result)
    return [(processor, row) for processor, row, _ in ordered], results


def step():
    rows, results = of_each_processor("step-*[tabc]", "shape", "precision", "checkpointing")
    rows.sort(key=lambda pair: (pair[0], "tabc".index(pair[1]["shape"])))
    return table_of(["processor", "model", "precision", "checkpointing", "PyTorch ms", "ours ms", "times as fast", "PyTorch MB", "ours MB"],
                    [[processor, row["shape"], row["precision"], "on" if row["checkpointing"] else "off",
                      f"{row['torch_ms']:.1f}", f"{row['ours_ms']:.1f}", times(row["torch_ms"], row["ours_ms"]),
                      f"{row['torch_peak_rss_mb']:.0f}", f"{row['ours_peak_rss_mb']:.0f}"] for processor, row in rows], results)


def sharded():
    rows, results = of_each_processor("sharded-a-b", "shape", "profile", "precision")
    return table_of(["processor", "model", "precision", "PyTorch", "its ms", "ours", "ours ms", "times as fast", "its MB a rank", "ours MB"],
                    [[processor, row["shape"], row["precision"], row["peer"].upper(), f"{row['torch_ms']:.1f}", row["profile"],
                      f"{row['ours_ms']:.1f}", times(row["torch_ms"], row["ours_ms"]), f"{row['torch_peak_rss_mb']:.0f}",
                      f"{row['ours_peak_rss_mb']:.0f}"] for processor, row in rows], results)


def whole_run():
    rows, results = of_each_processor("end-to-end", "kind")
    return table_of(["processor", "run", "TRL s", "ours s", "times as fast", "TRL MB", "ours MB"],
                    [[processor, row["kind"], f"{row['trl_s']:.1f}", f"{row['ours_s']:.1f}", times(row["trl_s"], row["ours_s"]),
                      f"{row['trl_peak_rss_mb']:.0f}", f"{row['ours_peak_rss_mb']:.0f}"] for processor, row in rows], results)


def tokenizing():
    return table(["tokenizer and text", "`tokenizers` MB/s", "ours MB/s", "times as fast"],
                 [[row["tokenizer"], f"{row['package_MB_per_s']:.1f}", f"{row['ours_MB_per_s']:.1f}", f"{row['times_package']:.0f}"]
                  for row in rows_of("tokenizer")], "tokenizer")


def packing():
    return table(["documents", "max_length", "TRL s", "ours, with the tokens gathered s", "times as fast"],
                 [[f"{row['documents']:,}", f"{row['max_length']:,}", f"{row['trl_s']:.2f}", f"{row['gathered_s']:.3f}",
                   times(row["trl_s"], row["gathered_s"])] for row in rows_of("packing") if row["trl_s"] and row["gathered_s"]],
                 "packing")


def collectives():
    return table(["operation", "MiB", "ranks", "gloo ms", "ours over MPI ms", "times as fast"],
                 [[row["operation"], row["MiB"], row["ranks"], f"{row['gloo ms']:.1f}", f"{row['MPI ms']:.1f}",
                   times(row["gloo ms"], row["MPI ms"])] for row in rows_of("collectives")], "collectives")


def checkpoint():
    return table(["way", "training stands still s", "durable after s"],
                 [[row["way"], f"{row['stall s']:.3f}", f"{row['durable s']:.2f}" if row["durable s"] else ""]
                  for row in rows_of("checkpoint")], "checkpoint")


def offloading():
    names = ("offload-12-layers", "offload-32-layers")
    rows = [[layers, row["where"], f"{row['step_s']:.1f}", f"{row['state_mb']:.0f}", f"{row['counted_mb']:.0f}"]
            for name, layers in zip(names, (12, 32)) for row in newest(name)["rows"]]
    return table(["blocks", "state in", "step s", "state MB", "tensors in memory MB"], rows, *names)


def planned():
    return table(["ranks", "flags", "planned s", "taken s", "planned / taken"],
                 [[row["ranks"], f"`{row['flags']}`", f"{row['planned_s']:.2f}", f"{row['taken_s']:.2f}", f"{row['ratio']:.2f}"]
                  for row in rows_of("plan")], "plan")


def attention_rows(*what):
    rows, results = of_each_processor("attention", "what", "type", "key_heads", "way")
    return [(processor, row) for processor, row in rows if row["what"] in what], results


def split_attention():
    rows, results = attention_rows("split", "hybrid")
    return table_of(["processor", "type", "key heads", "way", "ranks", "seconds", "share of ideal"],
                    [[processor, row["type"], row["key_heads"], row["way"], row["ranks"], f"{row['seconds']:.2f}",
                      f"{row['efficiency']:.2f}" if row["efficiency"] else ""] for processor, row in rows], results)


def ring_beside_pytorch():
    rows, results = attention_rows("peer")
    pairs = zip([pair for pair in rows if pair[1]["way"] != "PyTorch"], [row for _, row in rows if row["way"] == "PyTorch"])
    return table_of(["processor", "type", "query heads", "key heads", "PyTorch's context parallelism s", "our ring s", "times as fast"],
                    [[processor, ours["type"], 8, ours["key_heads"], f"{theirs['seconds']:.2f}", f"{ours['seconds']:.2f}",
                      times(theirs["seconds"], ours["seconds"])] for (processor, ours), theirs in pairs], results)


def split_steps():
    return table(["documents", "way", "step s", "times as fast as one rank", "waiting s"],
                 [[row["documents"], row["way"], f"{row['step_s']:.2f}", f"{row['times_as_fast']:.2f}", f"{row['wait_s']:.2f}"]
                  for row in rows_of("split")], "split")


def very_long():
    names = ("very-long-131072", "very-long-1048576")
    return table(["tokens in the row", "ranks", "split", "activations in", "step s", "process MB, the largest", "activations MB"],
                 [[f"{row['tokens']:,}", row["ranks"],
                   " ".join(re.findall(r"--[cs]p_size \d+", row["settings"])).replace("--", ""),
                   "a file" if "activation_offloading" in row["settings"] else "memory", f"{row['step_time_s']:.0f}",
                   f"{row['peak_memory_mb']:.0f}", f"{row['memory_activations_mb']:.0f}"] for row in rows_of(*names)], *names)


def activations():
    return table(["policy", "kept in", "step s", "activations MB"],
                 [[row["policy"], row["where"], f"{row['step_s']:.1f}", f"{row['activations_mb']:.0f}"]
                  for row in rows_of("activations")], "activations")


def adapters():
    return table(["model", "precision", "checkpointing", "dropout", "TRL ms", "ours ms", "ours / TRL", "ours / our full step", "TRL MB", "ours MB",
                  "save, TRL ms", "ours ms", "load, TRL ms", "ours ms"],
                 [[row["shape"], row["precision"], "on" if row["checkpointing"] else "off", row["dropout"],
                   f"{row['trl_cpu_ms']:.0f}",
                   f"{row['ours_cpu_ms']:.0f}", f"{row['step_cpu']:.2f}", f"{row['full_step_cpu']:.2f}", f"{row['trl_mb']:.0f}",
                   f"{row['ours_mb']:.0f}", f"{row['trl_save_ms']:.0f}", f"{row['ours_save_ms']:.0f}", f"{row['trl_load_ms']:.0f}",
                   f"{row['ours_load_ms']:.0f}"] for row in rows_of("adapters-b")], "adapters-b")


def preferences():
    return table(["model", "precision", "TRL ms", "TRL ms, reference before", "ours ms", "ours / TRL", "ours / TRL, reference before",
                  "TRL MB", "ours MB", "ours / TRL"],
                 [[row["shape"], row["precision"], f"{row['trl_ms']:.0f}", f"{row['trl_before_ms']:.0f}", f"{row['ours_ms']:.0f}",
                   f"{row['step']:.2f}", f"{row['step_before']:.2f}", f"{row['trl_mb']:.0f}", f"{row['ours_mb']:.0f}",
                   f"{row['memory']:.2f}"] for row in rows_of("preferences-b")], "preferences-b")


def adapters_together():
    return table(["adapters of", "steps", "together s", "eight jobs s", "ratio", "together MB", "one job MB", "ratio", "tensors MB",
                  "of one job MB", "ratio"],
                 [[row["targets"], row["steps"], f"{row['together_s']:.1f}", f"{row['eight_jobs_s']:.1f}", f"{row['seconds']:.2f}",
                   f"{row['together_mb']:.0f}", f"{row['one_job_mb']:.0f}", f"{row['memory']:.2f}", f"{row['together_tensors_mb']:.0f}",
                   f"{row['one_job_tensors_mb']:.0f}", f"{row['tensors']:.2f}"] for row in rows_of("adapters-together")],
                 "adapters-together")


def experts():
    return table(["precision", "measured", "128 experts beside", "experts ms", "its ms", "experts / it", "experts MB", "its MB"],
                 [[row["precision"], row["what"], {"dense": "a dense model of the same work"}.get(row["way"], f"transformers, {row['way']}"),
                   f"{row['cpu_ms'] * row['experts_over_it']:.0f}", f"{row['cpu_ms']:.0f}", f"{row['experts_over_it']:.2f}",
                   f"{row['experts_mb']:.0f}", f"{row['peak_mb']:.0f}"] for row in rows_of("experts") if row["way"] != "experts"],
                 "experts")


def expert_overlap():
    return table(["model", "policy", "rows of experts", "pass ms", "delay ms", "waits longer ms", "pass longer ms", "hidden of the waits",
                  "hidden of the pass"],
                 [[row["model"], row["keeps"], row["rows"], f"{1000 * row['pass_s']:.0f}",
                   *(f"{1000 * row[name]:.0f}" for name in ("delay_s", "waited_more_s", "slower_s")),
                   *(f"{1 - row[name] / row['delay_s']:.2f}" for name in ("waited_more_s", "slower_s"))]
                  for row in rows_of("expert-overlap")], "expert-overlap")


def gpu_steps():
    """Steps of scripts/gpu-check, in order of the models' sizes: the newest of each on the GPU that was measured last."""
    results = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("????-??-??-gpu.json"))]
    gpu = results[-1]["gpus"][0]
    found = {}
    for result in results:
        if result["gpus"][0] == gpu:
            found.update({gpu_step_name(row): (row, result["date"]) for row in result["bench"]})
    rows = []
    for name, (row, date) in sorted(found.items(), key=lambda entry: size_and_name(entry[1][0]["model"])):
        planned = row["planned"]
        rows.append([f"`{name}`", f"{1000 * row['seconds']:.0f}", f"{1000 * planned['seconds']:.0f}", f"{row['tokens_per_second']:,.0f}",
                     f"{row['mfu_percent']:.1f}", f"{row['peak_tensors'] / 1e9:.1f}", f"{planned['peak_bytes'] / 1e9:.1f}", date])
    head = ["step", "ms", "planned", "tokens/s", "MFU, %", "GB", "planned", "measured"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join([*lines, "", f"Measured: `scripts/gpu-check`, one {gpu['name']} of {gpu['memory.total']}, driver {gpu['driver_version']}, "
                                  f"{gpu['power.limit']}."])


def size_and_name(model):
    return float(re.match(r"[\d.]+", model).group()), model


def gpu_step_name(row):
    return "/".join([row["model"], f"{row['rows']}x{row['length']}", row["policy"], *row["words"]])


TABLES = [gpu_steps, adapters, preferences, adapters_together, experts, expert_overlap, step, sharded, whole_run, tokenizing, packing, collectives, checkpoint, offloading, planned, split_attention,
          ring_beside_pytorch, split_steps, very_long, activations]


def mended(page):
    """The page with the tables as the results have them, and the names of those that it holds."""
    text, held = page.read_text(), set()
    for make in TABLES:
        mark = f"<!-- {make.__name__} -->"
        if text.count(mark) == 2:
            held.add(make.__name__)
            before, _, after = text.split(mark)
            text = f"{before}{mark}\n{make()}\n{mark}{after}"
    return text, held


def main():
    wish = sys.argv[1] if len(sys.argv) > 1 else ""
    if wish not in ("", "--write", "--check"):
        sys.exit(__doc__)
    if not wish:
        for make in TABLES:
            print(f"{make.__name__}\n{make()}\n")
        return
    held, other = set(), []
    for page in PAGES:
        text, names = mended(page)
        held |= names
        if wish == "--write":
            page.write_text(text)
        elif text != page.read_text():
            other.append(page.name)
    missing = {make.__name__ for make in TABLES} - held
    if other or missing:
        sys.exit(f"other numbers than tests/bench/results in: {', '.join(other) or 'none'}; "
                 f"on no page: {', '.join(sorted(missing)) or 'none'}; scripts/performance_tables.py --write mends the numbers")


if __name__ == "__main__":
    main()
