"""Adapters beside PEFT: it loads what a run wrote, computes the same, and merges to the same weights."""

import glob
import json
import os
import re
import sys
import tempfile
import unittest
import warnings

from beside_transformers import DATA, MODELS as FOLDERS, TrainerTest, read_json, run, some_of

import pyarrow.parquet
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.save_and_load import load_peft_weights, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(DATA)))
sys.path.insert(0, os.path.join(os.path.dirname(DATA), "generator"))
from family_configs import of_vocabulary  # noqa: E402
from family_models import add_tokenizer, write_model  # noqa: E402

ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")
CASES = {"llama3-tiny": ["--lora_target_modules", "q_proj,v_proj", "--lora_modules_to_save", "lm_head", "--use_rslora"],
         "qwen2-tiny": ["--lora_target_modules", r".*layers\.[01]\.mlp\.(up|down)_proj", "--lora_modules_to_save", "embed_tokens"],
         "phi3-tiny": ["--lora_target_modules", "all-linear", "--init_lora_weights", "gaussian"],
         "llama-mha-tiny": ["--lora_target_modules", "q_proj,down_proj", "--init_lora_weights", "pissa", "--use_rslora"],
         "mistral-tiny": ["--lora_target_modules", "all-linear", "--init_lora_weights", "olora", "--lora_modules_to_save", "norm"],
         "qwen2-sharded-tiny": ["--lora_target_modules", "q_proj,v_proj,down_proj", "--bias", "lora_only", "--use_dora"],
         "olmo2-tiny": ["--lora_target_modules", "all-linear", "--layers_to_transform", "0,2", "--exclude_modules", "0.mlp.up_proj,o_proj",
                        "--rank_pattern", r'{"layers\\.2\\.self_attn\\.q_proj": 6, "down_proj": 2}', "--alpha_pattern", '{"mlp..*": 12}'],
         "qwen3-tiny": ["--lora_target_modules", "all-linear", "--use_dora", "--lora_dropout", "0.1"]}


def their_eval_loss(model):
    """The mean over all targets of the rows."""
    total = count = 0
    with open(ROWS) as file, torch.no_grad():
        for line in file:
            row = json.loads(line)
            ids = torch.tensor([row["input_ids"][:48]])
            labels = torch.tensor(row.get("labels", row["input_ids"])[:48])[1:]
            loss = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1].float(), labels, reduction="sum", ignore_index=-100)
            total, count = total + loss.item(), count + int((labels != -100).sum())
    return total / count


class Adapters(TrainerTest):
    def train(self, model, output, flags):
        self.expect(run("train", "--model_name_or_path", os.path.join(FOLDERS, model), "--dataset_name", ROWS, "--bf16", "false",
                        "--use_peft", "--lora_r", "4", *flags, "--learning_rate", "0.01", "--max_length", "48", "--max_steps", "3",
                        "--save_steps", "3", "--eval_strategy", "steps", "--eval_steps", "3", "--eval_dataset_name", ROWS,
                        "--profile", "zero3", "--output_dir", output, ranks=2), 0)
        with open(os.path.join(output, "metrics.jsonl")) as file:
            return next(line["eval_loss"] for line in map(json.loads, file) if "eval_loss" in line)

    def check_loading(self, base, output, eval_loss):
        model = PeftModel.from_pretrained(base, output)
        found = set_peft_model_state_dict(model, load_peft_weights(output))
        self.assertEqual(found.unexpected_keys, [])
        # PEFT saves the rows of tied matrices under the name of the embedding alone.
        tied_rows = "lm_head.token_adapter" if base.config.tie_word_embeddings else "nothing is tied"
        self.assertEqual([name for name in found.missing_keys if tied_rows not in name and
                          any(part in name for part in ("lora_", "modules_to_save", "trainable_tokens"))], [])
        self.assertAlmostEqual(their_eval_loss(model.eval()), eval_loss, delta=1e-5)
        return model

    def check_scores(self, name, model, output, scores):
        """Log-probabilities by the model with the adapter, every row at every place."""
        self.expect(run("score", "--model_name_or_path", os.path.join(FOLDERS, name), "--adapter_name_or_path", output,
                        "--dataset_name", ROWS, "--bf16", "false", "--profile", "zero3", "--output_dir", scores, ranks=2), 0)
        parts = sorted(glob.glob(os.path.join(scores, "*.parquet")))
        rows = [row for part in parts for row in pyarrow.parquet.read_table(part).to_pylist()]
        self.assertGreater(len(rows), 100)
        for row in rows[:20]:
            ids = torch.tensor([row["input_ids"]])
            with torch.no_grad():
                theirs = torch.log_softmax(model(ids).logits[0, :-1].double(), -1).gather(1, ids[0, 1:, None])[:, 0]
            for ours, wanted in zip(row["logprobs"][1:], theirs.tolist(), strict=True):
                self.assertAlmostEqual(ours, wanted, delta=1e-5 * max(1, abs(wanted)))

    def check_merging(self, model, output, merged, *dtypes):
        for dtype in dtypes:
            folder = os.path.join(merged, dtype)
            self.expect(run("export", os.path.join(output, "checkpoint-3"), "--merge", "true", "--dtype", dtype, "--output_dir",
                            folder, ranks=2), 0)
            ours = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
            theirs = model.state_dict()
            self.assertEqual(set(ours), set(theirs))
            for name, tensor in theirs.items():
                one_unit = 1e-6 if dtype == "float32" else 2.0 ** -7
                self.assertTrue(torch.all((ours[name] - tensor).abs() <= one_unit * tensor.abs() + 1e-7), (name, dtype))

    def test_experts(self):
        """Adapters of experts and routers, named as parameters and as the layers that PEFT takes for them, beside models of the traces."""
        for trace, flags in some_of((("qwen3_moe-experts", ["--lora_target_parameters", "experts.gate_up_proj,experts.down_proj,o_proj.weight"]),
                             ("qwen3_moe-all-linear", ["--lora_target_modules", "all-linear"]),
                             ("qwen3_moe-all-linear", ["--lora_target_modules", r".*layers\.[02]\..*(q|v)_proj"]),
                             ("mixtral-all-linear", ["--lora_target_modules", "q_proj,w1,w3,gate"]),
                             ("gpt_oss-experts", ["--lora_target_modules", "q_proj", "--lora_target_parameters",
                                                  "mlp.experts.gate_up_proj,mlp.experts.down_proj,mlp.router.weight"]))):
            with tempfile.TemporaryDirectory() as model:
                write_model(read_json(DATA, "family_traces", f"{trace}.json"), model)
                add_tokenizer(os.path.join(FOLDERS, "qwen2-tiny"), model)
                self.check({model: [*flags, "--lora_dropout", "0", "--use_rslora"]})

    def write_family(self, family, model):
        golden = read_json(DATA, "families", f"{family}.json.gz")
        for name, tensor in golden["tensors"].items():
            if name.startswith(("model.embed_tokens", "model.word_embeddings", "lm_head.", "transformer.wte.")):  # as many rows as the tokenizer has
                tensor["shape"][0] = 512
        golden["config"] = of_vocabulary(golden["config"], 512)
        write_model(golden, model)
        add_tokenizer(os.path.join(FOLDERS, "qwen2-tiny"), model)

    def check_family(self, family, flags, *renamed):
        with tempfile.TemporaryDirectory() as model:
            self.write_family(family, model)
            self.check({model: [*flags, "--lora_dropout", "0"]}, *renamed)

    def test_all_biases(self):
        """Of norms and of the output layer too."""
        self.check_family("phi", ["--lora_target_modules", "q_proj,fc1", "--bias", "all"])

    def test_biases_of_adapted_layers(self):
        """Of an adapted output layer too."""
        self.check_family("phi", ["--lora_target_modules", "q_proj,lm_head", "--bias", "lora_only"])

    def test_gates_and_a_router_of_other_names(self):
        """PEFT adapts the experts of Trinity, and those of Laguna not, whose names end as those of linear layers."""
        self.check_family("afmoe", ["--lora_target_modules", "all-linear"])
        self.check_family("mimo_v2_flash", ["--lora_target_modules", "all-linear"])
        self.check_family("laguna", ["--lora_target_modules", "all-linear"], "mlp.shared_expert.", "mlp.shared_experts.")

    def test_experts_that_stay_as_they_are(self):
        """PEFT adapts experts of the models that its tables name, and not those of these; they have shared experts, which are plain layers."""
        for family, *renamed in some_of((("bailing_hybrid",), ("kimi_linear",), ("axk1",), ("hy_v3", "mlp.shared_mlp.", "mlp.shared_experts."))):
            self.check_family(family, ["--lora_target_modules", "all-linear"], *renamed)

    def test_experts_beside_an_mlp(self):
        """Names of layers that experts have are theirs alone."""
        self.check_family("hunyuan_v1_moe", ["--lora_target_modules", "q_proj,gate_proj,up_proj,down_proj"])
        with tempfile.TemporaryDirectory() as model:
            self.write_family("hunyuan_v1_moe", model)
            self.expect(run("train", "--model_name_or_path", model, "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--use_peft",
                            "--lora_dropout", "0", "--lora_target_modules", "all-linear", "--output_dir", os.path.join(model, "out")), 78,
                        "all-linear", "mlp.gate.wg")

    def expect_the_same_layers(self, folder, model, targets):
        """PEFT's own reading of the targets adapts the layers that the adapter has."""
        fresh = get_peft_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
                               LoraConfig(r=4, target_modules="all-linear" if targets == "all-linear" else targets.split(",")))
        adapted = [{name for name, _ in one.named_parameters() if "lora_A" in name} for one in (model, fresh)]
        self.assertEqual(*adapted)

    def test_values_that_are_keys(self):
        """Of Gemma 4. Its router is a layer for PEFT, and takes no adapter here."""
        self.check_family("gemma4", ["--lora_target_modules", "all-linear"])
        self.check_family("gemma4-experts", ["--lora_target_modules", "q_proj,k_proj,o_proj,down_proj"])
        with tempfile.TemporaryDirectory() as model:
            self.write_family("gemma4-experts", model)
            self.expect(run("train", "--model_name_or_path", model, "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--use_peft",
                            "--lora_target_modules", "all-linear", "--output_dir", os.path.join(model, "out")), 78, "all-linear", "router.proj")

    def test_embeddings_of_layers(self):
        """all-linear is the projection to the embeddings of layers of Gemma 4, too, and not what blocks take of others."""
        self.check_family("gemma4-per-layer", ["--lora_target_modules", "all-linear"])
        self.check_family("gemma4-per-layer", ["--lora_target_modules", "per_layer_model_projection,q_proj", "--use_dora"])

    def test_matrices_that_lie_turned(self):
        """PEFT sets fan_in_fan_out by itself."""
        self.check_family("gpt2", ["--lora_target_modules", "all-linear"])

    def test_bias_of_b(self):
        """Merging adds it to the bias of the layer, which may be trained too, and needs one; the rank is above both sides of v_proj."""
        self.check({"qwen2-sharded-tiny": ["--lora_target_modules", "q_proj,v_proj", "--bias", "lora_only", "--lora_bias",
                                           "--rank_pattern", '{"v_proj": 200}']})
        with tempfile.TemporaryDirectory() as folder:
            self.train("qwen3-tiny", os.path.join(folder, "out"), ["--lora_bias", "--lora_target_modules", "q_proj"])
            self.expect_one_message(run("export", os.path.join(folder, "out", "checkpoint-3"), "--merge", "true", "--output_dir",
                                        os.path.join(folder, "merged")), 78, "q_proj has a bias (lora_bias), and the layer has none")

    def test_rows(self):
        """Of the embedding, of both matrices, and of tied ones; the rows are those of all layouts."""
        self.check({"qwen2-tiny": ["--lora_target_modules", "q_proj", "--trainable_token_indices", "[3, 11, 267]"],
                    "llama3-tiny": ["--lora_target_modules", "q_proj", "--trainable_token_indices",
                                    '{"embed_tokens": [16, 264], "lm_head": [16, 289]}']})

    def test_kinds_of_adapters_of_the_output_layer(self):
        for flags in some_of((["--use_dora"], ["--init_lora_weights", "olora", "--lora_dropout", "0"],
                              ["--init_lora_weights", "pissa", "--lora_dropout", "0"])):
            self.check({"llama3-tiny": ["--lora_target_modules", "q_proj,lm_head", *flags]})

    def test_output_layer_and_embedding(self):
        """Merged like any layer; of two tied matrices the other stays as it is, so the merged model has two."""
        for name, module in some_of((("llama3-tiny", "lm_head"), ("llama3-tiny", "embed_tokens"), ("qwen2-tiny", "embed_tokens"),
                                     ("qwen2-tiny", "lm_head"))):
            with self.subTest(name, module=module), tempfile.TemporaryDirectory() as folder:
                output, merged = os.path.join(folder, "out"), os.path.join(folder, "merged")
                eval_loss = self.train(name, output, ["--lora_target_modules", "q_proj," + module, "--lora_dropout", "0.1"])
                base = AutoModelForCausalLM.from_pretrained(os.path.join(FOLDERS, name), dtype=torch.float32, attn_implementation="eager")
                is_tied = base.config.tie_word_embeddings
                model = self.check_loading(base, output, eval_loss)
                if not is_tied:
                    self.check_merging(model.merge_and_unload(), output, merged, "float32")
                    continue
                checkpoint, adapter = os.path.join(output, "checkpoint-3"), os.path.join(folder, "adapter")
                self.expect_one_message(run("export", checkpoint, "--merge", "true", "--output_dir", merged, ranks=2), 78,
                                        "lm_head is tied to the embedding", "merge that folder")
                self.expect(run("export", checkpoint, "--output_dir", adapter), 0)
                self.expect(run("export", adapter, "--merge", "true", "--output_dir", merged, "--model_name_or_path",
                                os.path.join(FOLDERS, name), ranks=2), 0)
                ours = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32, attn_implementation="eager")
                self.assertFalse(ours.config.tie_word_embeddings)
                self.assertAlmostEqual(their_eval_loss(ours.eval()), eval_loss, delta=1e-5)

    def test_loading_and_merging(self):
        self.check(dict(some_of(list(CASES.items()))))

    def check(self, cases, in_files="", in_peft=""):
        """Modules may have other names in files than in transformers' classes, which PEFT takes when it saves: it reads ours, we not its."""
        warnings.simplefilter("ignore")
        for name, flags in cases.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                output = os.path.join(folder, "out")
                eval_loss = self.train(name, output, flags)
                base = AutoModelForCausalLM.from_pretrained(os.path.join(FOLDERS, name), dtype=torch.float32,
                                                            attn_implementation="eager")
                model = self.check_loading(base, output, eval_loss)
                if os.path.isabs(name) and re.fullmatch(r"[\w,-]+", flags[1]) and "--lora_target_parameters" not in flags:
                    self.expect_the_same_layers(name, model, flags[1])
                if name == "llama3-tiny":
                    self.check_scores(name, model, output, os.path.join(folder, "scores"))
                again = os.path.join(folder, "again")
                model.save_pretrained(again, save_embedding_layers=False)
                theirs, ours = (load_file(os.path.join(path, "adapter_model.safetensors")) for path in (again, output))
                ours = {tensor.replace(in_files, in_peft) if in_files else tensor: numbers for tensor, numbers in ours.items()}
                self.assertEqual(set(theirs), set(ours))
                self.assertTrue(all(torch.equal(theirs[tensor], ours[tensor]) for tensor in ours))
                self.check_merging(model.merge_and_unload(), output, os.path.join(folder, "merged"), "bfloat16",
                                   *(["float32"] if name in ("phi3-tiny", "qwen3-tiny") else []))
                if in_files:
                    self.expect_one_message(run("export", again, "--merge", "true", "--output_dir", os.path.join(folder, "direct"),
                                                "--model_name_or_path", os.path.join(FOLDERS, name)), 65,
                                            "is not in adapter_model.safetensors")
                elif not {"pissa", "olora"} & set(flags):  # W - B0 A0 + ... is rounded once more
                    self.check_merging_a_folder(name, again, folder)

    def check_merging_a_folder(self, name, adapter, folder):
        """The folder that PEFT wrote, without a checkpoint: the same weights to the bit."""
        direct = os.path.join(folder, "direct")
        self.expect(run("export", adapter, "--merge", "true", "--dtype", "bfloat16", "--output_dir", direct, "--model_name_or_path",
                        os.path.join(FOLDERS, name)), 0)
        ours, merged = (load_file(os.path.join(path, "model.safetensors")) for path in (direct, os.path.join(folder, "merged", "bfloat16")))
        self.assertEqual(set(ours), set(merged))
        self.assertTrue(all(torch.equal(ours[tensor], merged[tensor]) for tensor in merged))
        self.assertIn("tokenizer.json", os.listdir(direct))


if __name__ == "__main__":
    unittest.main()
