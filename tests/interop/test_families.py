"""Models of every family: transformers loads the random one that trainer init makes, and the trained one, key by key."""

import json
import os
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS, TrainerTest, run

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, os.path.join(FOLDER, "..", "parity"))
from family_models import add_tokenizer, shapes_in_memory, write_model  # noqa: E402


def goldens(folder):
    for name in sorted(os.listdir(os.path.join(DATA, folder))):
        with open(os.path.join(DATA, folder, name)) as file:
            yield name, json.load(file)


# Of the traces: those with experts are trained by ranks that share them.
TRAINED = {"cohere2": [], "gemma3": [], "granite": [], "gpt_oss": ["--ep_size", "2"], "olmoe": ["--ep_size", "2"],
           "qwen3_moe": ["--ep_size", "2"], "ernie4_5_moe": ["--ep_size", "2"],
           "glm4_moe": ["--ep_size", "2", "--dtype", "bfloat16"]}
CORRECTION = "e_score_correction_bias"  # no run trains it, and every file has it in fp32


def corrections(model):
    return {name: tensor for name, tensor in model.state_dict().items() if name.endswith(CORRECTION)}


class Families(TrainerTest):
    def load(self, folder):
        model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(report[kind], kind)
        return model

    def stored_name(self, name, model):
        return name.replace("lm_head", "embed_out") if model.config.model_type == "gpt_neox" else name

    def test_a_random_model_of_every_family(self):
        for name, golden in goldens("families"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                config, output = os.path.join(folder, "config.json"), os.path.join(folder, "model")
                with open(config, "w") as file:
                    json.dump({key: value for key, value in golden["config"].items() if key != "initializer_range"}, file)
                if "text_config" in golden["config"]:
                    self.expect(run("init", "--config_json", config, "--output_dir", output), 78, "init makes text models alone")
                    continue
                self.expect(run("init", "--config_json", config, "--output_dir", output), 0)
                model = self.load(output)
                self.assertEqual({self.stored_name(name, model): list(p.shape)
                                  for name, p in {**dict(model.named_parameters()), **corrections(model)}.items()},
                                 shapes_in_memory(golden))
                for correction in corrections(model).values():
                    self.assertFalse(correction.any())
                norms = [p for name, p in model.named_parameters() if "norm" in name and name.endswith("weight")]
                self.assertLessEqual({p.unique().numel() for p in norms}, {1})  # the neutral factor
                deviation = model.get_input_embeddings().weight.std().item()
                self.assertAlmostEqual(deviation / model.config.initializer_range, 1, delta=0.06)

    def test_a_trained_model(self):
        for name, trace in goldens("family_traces"):
            if name.removesuffix(".json") not in TRAINED:
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
                write_model(trace, model)
                add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
                self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--profile", "zero3",
                                "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--max_length", "48",
                                "--max_steps", "2", "--learning_rate", "0.01", "--bf16", "false",
                                *TRAINED[name.removesuffix(".json")], ranks=2), 0)
                before, after = self.load(model), self.load(output)
                ids = torch.tensor([[5, 17, 99, 3, 250, 44, 8, 120, 301, 77]])
                self.assertGreater((after(ids).logits - before(ids).logits).abs().max().item(), 1e-2)
                for key, weight in after.named_parameters():
                    self.assertTrue(torch.isfinite(weight).all(), key)
                    if not key.endswith(CORRECTION):
                        self.assertFalse(torch.equal(weight.float(), before.get_parameter(key)), key)
                for key, correction in corrections(after).items():
                    self.assertEqual(correction.dtype, torch.float32)
                    self.assertTrue(torch.equal(correction, before.state_dict()[key]), key)


if __name__ == "__main__":
    unittest.main()
