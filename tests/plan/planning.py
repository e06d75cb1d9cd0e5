"""The models, devices and flags with which tests ask `trainer plan`."""

import itertools
import json
import os
import random
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from devices import HOST, write_device  # noqa: E402
from trainer import TrainerTest, run  # noqa: E402

CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 256,
          "intermediate_size": 704, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
          "vocab_size": 2048, "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
          "initializer_range": 0.02, "use_sliding_window": False,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
SIZES = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 32, "vocab_size": 2048, "pad_token_id": None}


class PlanTest(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = cls.made("model", CONFIG)
        cls.number = itertools.count()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def made(cls, name, config):
        """A random model."""
        wanted, folder = (os.path.join(cls.folder.name, name + end) for end in (".json", ""))
        with open(wanted, "w") as file:
            json.dump(config, file)
        made = run("init", "--config_json", wanted, "--output_dir", folder)
        assert made.returncode == 0, made.stderr
        return folder

    def rows(self, length, count=32):
        """Every row has just that length."""
        path = os.path.join(self.folder.name, f"rows-{length}-{count}.jsonl")
        if not os.path.exists(path):
            draw = random.Random(length + count)
            with open(path, "w") as file:
                for _ in range(count):
                    file.write(json.dumps({"input_ids": [draw.randrange(2048) for _ in range(length)]}) + "\n")
        return path

    def flags(self, profile, ring, ulysses, length, policy, number_type, more):
        flags = ["--model_name_or_path", self.model, "--profile", profile, "--cp_size", str(ring), "--sp_size",
                 str(ulysses), "--max_length", str(length), "--activation_policy", policy, "--mixed_precision",
                 "no" if number_type == "fp32" else number_type, "--per_device_train_batch_size", "2", *more]
        if "nvme" in more:
            flags += ["--offload_optimizer_nvme_path", self.folder.name]
        return flags

    def begun(self, ranks, *case, data=None, **environment):
        """Two steps: from the second on, all are alike."""
        output = os.path.join(self.folder.name, f"out-{next(self.number)}")
        result = run("train", *self.flags(*case), "--dataset_name", data or self.rows(case[3]), "--output_dir", output,
                     "--max_steps", "2", "--logging_steps", "1", "--save_strategy", "no", ranks=ranks, timeout=300, **environment)
        return output, result

    def planned(self, flags, *more):
        device = () if "--gpu" in (*flags, *more) else ("--gpu", HOST)
        result = run("plan", *flags, *device, *more, "--json")
        self.expect(result, 0)
        return json.loads(result.stdout)

    @classmethod
    def device(cls, **numbers):
        return write_device(os.path.join(cls.folder.name, f"device-{next(cls.number)}"), **numbers)
