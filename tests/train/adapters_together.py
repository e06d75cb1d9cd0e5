"""A job with several adapters, and the jobs of each alone: what test files of adapters that train together share."""

import json
import os
import random
import struct
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
COMMON = ["--bf16", "false", "--max_length", "48", "--logging_steps", "1",
          "--per_device_train_batch_size", "2", "--full_determinism"]
# Adapters differ in every way in which they may; one ends after 4 steps, one after an epoch and a half.
ADAPTERS = {"small": {"lora_r": 4, "lora_alpha": 8, "learning_rate": 2e-3, "seed": 1, "max_steps": 6,
                      "lora_target_modules": "q_proj,v_proj"},
            "wide": {"lora_r": 8, "use_rslora": True, "learning_rate": 5e-4, "seed": 2, "lora_dropout": 0.1, "max_steps": 4,
                     "lora_target_modules": "all-linear", "init_lora_weights": "gaussian", "max_grad_norm": 0.1},
            "short": {"lora_r": 2, "lora_dropout": 0.0, "learning_rate": 1e-2, "lr_scheduler_type": "cosine",
                      "num_train_epochs": 1.5, "weight_decay": 0.1, "loraplus_lr_ratio": 4,
                      "lora_target_modules": "down_proj"}}


def read_file(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def tensors(folder):
    content = read_file(folder, "adapter_model.safetensors")
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, after = entry["data_offsets"]
        found[name] = struct.unpack(f"<{(after - begin) // 4}f", content[end + begin:end + after])
    return found


def evaluations(folder):
    return [line for line in read_metrics(folder) if "eval_loss" in line]


class AdaptersTogetherTest(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for number, name in enumerate(ADAPTERS):
            numbers = random.Random(number)
            rows = [[numbers.randrange(5, 250) for _ in range(numbers.randrange(8, 48))] for _ in range(13 - number)]
            cls.write_rows(cls.data_of(name), rows)
        cls.adapters = cls.write_adapters("adapters.yaml")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def data_of(cls, name):
        return os.path.join(cls.folder.name, f"{name}.jsonl")

    @staticmethod
    def write_rows(file, rows):
        with open(file, "w") as lines:
            for row in rows:
                lines.write(json.dumps({"input_ids": row, "labels": row}) + "\n")

    @classmethod
    def write_adapters(cls, name, of=None, **data):
        path = os.path.join(cls.folder.name, name)
        with open(path, "w") as file:
            file.write("list:\n")
            for adapter, settings in (of or ADAPTERS).items():
                own = {"name": adapter, "dataset_name": data.get(adapter, cls.data_of(adapter)), **settings}
                file.write("  - " + json.dumps(own) + "\n")
        return path

    def path(self, name):
        return os.path.join(self.folder.name, self.id(), name)

    def train_together(self, output, *flags, adapters=None, model=MODEL, ranks=None, **variables):
        return run("train", "--model_name_or_path", model, *COMMON, "--adapters", adapters or self.adapters, "--output_dir", output,
                   *flags, ranks=ranks, **variables)

    def train_alone(self, name, output, *flags, of, model, ranks=None):
        own = [word for key, value in of[name].items() for word in (f"--{key}", str(value))]
        return run("train", "--model_name_or_path", model, *COMMON, "--use_peft", *own, "--dataset_name", self.data_of(name),
                   "--output_dir", output, *flags, ranks=ranks)

    # The first `of_job` flags are those of the job with all adapters alone.
    def expect_own_curves(self, *flags, of=None, model=MODEL, ranks=None, of_job=0):
        of = of or ADAPTERS
        together = self.path("together")
        adapters = self.write_adapters(f"{self.id()}.yaml", of)
        self.expect(self.train_together(together, *flags, adapters=adapters, model=model, ranks=ranks), 0)
        for name in of:
            alone = self.path(name)
            self.expect(self.train_alone(name, alone, *flags[of_job:], of=of, model=model, ranks=ranks), 0)
            ours = os.path.join(together, name)
            for mine, own in zip(read_steps(ours), read_steps(alone), strict=True):
                with self.subTest(adapter=name, step=own["step"]):
                    for key in ("step", "epoch", "learning_rate", "num_tokens"):
                        self.assertEqual(mine[key], own[key], key)
                    for key in ("loss", "entropy", "mean_token_accuracy"):
                        self.assertAlmostEqual(mine[key], own[key], delta=1e-6, msg=key)
                    self.assertAlmostEqual(mine["grad_norm"], own["grad_norm"], delta=1e-5 * max(1, own["grad_norm"]))
            for mine, own in zip(evaluations(ours), evaluations(alone), strict=True):
                with self.subTest(adapter=name, evaluation=own["step"]):
                    for key in ("step", "epoch", "eval_num_tokens"):
                        self.assertEqual(mine[key], own[key], key)
                    self.assertEqual(mine.get("eval_samples"), own.get("eval_samples"))
                    for key in ("eval_loss", "eval_entropy", "eval_mean_token_accuracy"):
                        self.assertAlmostEqual(mine[key], own[key], delta=1e-6, msg=key)
            self.assertEqual(read_metrics(ours)[-1]["step"], read_metrics(alone)[-1]["step"])
            self.assertIn("train_runtime", read_metrics(ours)[-1])
            self.assertEqual(read_file(ours, "adapter_config.json"), read_file(alone, "adapter_config.json"))
            theirs = tensors(alone)
            for tensor, values in tensors(ours).items():
                # The gradient of this bias is 0 but for rounding, of which AdamW makes whole steps.
                delta = 5e-4 if tensor.endswith(("k_proj.base_layer.bias", "k_proj.bias")) else 2e-5
                for mine, own in zip(values, theirs.pop(tensor), strict=True):
                    self.assertAlmostEqual(mine, own, delta=delta, msg=tensor)
            self.assertEqual(theirs, {})
        return together
