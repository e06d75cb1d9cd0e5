"""Every decoder class of transformers: this program gives its first loss, or refuses it by its name."""

import os
import tempfile
import unittest

from beside_transformers import FOLDER, TrainerTest
from decoder_classes import TOKENS, Losses, bare_config, classes, is_served, tiny_config, tiny_model, write_config
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import torch

SETTINGS = 78  # exit code


class DecoderClasses(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.losses = Losses()

    @classmethod
    def tearDownClass(cls):
        cls.losses.close()

    def test_each_is_served_or_refused_by_name(self):
        with open(os.path.join(FOLDER, "..", "..", "docs", "models.md")) as file:
            page = file.read()
        for model_type, name in classes().items():
            with self.subTest(model_type):
                answer = self.losses.of_config(bare_config(model_type))
                if is_served(answer):
                    self.assertTrue(f"`{name}`" in page, f"docs/models.md does not name {name}")
                else:
                    self.assertEqual(answer["code"], SETTINGS)
                    self.assertRegex(answer["message"], rf"(architectures = \[{name}\]|model_type = {model_type}): this program trains ")

    def test_no_field_of_a_class_is_unknown(self):
        for model_type in classes():
            answer = self.losses.of_config(tiny_config(model_type)) if is_served(self.losses.of_config(bare_config(model_type))) else {}
            self.assertEqual(answer.get("unknown", []), [], model_type)

    def test_first_losses(self):
        served = [model_type for model_type in classes() if is_served(self.losses.of_config(bare_config(model_type)))]
        self.assertGreater(len(served), 30)
        for model_type in served:
            with self.subTest(model_type):
                ours, theirs = self.losses.compare(tiny_config(model_type))
                self.assertIn("loss", ours)
                self.assertLess(abs(ours["loss"] - theirs), 1e-6 * theirs + 1e-6)

    def test_a_release_of_kimi_linear(self):
        """Its fields and its first MLP have other names than in what transformers writes of it."""
        content = tiny_config("kimi_linear")
        kinds = content.pop("layer_types")
        numbers = {kind: [i + 1 for i, name in enumerate(kinds) if name == kind] for kind in set(kinds)}
        content["linear_attn_config"] = {"num_heads": content.pop("linear_num_heads"), "head_dim": content.pop("linear_head_dim"),
                                         "short_conv_kernel_size": content.pop("linear_conv_kernel_dim"),
                                         "kda_layers": numbers["linear_attention"], "full_attn_layers": numbers["full_attention"]}
        content.pop("mlp_layer_types")
        content |= {"first_k_dense_replace": 1, "head_dim": 10, "mla_use_nope": True, "moe_router_activation_func": "sigmoid", "moe_layer_freq": 1,
                    "use_grouped_topk": True, "num_nextn_predict_layers": 0}
        with tempfile.TemporaryDirectory() as folder:
            tiny_model(tiny_config("kimi_linear"), folder).save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            first, released = "layers.0.block_sparse_moe.", "layers.0.mlp."
            tensors = {name.replace(first, released): tensor for name, tensor in load_file(path).items()}
            self.assertTrue(any(released in name for name in tensors))
            save_file(tensors, path, {"format": "pt"})
            write_config(content, folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
            with torch.no_grad():
                tokens = torch.tensor([TOKENS])
                theirs = model(tokens, labels=tokens, use_cache=False).loss.item()
            ours = self.losses.ask(folder=folder, tokens=TOKENS)
            self.assertEqual(ours.get("unknown", []), [])
            self.assertLess(abs(ours["loss"] - theirs), 1e-6 * theirs + 1e-6)


if __name__ == "__main__":
    unittest.main()
