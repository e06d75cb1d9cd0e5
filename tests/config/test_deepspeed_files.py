"""The DeepSpeed files of axolotl, LLaMA-Factory, Accelerate and transformers: resolved field by field as DeepSpeed reads them
after transformers has filled in "auto" (deepspeed_files.json, written by deepspeed_oracle.py), or refused by name."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

# What this program does not do, and says so of each such field.
REFUSED = {"zero_optimization.zero_quantized_weights": True, "zero_optimization.zero_quantized_gradients": True,
           "zero_optimization.zero_hpz_partition_size": 8}


def nested(fields):
    file = {}
    for path, value in fields.items():
        inner = file
        *above, last = path.split(".")
        for name in above:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return file


def refused_of(fields):
    found = {path for path, value in REFUSED.items() if path in fields and fields[path] == value}
    return found | {block for block in REFUSED if any(path.startswith(block + ".") for path in fields)}


class DeepSpeedFiles(TrainerTest):
    def setUp(self):
        with open(os.path.join(os.path.dirname(__file__), "deepspeed_files.json")) as file:
            self.cases = json.load(file)

    def resolve(self, fields):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(nested(fields), file)
            file.flush()
            return run("config", "--json", "--deepspeed", file.name)

    def test_each_means_the_same_or_is_refused_by_name(self):
        sources = [case["name"].split()[0] for case in self.cases]
        self.assertEqual({name: sources.count(name) for name in sources},
                         {"axolotl": 8, "llamafactory": 7, "accelerate": 10, "acceleratedocs": 1, "hfdocs": 6, "transformers": 4, "own": 4})
        resolved = 0
        for case in self.cases:
            if "error" in case:  # DeepSpeed refuses the file itself
                continue
            with self.subTest(case["name"]):
                result = self.resolve(case["fields"])
                refused = refused_of(case["fields"])
                self.assertEqual(result.returncode, 78 if refused else 0, result.stderr)
                for path in refused:
                    self.assertRegex(result.stderr, rf"{path} = .*: is not served: ")
                if not refused:
                    self.compare(case["means"], json.loads(result.stdout))
                    resolved += 1
        self.assertEqual(resolved, 36)

    def compare(self, theirs, settings):
        ours = {name: setting["value"] for name, setting in settings.items()}
        if "lr_scheduler_type" in theirs:
            self.assertEqual(ours["lr_scheduler_type"].replace("_", ""), theirs.pop("lr_scheduler_type").lower())
            self.assertEqual(max(2, ours["warmup_steps"]), theirs.pop("warmup_num_steps"))
            kwargs = theirs.pop("lr_scheduler_kwargs")
            usual = {"warmup_type": "log", "warmup_min_lr": 0, "warmup_min_ratio": 0, "cos_min_ratio": 0.0001,
                     "total_num_steps": kwargs.get("total_num_steps")}
            said = ours["lr_scheduler_kwargs"]
            self.assertEqual({name: said.get(name, usual[name]) for name in kwargs}, kwargs)
        self.assertGreater(len(theirs), 8)
        for name, value in theirs.items():
            self.assertEqual(ours[name], value, name)


if __name__ == "__main__":
    unittest.main()
