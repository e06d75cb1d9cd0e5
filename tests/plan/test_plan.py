"""What `trainer plan` says of a step, beside what runs account for: bytes within 2 %, in thirty configurations."""

import itertools
import json
import os
import random
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 256,
          "intermediate_size": 704, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
          "vocab_size": 2048, "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
          "initializer_range": 0.02, "use_sliding_window": False,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
KINDS = ("weights", "gathered", "gradients", "optimizer", "activations", "communication", "staging", "save_copy")

# ranks, profile, cp, sp, length, policy, type, more
CASES = [
    (1, "single_gpu", 1, 1, 512, "all", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "input", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "all", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "attention", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "input", "bf16", []),
    (1, "single_gpu", 1, 1, 4096, "attention", "bf16", []),
    (1, "single_gpu", 1, 1, 4096, "input", "fp32", []),
    (1, "single_gpu", 1, 1, 256, "attention", "fp32", ["--per_device_train_batch_size", "6"]),
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", ["--optimizer_state_dtype", "bf16"]),
    (2, "multi_gpu", 1, 1, 512, "attention", "fp32", []),
    (2, "multi_gpu", 1, 1, 512, "attention", "bf16", ["--gradient_accumulation_steps", "2"]),
    (2, "zero1", 1, 1, 512, "attention", "fp32", []),
    (2, "zero1", 1, 1, 512, "all", "bf16", []),
    (2, "zero2", 1, 1, 512, "attention", "fp32", ["--gradient_accumulation_steps", "2"]),
    (2, "zero2", 1, 1, 1024, "input", "bf16", []),
    (2, "zero3", 1, 1, 512, "attention", "fp32", []),
    (2, "zero3", 1, 1, 512, "all", "bf16", []),
    (2, "zero3", 2, 1, 2048, "attention", "fp32", []),
    (2, "zero3", 2, 1, 2048, "input", "bf16", []),
    (2, "zero3", 1, 2, 2048, "attention", "fp32", []),
    (2, "zero3", 1, 2, 2048, "all", "bf16", []),
    (2, "zero2", 2, 1, 1024, "attention", "bf16", ["--cp_comm_strategy", "allgather"]),
    (4, "zero3", 2, 2, 2048, "attention", "fp32", []),
    (4, "zero3", 2, 2, 2048, "input", "bf16", []),
    (4, "zero3", 1, 1, 512, "attention", "fp32", ["--dp_replicate_size", "2"]),
    (4, "fsdp2", 1, 1, 512, "attention", "bf16", []),
    (4, "zero3", 4, 1, 4096, "attention", "fp32", []),
    (2, "zero3", 1, 1, 512, "attention", "fp32", ["--offload_optimizer_device", "nvme"]),
    (2, "zero3", 1, 1, 2048, "all", "fp32", ["--activation_offloading", "true"]),
]


class Plan(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        wanted = os.path.join(cls.folder.name, "config.json")
        with open(wanted, "w") as file:
            json.dump(CONFIG, file)
        cls.model = os.path.join(cls.folder.name, "model")
        made = run("init", "--config_json", wanted, "--output_dir", cls.model)
        assert made.returncode == 0, made.stderr
        cls.number = itertools.count()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def rows(self, length):
        """Every row has just that length."""
        path = os.path.join(self.folder.name, f"rows-{length}.jsonl")
        if not os.path.exists(path):
            draw = random.Random(length)
            with open(path, "w") as file:
                for _ in range(32):
                    file.write(json.dumps({"input_ids": [draw.randrange(2048) for _ in range(length)]}) + "\n")
        return path

    def flags(self, profile, ring, ulysses, length, policy, number_type, more):
        flags = ["--model_name_or_path", self.model, "--profile", profile, "--cp_size", str(ring), "--sp_size",
                 str(ulysses), "--max_length", str(length), "--activation_policy", policy, "--bf16",
                 str(number_type == "bf16"), "--per_device_train_batch_size", "2", *more]
        if "nvme" in more:
            flags += ["--offload_optimizer_nvme_path", self.folder.name]
        return flags

    def accounted(self, flags, ranks, length):
        output = os.path.join(self.folder.name, f"out-{next(self.number)}")
        result = run("train", *flags, "--dataset_name", self.rows(length), "--output_dir", output, "--max_steps", "3",
                     "--logging_steps", "1", "--save_strategy", "no", ranks=ranks, timeout=300)
        self.expect(result, 0)
        line = [line for line in read_metrics(output) if "loss" in line][-1]
        return {kind: line[f"memory_{kind}_bytes"] for kind in KINDS}

    def planned(self, flags, *more):
        result = run("plan", *flags, *more, "--json")
        self.expect(result, 0)
        return json.loads(result.stdout)

    def test_bytes(self):
        for ranks, *case in CASES:
            with self.subTest(ranks=ranks, case=case):
                flags = self.flags(*case)
                plan = self.planned(flags, "--world", str(ranks))["memory_bytes"]
                plan["save_copy"] = 0
                run_bytes = self.accounted(flags, ranks, case[3])
                total, real = sum(plan.values()), sum(run_bytes.values())
                print(f"{total / real:.4f} {ranks} {' '.join(map(str, case))}", flush=True)
                self.assertLess(abs(total - real), 0.02 * real,
                                "\n".join(f"{kind}: {plan[kind]} planned, {run_bytes[kind]} held" for kind in KINDS))


if __name__ == "__main__":
    unittest.main()
