"""Models that transformers makes from their configs: one step's loss and gradient, here and there."""

import json
import os
import random
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

try:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config
    from transformers.utils.logging import disable_progress_bar
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

disable_progress_bar()
SIZES = dict(vocab_size=160, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256)
YARN = {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 32}


def rope(rope_type, **values):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **values}}


CASES = {
    "llama": LlamaConfig(**SIZES),
    "llama with biases": LlamaConfig(**SIZES, attention_bias=True),
    "llama, wide heads": LlamaConfig(**SIZES, head_dim=32, tie_word_embeddings=True),
    "llama, a padding token": LlamaConfig(**SIZES, pad_token_id=7),
    "linear": LlamaConfig(**SIZES, **rope("linear", factor=3.0)),
    "llama3": LlamaConfig(**SIZES, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                          original_max_position_embeddings=64)),
    "yarn": Qwen2Config(**SIZES, rope_parameters=YARN),
    "yarn with weights": Qwen2Config(**SIZES, rope_parameters={
        **YARN, "mscale": 0.7, "mscale_all_dim": 1.2, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}),
    "yarn with its scaling": Qwen2Config(**SIZES, rope_parameters={**YARN, "attention_factor": 1.3}),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
    "qwen3 with biases": Qwen3Config(**SIZES, head_dim=20, attention_bias=True, tie_word_embeddings=True),
    "qwen2 with an idle window": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=4, max_window_layers=2),
    "mistral": MistralConfig(**SIZES, sliding_window=64),
    "phi3": Phi3Config(**SIZES, pad_token_id=None),
    "phi3, a padding token, tied": Phi3Config(**SIZES, pad_token_id=7, tie_word_embeddings=True, sliding_window=64),
}


def make_model(config, folder):
    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(1.0, 0.3)
            else:
                parameter.normal_(0.0, 0.15)
    model.save_pretrained(folder)
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def their_step(model, rows):
    """Loss per target and the norm of its gradient."""
    count = sum(len(row) - 1 for row in rows)
    total = 0.0
    for row in rows:
        ids = torch.tensor([row])
        logits = model(input_ids=ids).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum") / count
        loss.backward()
        total += loss.item()
    squares = sum(parameter.grad.double().square().sum() for parameter in model.parameters())
    return total, squares.sqrt().item()


def older_spelling(folder):
    """rope_theta and rope_scaling with `type`, as files of earlier releases have them."""
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {**rope, "type": kind}
    config["torch_dtype"] = config.pop("dtype")
    with open(path, "w") as file:
        json.dump(config, file)


class Models(TrainerTest):
    def our_step(self, folder, rows_file, *flags, ranks=None):
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", "--model_name_or_path", folder, "--dataset_name", rows_file, "--bf16", "false",
                            "--max_steps", "1", "--logging_steps", "1", "--save_strategy", "no", "--output_dir", output,
                            *flags, ranks=ranks), 0)
            line = read_steps(output)[0]
            return line["loss"], line["grad_norm"]

    def check(self, ours, theirs):
        self.assertAlmostEqual(ours[0], theirs[0], delta=2e-6)
        self.assertAlmostEqual(ours[1], theirs[1], delta=1e-5 * theirs[1])

    def test_a_step_of_every_model(self):
        draw = random.Random(5)
        rows = [[draw.randrange(SIZES["vocab_size"]) for _ in range(length)] for length in (60, 17, 41, 33)]
        rows[1][5] = CASES["llama, a padding token"].pad_token_id
        for number, (name, config) in enumerate(CASES.items()):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                theirs = their_step(make_model(config, folder), rows)
                rows_file = os.path.join(folder, "rows.jsonl")
                with open(rows_file, "w") as file:
                    file.writelines(json.dumps({"input_ids": row}) + "\n" for row in rows)
                self.check(self.our_step(folder, rows_file), theirs)
                older_spelling(folder)
                split = ("--cp_size", "--sp_size")[number % 2]
                self.check(self.our_step(folder, rows_file, "--profile", "zero3", split, "2", ranks=2), theirs)


if __name__ == "__main__":
    unittest.main()
