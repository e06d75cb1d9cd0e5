"""Bytes that a rank holds, by kind, for every profile and size of the world: what the program counts beside the formula."""

import json
import os
import struct
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import ALL_CASES, TrainerTest, read_steps, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
# optimizer state, gradients, weights: what is cut
CUTS = {"multi_gpu": (False, False, False), "zero1": (True, False, False), "zero2": (True, True, False),
        "zero3": (True, True, True), "fsdp2": (True, True, True)}


def unit_sizes():
    """Weights of each unit: the vocabulary with the last norm (the head is tied), and the blocks."""
    with open(os.path.join(MODEL, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    sizes = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        unit = ".".join(name.split(".")[:3]) if ".layers." in name else "vocabulary"
        count = 1
        for length in tensor["shape"]:
            count *= length
        sizes[unit] = sizes.get(unit, 0) + count
    return sizes


def formula(profile, ranks, is_bf16):
    sizes = unit_sizes()
    everything, vocabulary = sum(sizes.values()), sizes["vocabulary"]
    block = max(size for unit, size in sizes.items() if unit != "vocabulary")
    cuts_optimizer, cuts_gradients, cuts_weights = CUTS[profile]
    shard = everything / ranks if cuts_optimizer else everything
    compute = 2 if is_bf16 else 4
    at_rest = shard if cuts_weights else everything
    # The vocabulary and two blocks are gathered at a time; the gradients of one block are added to
    # while those of the one before travel.
    moment = vocabulary + 2 * block
    return {"weights": compute * at_rest + (4 * shard if is_bf16 else 0),
            "gathered": compute * moment if cuts_weights else 0,
            "gradients": 4 * (0 if not cuts_optimizer else shard) + 4 * (moment if cuts_gradients else everything),
            "optimizer": 8 * shard,
            # The part of one unit that arrives; what is sent is the gradient itself, in fp32 as it is.
            "communication": 4 * max(vocabulary, block) / ranks if cuts_optimizer else 0}


def activation_bytes(config, tokens, cp, sp, gathers):
    """What a rank holds of a batch at most, in fp32 and with the policy `attention`, in the backward pass of the last block:
    so many numbers for each of its tokens, and it has 1/(cp x sp) of them. Chunks of the MLP and of the head have a size of
    their own: small beside a long row. Letters as in the code: w width, h query heads, g key heads, d of a head."""
    w, h, g = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    d = w // h
    blocks = config["num_hidden_layers"] * (w + h * d + h)  # kept by each: input, attention output and log-sum-exp
    qkv = (h + 2 * g) * d
    # Inside of Ulysses a rank has its share of the heads for all tokens of its group; key heads are repeated where there
    # are fewer of them than ranks.
    inside_g = max(g, sp)
    inside_qkv = (h + 2 * inside_g) * d
    # The gradient, its way into the attention, qkv and its gradient; angles of rope; token, target, position in 64 bits.
    block = w + h * d + qkv + inside_qkv + d + 6
    if sp > 1:
        block += inside_qkv + 2 * h * d  # exchanged: qkv, the output and its gradient
    if cp > 1:
        # Gradients in fp32: of queries, and of keys and values. Keys and values, and their gradients, are here and arriving;
        # or of all ring ranks.
        block += h * d + (2 * cp if gathers else 4) * inside_g * d * 2
    return 4 * tokens / (cp * sp) * (blocks + block)


class Memory(TrainerTest):
    def counted(self, profile, ranks, is_bf16):
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", "--model_name_or_path", MODEL, "--dataset_name",
                            os.path.join(DATA, "rows", "pretokenized.jsonl"), "--output_dir", output, "--max_steps", "2",
                            "--logging_steps", "2", "--save_strategy", "no", "--per_device_train_batch_size", "1",
                            "--bf16", str(is_bf16).lower(), "--profile", profile, ranks=ranks), 0)
            return read_steps(output)[-1]

    def test_every_profile(self):
        for is_bf16 in (False, True):
            for profile in CUTS:
                for ranks in (2,) if is_bf16 else (1, 2, 4, 8) if ALL_CASES else (1, 4):
                    line = self.counted(profile, ranks, is_bf16)
                    for kind, expected in formula(profile, ranks, is_bf16).items():
                        found = line[f"memory_{kind}_bytes"]
                        print(f"{profile:10} {ranks} ranks {'bf16' if is_bf16 else 'fp32'} {kind:10}"
                              f" {found:10} counted {expected:12.0f} by formula")
                        with self.subTest(profile=profile, ranks=ranks, bf16=is_bf16, kind=kind):
                            # Every group of tensors is aligned, and a unit divides by the ranks.
                            self.assertGreaterEqual(found, expected * 0.9999)
                            self.assertLessEqual(found, expected * 1.01 + 64 * 64)
                    self.assertGreater(line["memory_activations_bytes"], 0)

    def test_activations_are_shared_by_the_ranks_of_a_sequence(self):
        with open(os.path.join(MODEL, "config.json")) as file:
            config = json.load(file)
        config.update(num_hidden_layers=32)
        with tempfile.TemporaryDirectory() as folder:
            wanted, model = os.path.join(folder, "wanted.json"), os.path.join(folder, "model")
            with open(wanted, "w") as file:
                json.dump(config, file)
            self.expect(run("init", "--config_json", wanted, "--output_dir", model), 0)
            more = [(1, 2, "ring"), (4, 1, "ring"), (4, 2, "ring"), (8, 1, "ring")] if ALL_CASES else []
            for cp, sp, strategy in [(1, 1, "ring"), (2, 1, "ring"), (2, 2, "ring"), (4, 1, "allgather"), (1, 4, "ring"),
                                     (2, 4, "allgather"), *more]:
                with self.subTest(cp=cp, sp=sp, strategy=strategy):
                    output = os.path.join(folder, f"{cp}-{sp}-{strategy}")
                    self.expect(run("train", "--model_name_or_path", model, "--cpu_gemm", "aten", "--dataset_name",
                                    os.path.join(DATA, "rows", "pretokenized.jsonl"), "--output_dir", output, "--max_steps",
                                    "1", "--logging_steps", "1", "--save_strategy", "no", "--per_device_train_batch_size",
                                    "1", "--bf16", "false", "--packing", "true", "--max_length", "8192", "--profile",
                                    "zero3", "--cp_size", str(cp), "--sp_size", str(sp), "--cp_comm_strategy", strategy,
                                    ranks=cp * sp), 0)
                    line = read_steps(output)[-1]
                    found = line["memory_activations_bytes"]
                    expected = activation_bytes(config, line["num_tokens"], cp, sp, strategy == "allgather")
                    print(f"cp {cp} sp {sp} {strategy:9} {found:10} counted {expected:12.0f} by formula"
                          f" {100 * found / expected - 100:+.1f} %")
                    self.assertAlmostEqual(found, expected, delta=0.05 * expected)
                    # A row of many documents is even work too.
                    self.assertEqual("attention_work_worst_to_mean" in line, cp > 1)
                    self.assertLess(line.get("attention_work_worst_to_mean", 1), 1.15)

    def test_the_process_does_not_grow_with_the_run(self):
        """Rows of ever other lengths: what libraries keep of every shape has an end."""
        with tempfile.TemporaryDirectory() as output:
            self.expect(run("train", "--model_name_or_path", MODEL, "--dataset_name",
                            os.path.join(DATA, "rows", "pretokenized.jsonl"), "--output_dir", output, "--max_steps", "200",
                            "--logging_steps", "20", "--save_strategy", "no", "--bf16", "true"), 0)
            peaks = [line["peak_memory_bytes"] for line in read_steps(output)]
            self.assertLess(peaks[-1] - peaks[0], 150e6)


if __name__ == "__main__":
    unittest.main()
