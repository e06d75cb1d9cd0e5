"""The planned times in docs/gpus.md and docs/plan.md are those of today's planner."""

import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

from planning import PlanTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench/gpu"))
import shapes  # noqa: E402

SHORT = ("0.5B", "--max_length", "1024", "--per_device_train_batch_size", "64", "--activation_policy")
MICRO_BATCHES = ("--max_length", "8192", "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "8",
                 "--optimizer_state_dtype", "bf16")
LONG = ("8B", "--max_length", "131072", "--per_device_train_batch_size", "1", "--optimizer_state_dtype", "bf16",
        "--activation_offloading", "true", "--activation_policy")
FP8 = ("--mixed_precision", "fp8")
# The lines of "Planned speed" in their order, and the columns of its table of parts.
STEPS = ((*SHORT, "all"), (*SHORT, "attention"), (*SHORT, "auto"), (*SHORT, "auto", *FP8), ("7B", *MICRO_BATCHES),
         ("7B", *MICRO_BATCHES, *FP8), ("8B", *MICRO_BATCHES), (*LONG, "all"), (*LONG, "all", "--documents", "2"),
         (*LONG, "all", "--documents", "16"), (*LONG, "attention", "--documents", "16"))
STEPS_BY_PARTS = (STEPS[0], STEPS[6], STEPS[10])
PASSES = ("forward", "gradient of inputs", "gradient of weights")


def lines_below(page, heading):
    """The cells of the table whose heading begins so."""
    text = (ROOT / "docs" / page).read_text()
    table = text[text.index(heading):].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def parts_of(line):
    """The parts of the plan that a line has: of its first numbers, and of those behind, which are made again."""
    name, _, passes = line.partition(", ")
    if line == "RoPE, forward; gradients of heads":
        return ["RoPE, forward", "gradients of heads"], ["RoPE, again"]
    if passes == "forward and backward":
        return [f"{name}, forward", f"{name}, backward"], [f"{name}, again"]
    if passes or " " in name or name == "loss":
        return [line.removesuffix(", beside the computation")], []
    return [f"{name}, {which}" for which in PASSES], [f"{name}, again"]


class PlannedTables(PlanTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    def plan(self, config, *flags):
        folder = tempfile.mkdtemp(dir=self.folder.name)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        return self.planned(["--model_name_or_path", folder, *flags])

    def on_h200(self, model, *flags):
        return self.plan(shapes.MODELS[model], "--world", "1", "--gpu", "h200-141", "--profile", "single_gpu", *flags)

    def check_number(self, written, number):
        """To the last of the digits that are written."""
        digits = len(written.partition(".")[2])
        self.assertLessEqual(abs(float(written) - number), 0.501 * 10 ** -digits, f"{written} is written for {number}")

    def test_planned_speed(self):
        lines = lines_below("gpus.md", "| model, rows, `activation_policy`, other settings |")
        self.assertEqual(len(lines), len(STEPS))
        for (label, *cells, of_peak), step in zip(lines, STEPS):
            with self.subTest(label):
                plan = self.on_h200(*step)
                self.assertTrue(plan["fits"])
                seconds = plan["step_seconds"]
                for cell, name in zip(cells, ("products", "attention", "rows", "loss", "optimizer"), strict=True):
                    self.check_number(cell, seconds[name])
                self.check_number(of_peak.removesuffix(" %"), 100 * plan["utilisation"])
                shown = re.search(r"copies to the host show, ([\d.]+) s", label)
                self.check_number(shown[1] if shown else "0.00", seconds["exposed_communication"])

    def test_parts_of_planned_steps(self):
        lines = lines_below("gpus.md", "| part | 0.5B, 64 x 1,024, `all` |")
        for column, again_column, step in zip((1, 2, 4), (None, 3, 5), STEPS_BY_PARTS):
            # Copies overlap with the computation.
            parts = {part["name"]: part["seconds"] or part["hidden_seconds"]
                     for part in self.on_h200(*step, "--parts")["step_parts"]}
            for line in lines:
                names, made_again = parts_of(line[0])
                again = line[again_column] if again_column else ""
                with self.subTest(line[0], column=column):
                    written = [*filter(None, line[column].split(", ")), *filter(None, [again])]
                    planned = [parts.pop(name) for name in [*names, *made_again] if name in parts]
                    self.assertEqual(len(written), len(planned))
                    for cell, number in zip(written, planned):
                        self.check_number(cell, number)
            self.assertEqual(list(parts), [])

    def test_what_is_expected_on_an_h100(self):
        """As scripts/gpu-check plans the rows of its part `bench`."""
        plans = {}
        for row in shapes.ROWS:
            if row["part"] == "bench":
                flags = [*shapes.plan_flags(row), "--gpu", "h100-80", "--parts"]
                plans[row["model"], "packed" in row["words"], "fp8" in row["words"]] = self.plan(shapes.config_of(row), *flags)
        short, packed, eight, seven, seven_in_fp8 = (plans[row] for row in (
            ("0.5B", False, False), ("0.5B", True, False), ("8B-12", False, False), ("7B-11", False, False), ("7B-11", False, True)))
        sums = short["step_seconds"]
        of_parts = {name: sum(part["seconds"] for part in short["step_parts"] if part["name"].startswith(name)) for name in ("SwiGLU", "norms")}
        totals = [plan["step_seconds"]["total"] for plan in (packed, eight, seven)]
        in_milliseconds = [sums["total"], sums["products"], sums["attention"], of_parts["SwiGLU"], of_parts["norms"], sums["loss"],
                           sums["optimizer"], *totals]
        planned = [1000 * seconds for seconds in in_milliseconds]
        planned.append(seven_in_fp8["step_seconds"]["total"] / seven["step_seconds"]["total"])
        written = [line[2] for line in lines_below("gpus.md", "| step | part | planned, ms |") if line[2]]
        for cell, number in zip(written, planned, strict=True):
            self.check_number(cell, number)

    def test_a_million_tokens(self):
        spec = importlib.util.spec_from_file_location("plan_published", ROOT / "scripts" / "plan_published.py")
        published = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(published)
        page = " ".join((ROOT / "docs" / "plan.md").read_text().split())
        found = re.search(r"The plan is (\d+) s: attention (\d+) .*, products (\d+), rows and merges of the ring ([\d.]+), .*; ([\d.]+) GiB on a "
                          r"GPU.* in TRL: (\d+) s\.", page)
        plans = [self.plan(published.MODELS["Qwen3-8B"], "--world", "8", "--gpu", "h100-80", "--profile", "zero3", "--cp_size", "8",
                           "--max_length", "1048576", "--per_device_train_batch_size", "1", "--activation_offloading", "true",
                           "--activation_policy", policy) for policy in ("attention", "input")]
        seconds = plans[0]["step_seconds"]
        planned = [seconds["total"], seconds["attention"], seconds["products"], seconds["rows"], plans[0]["peak_bytes"] / 2 ** 30,
                   plans[1]["step_seconds"]["total"]]
        for written, number in zip(found.groups(), planned, strict=True):
            self.check_number(written, number)


if __name__ == "__main__":
    unittest.main()
