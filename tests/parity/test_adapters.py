"""Adapters: 30 steps of TRL's SFTTrainer on PEFT models from the same adapter (generator/adapters.py)."""

import array
import json
import math
import os
import shutil
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run, some_of  # noqa: E402

DATA = os.path.join(FOLDER, "data")
ADAPTERS = os.path.join(DATA, "adapters")
IGNORED = {"use_cpu", "logging_nan_inf_filter", "disable_tqdm", "dataloader_pin_memory", "report_to"}
SPARSE = 16  # of a whole matrix the trace holds each 16th row


def flags(trace, output):
    yield from ("--model_name_or_path", os.path.join(DATA, trace["model"]))
    if trace["adapter"]:
        yield from ("--adapter_name_or_path", os.path.join(DATA, trace["adapter"]))
    else:
        for key, value in trace["model_args"].items():
            yield from ("--" + key, ",".join(value) if isinstance(value, list) else str(value).lower())
    yield from ("--dataset_name", os.path.join(DATA, "rows", os.path.basename(trace["data"])),
                "--output_dir", output, "--data_cache_dir", os.path.join(output, "data"))
    for key, value in trace["args"].items():
        if key == "chat_template_path":
            value = os.path.join(DATA, value)
        if key not in IGNORED:
            yield from ("--" + key, value if isinstance(value, str) else json.dumps(value))


def read_tensors(file):
    """fp32: shape and numbers, by name."""
    with open(file, "rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        content = opened.read()
    header.pop("__metadata__", None)
    return {name: (entry["shape"], array.array("f", content[slice(*entry["data_offsets"])])) for name, entry in header.items()}


def sparse(tensor):
    (_, width), numbers = tensor
    return [numbers[row * width + i] for row in range(0, len(numbers) // width, SPARSE) for i in range(width)]


class Adapters(TrainerTest):
    def check(self, name, *profile, ranks=None):
        with open(os.path.join(ADAPTERS, name + ".json")) as file:
            trace = json.load(file)
        is_bf16 = trace["args"]["bf16"]
        loss, norm, weights = (1e-2, 5e-2, 5e-2) if is_bf16 else (1e-4, 1e-3, 1e-4)
        if name == "dora_bf16":
            loss, norm, weights = 5e-3, 1e-2, 2e-2
        with self.subTest(trace=name, profile=profile), tempfile.TemporaryDirectory() as output:
            self.expect(run("train", *flags(trace, output), *profile, ranks=ranks), 0)
            for ours, theirs in zip(read_steps(output), trace["steps"], strict=True):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=loss)
                self.assertAlmostEqual(ours["grad_norm"], theirs["grad_norm"], delta=norm * theirs["grad_norm"])
                self.assertAlmostEqual(ours["learning_rate"], theirs["learning_rate"], delta=1e-12)
                self.assertEqual(ours["num_tokens"], theirs["num_tokens"])
            ours, theirs = (read_tensors(file) for file in (os.path.join(output, "adapter_model.safetensors"),
                                                            os.path.join(ADAPTERS, name + ".safetensors")))
            self.assertEqual(set(ours), set(theirs))
            if trace["adapter"] is None:
                self.check_products(ours, theirs)
                return
            for tensor, (_, numbers) in theirs.items():
                is_whole = tensor.endswith(("embed_tokens.weight", "lm_head.weight"))
                mine = sparse(ours[tensor]) if is_whole else ours[tensor][1]
                distance = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(mine, numbers, strict=True)))
                # Its gradient is almost 0, and another order of sums turns the update: PEFT's own numbers differ by 4e-4 then.
                most = 20 * weights if tensor.endswith("k_proj.bias") else weights
                self.assertLess(distance, most * math.sqrt(math.fsum(b * b for b in numbers)), tensor)
            with open(os.path.join(output, "adapter_config.json")) as file, \
                    open(os.path.join(DATA, trace["adapter"], "adapter_config.json")) as start:
                config, begun = json.load(file), json.load(start)
            config["base_model_name_or_path"] = begun["base_model_name_or_path"]
            self.assertEqual(config, begun)

    def test_a_file_in_bf16(self):
        start = os.path.join(ADAPTERS, "start", "qwen2_dora")
        with open(os.path.join(ADAPTERS, "dora.json")) as file:
            trace = json.load(file)
        with tempfile.TemporaryDirectory() as folder:
            stored = os.path.join(folder, "stored")
            os.mkdir(stored)
            shutil.copy(os.path.join(start, "adapter_config.json"), stored)
            tensors, header, content = read_tensors(os.path.join(start, "adapter_model.safetensors")), {}, b""
            for name, (shape, numbers) in tensors.items():
                halves = b"".join(numbers[i:i + 1].tobytes()[2:] for i in range(len(numbers)))  # the upper bits
                header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(content), len(content) + len(halves)]}
                content += halves
            text = json.dumps(header).encode()
            with open(os.path.join(stored, "adapter_model.safetensors"), "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text + content)
            output = os.path.join(folder, "out")
            trace["adapter"] = stored
            trace["args"].update(max_steps=1, learning_rate=0)
            self.expect(run("train", *flags(trace, output)), 0)
            self.assertAlmostEqual(read_steps(output)[0]["loss"], trace["steps"][0]["loss"], delta=2e-2)
            for name, (_, numbers) in read_tensors(os.path.join(output, "adapter_model.safetensors")).items():
                begun = tensors[name][1]
                self.assertEqual([number.hex() for number in numbers],
                                 [array.array("f", b"\0\0" + begun[i:i + 1].tobytes()[2:])[0].hex() for i in range(len(begun))], name)

    def check_products(self, ours, theirs):
        """B A of a converted adapter, and of its initial half: the sign of a singular vector is anybody's choice."""
        for name in theirs:
            if not name.endswith("lora_A.weight"):
                continue
            beside = name.replace("lora_A", "lora_B")
            products = []
            for tensors in (ours, theirs):
                (rank, width), a = tensors[name]
                (out, _), b = tensors[beside]
                for first in (0, rank // 2):
                    products.append([sum(b[row * rank + k] * a[k * width + column] for k in range(first, rank))
                                     for row in range(out) for column in range(width)])
            for mine, wanted in zip(products[:2], products[2:]):
                far = math.sqrt(sum((x - y) ** 2 for x, y in zip(mine, wanted, strict=True)))
                self.assertLess(far, 1e-4 * math.sqrt(sum(y * y for y in wanted)), name)

    def test_taken_out_of_the_weights(self):
        self.check("pissa", "--profile", "zero3", "--cp_size", "2", ranks=2)
        self.check("olora", "--profile", "zero2", "--per_device_train_batch_size", "2", ranks=2)

    def test_one_rank(self):
        for name in some_of(("qwen2", "qwen3", "llama3_packed", "rslora", "patterns", "lm_head", "embed_tokens", "accumulation_packed",
                     "bf16", "bf16_base", "loraplus", "dora", "loraplus_dora", "dora_bf16", "lora_only", "all_biases",
                     "lora_bias", "head", "tied_head", "head_dora", "embedding", "tied_embedding", "rows", "rows_of_both", "tied_rows")):
            self.check(name)

    def test_two_ranks(self):
        cases = some_of((("qwen3", "--profile", "zero3", "--sp_size", "2"), ("llama3_packed", "--profile", "zero3", "--cp_size", "2"),
                         ("dora", "--profile", "zero3", "--sp_size", "2"),
                         ("loraplus_dora", "--profile", "zero1", "--per_device_train_batch_size", "2"),
                         ("dora_bf16", "--profile", "zero1", "--per_device_train_batch_size", "2"),
                         ("lora_only", "--profile", "zero3", "--cp_size", "2"),
                         ("lora_bias", "--profile", "zero3", "--sp_size", "2"),
                         ("head", "--profile", "zero3", "--cp_size", "2"),
                         ("tied_head", "--profile", "zero2", "--per_device_train_batch_size", "2"),
                         ("head_dora", "--profile", "zero3", "--sp_size", "2"),
                         ("embedding", "--profile", "zero3", "--cp_size", "2"),
                         ("tied_embedding", "--profile", "zero2", "--per_device_train_batch_size", "2"),
                         ("rows", "--profile", "zero1", "--per_device_train_batch_size", "2"),
                         ("rows_of_both", "--profile", "zero3", "--sp_size", "2"),
                         ("tied_rows", "--profile", "zero3", "--cp_size", "2"),
                         ("all_biases", "--profile", "zero2", "--per_device_train_batch_size", "2"),
                         ("lm_head", "--profile", "zero2", "--per_device_train_batch_size", "2"),
                         ("embed_tokens", "--profile", "zero3", "--per_device_train_batch_size", "2")))
        for name, *split in cases:
            self.check(name, *split, ranks=2)


if __name__ == "__main__":
    unittest.main()
