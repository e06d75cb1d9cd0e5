"""Weights stored in FP8 or MXFP4: the weights that a run reads and writes are those of transformers with dequantize=True, to the bit."""

import json
import os
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS, TrainerTest, read_config, run

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, Mxfp4Config

import test_wrapped

sys.path.insert(0, os.path.join(FOLDER, "..", "parity"))
sys.path.insert(0, os.path.join(FOLDER, "..", "parity", "generator"))
from family_configs import CONFIGS, sizes  # noqa: E402
from family_models import add_tokenizer  # noqa: E402

ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
BLOCKS = {"weight_block_size": [16, 8], "activation_scheme": "dynamic"}
MATRIX = {"weight_block_size": None, "activation_scheme": "static"}
MORE = {"qwen3": {}, "ministral3": {"rope_parameters": CONFIGS["ministral3"]["rope_parameters"]},
        "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
        "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2}}


def quantise(weight, block):
    """FP8 numbers, and the scale of each block that they are multiplied by."""
    rows, columns = block or weight.shape
    tiles = weight.reshape(weight.shape[0] // rows, rows, weight.shape[1] // columns, columns)
    scales = tiles.abs().amax((1, 3)) / torch.finfo(torch.float8_e4m3fn).max
    stored = (tiles / scales[:, None, :, None]).reshape(weight.shape).to(torch.float8_e4m3fn)
    return stored, scales if block else scales.reshape(())


def make_model(folder, form, model_type="qwen3"):
    torch.manual_seed(2)
    config = AutoConfig.for_model(**sizes(model_type=model_type, head_dim=8, vocab_size=512, **MORE[model_type]))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    file = os.path.join(folder, "model.safetensors")
    tensors = {}
    for name, weight in load_file(file).items():
        if "_proj" not in name:
            tensors[name] = weight
            continue
        tensors[name], scales = quantise(weight.float(), form["weight_block_size"])
        tensors[name + "_scale_inv"] = scales.to(torch.float32 if form["weight_block_size"] else torch.bfloat16)
        if form["activation_scheme"] == "static":
            tensors[name.replace("weight", "activation_scale")] = torch.tensor(0.5, dtype=torch.bfloat16)
    save_file(tensors, file, metadata={"format": "pt"})
    add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), folder)
    change_config(folder, {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"], **form})


def make_mxfp4_model(folder):
    """Experts in random blocks of MXFP4, as releases of GPT-OSS have them."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(**{**CONFIGS["gpt_oss"], "intermediate_size": 64, "vocab_size": 512})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    file = os.path.join(folder, "model.safetensors")
    tensors = load_file(file)
    for name in [name for name in tensors if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj")]:
        experts, rows, columns = tensors.pop(name).shape
        tensors[name + "_blocks"] = torch.randint(0, 256, (experts, columns, rows // 32, 16), dtype=torch.uint8)
        tensors[name + "_scales"] = torch.randint(118, 126, (experts, columns, rows // 32), dtype=torch.uint8)
    save_file(tensors, file, metadata={"format": "pt"})
    add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), folder)
    change_config(folder, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]})
    return file, tensors


def change_config(folder, quantization):
    config = read_config(folder) | {"quantization_config": quantization}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


class Fp8(TrainerTest):
    def train(self, model, output, *flags, fails=0, says=(), ranks=None):
        self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--dataset_name", ROWS, "--max_length", "48",
                        "--max_steps", "1", "--learning_rate", "0", "--bf16", "false", *flags, ranks=ranks), fails, *says)

    def test_reading(self):
        """After a step with a learning rate of 0 the written model is the one that was read."""
        for form, kind, dtype in ((BLOCKS, "qwen3", torch.float32), (BLOCKS, "qwen3", torch.bfloat16),
                                  (MATRIX, "ministral3", torch.float32), (BLOCKS, "qwen3_moe", torch.bfloat16)):
            with self.subTest(form=form, dtype=dtype), tempfile.TemporaryDirectory() as folder:
                model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
                make_model(model, form, kind)
                theirs = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
                for ranks in (None, 2):
                    self.train(model, f"{output}{ranks}", "--profile", "zero3", "--dtype", str(dtype).split(".")[1], ranks=ranks)
                    ours, report = AutoModelForCausalLM.from_pretrained(f"{output}{ranks}", dtype=dtype, output_loading_info=True)
                    self.assertFalse(report["missing_keys"] or report["unexpected_keys"])
                    self.assertNotIn("quantization_config", read_config(f"{output}{ranks}"))
                    for name, weight in theirs.state_dict().items():
                        self.assertTrue(torch.equal(weight.to(dtype), ours.state_dict()[name]), name)

    def test_mxfp4(self):
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            file, tensors = make_mxfp4_model(model)
            theirs = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, quantization_config=Mxfp4Config(dequantize=True))
            for ranks, dtype in ((None, "float32"), (2, "bfloat16")):
                self.train(model, f"{output}{ranks}", "--profile", "zero3", "--dtype", dtype, ranks=ranks)
                ours, report = AutoModelForCausalLM.from_pretrained(f"{output}{ranks}", dtype=torch.bfloat16, output_loading_info=True)
                self.assertFalse(report["missing_keys"] or report["unexpected_keys"])
                self.assertNotIn("quantization_config", read_config(f"{output}{ranks}"))
                for name, weight in theirs.state_dict().items():
                    self.assertTrue(torch.equal(weight.to(torch.bfloat16), ours.state_dict()[name].to(torch.bfloat16)), name)
            scales = tensors.pop("model.layers.1.mlp.experts.down_proj_scales")
            save_file(tensors, file, metadata={"format": "pt"})
            self.train(model, output + "-bad", fails=65, says=["down_proj_scales, are not in the model's files"])
            tensors["model.layers.1.mlp.experts.down_proj_scales"] = scales[:, :-1].contiguous()
            save_file(tensors, file, metadata={"format": "pt"})
            self.train(model, output + "-bad", fails=65, says=["down_proj is stored in MXFP4", "a scale for each"])

    def test_a_wrapped_model(self):
        """Its text model is in FP8, as in releases of Mistral 3; the rest is not, and passes through."""
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            test_wrapped.make_model("mistral3-mistral", model)
            file = os.path.join(model, "model.safetensors")
            tensors = load_file(file)
            for name in [name for name in tensors if "language_model" in name and "_proj" in name]:
                tensors[name], tensors[name + "_scale_inv"] = quantise(tensors[name], None)
            save_file(tensors, file, metadata={"format": "pt"})
            change_config(model, {"quant_method": "fp8", "modules_to_not_convert": ["vision_tower", "multi_modal_projector", "lm_head"],
                                  **MATRIX})
            theirs = AutoModelForImageTextToText.from_pretrained(model, dtype=torch.float32).state_dict()
            self.train(model, output, "--profile", "zero3", ranks=2)
            ours, report = AutoModelForImageTextToText.from_pretrained(output, dtype=torch.float32, output_loading_info=True)
            self.assertFalse(report["missing_keys"] or report["unexpected_keys"])
            self.assertNotIn("quantization_config", read_config(output))
            self.assertEqual(set(theirs), set(ours.state_dict()))
            for name, weight in ours.state_dict().items():
                self.assertTrue(torch.equal(weight, theirs[name].float()), name)
            tensors["vision_tower.patch_conv.weight"] = tensors["vision_tower.patch_conv.weight"].to(torch.float8_e4m3fn)
            save_file(tensors, file, metadata={"format": "pt"})
            self.train(model, output + "2", fails=65, says=["vision_tower.patch_conv.weight is stored in FP8"])

    def test_adapters(self):
        """The base stays in FP8 where it is, and the merged model is written as floats."""
        with tempfile.TemporaryDirectory() as folder:
            model, output, merged = (os.path.join(folder, name) for name in ("model", "out", "merged"))
            make_model(model, BLOCKS)
            self.train(model, output, "--use_peft", "--lora_r", "4", "--save_steps", "1", ranks=2)
            self.expect(run("export", os.path.join(output, "checkpoint-1"), "--merge", "true", "--dtype", "float32", "--output_dir",
                            merged), 0)
            theirs = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).state_dict()
            for name, weight in AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).state_dict().items():
                self.assertTrue(torch.equal(weight, theirs[name]), name)  # B is still 0

    def test_what_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            make_model(model, BLOCKS)
            fp8 = {"quant_method": "fp8", **BLOCKS}
            for quantization, says in (({"quant_method": "mxfp4"}, "quant_method = \"mxfp4\""),
                                       (fp8 | {"scale_fmt": "ue8m0"}, "quantization_config: scale_fmt = ue8m0: must be float"),
                                       (fp8 | {"weight_block_size": [16]}, "quantization_config: weight_block_size = [16]: must be two"),
                                       (fp8 | {"weight_block_size": [20, 8]}, "is no multiple of 20")):
                change_config(model, quantization)
                self.train(model, output, fails=78, says=[says])
            change_config(model, fp8)
            file = os.path.join(model, "model.safetensors")
            tensors = load_file(file)
            name = "model.layers.0.mlp.up_proj.weight"
            save_file(tensors | {name + "_scale_inv": torch.ones(5, 5)}, file, metadata={"format": "pt"})
            self.train(model, output, fails=65, says=[name, "do not divide it into equal blocks"])
            del tensors[name + "_scale_inv"]
            save_file(tensors, file, metadata={"format": "pt"})
            self.train(model, output, fails=65, says=[name + "_scale_inv, are not in the model's files"])

    def test_experts_in_one_tensor_are_refused(self):
        """transformers 5.23 reads these without their scales."""
        with tempfile.TemporaryDirectory() as folder:
            model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
            make_model(model, BLOCKS, "granitemoe")
            file = os.path.join(model, "model.safetensors")
            tensors = load_file(file)
            name = "model.layers.0.block_sparse_moe.input_linear.weight"
            tensors[name] = tensors[name].to(torch.float8_e4m3fn)
            tensors[name + "_scale_inv"] = torch.ones(4, 6, 4)
            save_file(tensors, file, metadata={"format": "pt"})
            self.train(model, output, fails=65, says=[name + " is stored in FP8", "experts of one matrix each"])


if __name__ == "__main__":
    unittest.main()
