"""Models of every family: transformers loads the random one that trainer init makes, and the trained one, key by key."""

import json
import os
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, MODELS, TrainerTest, read_json, read_steps, run, some_of

import pyarrow.parquet
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

sys.path.insert(0, os.path.join(FOLDER, "..", "parity"))
sys.path.insert(0, os.path.join(FOLDER, "..", "parity", "generator"))
from families import olmo_hybrid_name  # noqa: E402
from family_configs import CONFIGS  # noqa: E402
from family_models import add_tokenizer, shapes_in_memory, write_model  # noqa: E402

ROWS = os.path.join(DATA, "rows", "pretokenized.jsonl")


def goldens(folder):
    for name in some_of(sorted(os.listdir(os.path.join(DATA, folder)))):
        yield name, read_json(DATA, folder, name)


# Traces of families whose files differ: norms with an offset, experts as single and as turned tensors, corrections of routers. Ranks
# share the experts.
TRAINED = {"gemma3": [], "gemma4": [], "gemma4-per-layer": [], "gpt_oss": ["--ep_size", "2"], "qwen3_moe": ["--ep_size", "2"], "kimi_linear": ["--ep_size", "2"],
           "ernie4_5_moe": ["--ep_size", "2", "--dtype", "bfloat16"],
           "glm4_moe": ["--ep_size", "2", "--dtype", "bfloat16"]}
VOCABULARY = 512  # of the traces
# By model_type: how files name tensors that transformers' classes name otherwise.
STORED_NAMES = {"gpt_neox": {"lm_head": "embed_out"},
                "nemotron_h": {"model.": "backbone."},
                "kimi_linear": {"forget_gate.": ""},
                "bailing_hybrid": {"forget_gate.": "", "self_attn.o_proj.": "attention.dense.", "self_attn.": "attention.",
                                   "embed_tokens": "word_embeddings", "e_score_correction_bias": "expert_bias"},
                "mimo_v2_flash": {"self_attn.sinks": "self_attn.attention_sink_bias"},
                "laguna": {"mlp.gate.e_score": "mlp.experts.e_score", "mlp.shared_experts.": "mlp.shared_expert."},
                "axk1": {"mlp.post_mlp_layernorm": "post_mlp_layernorm"},
                "hy_v3": {"mlp.gate.weight": "mlp.router.gate.weight", "mlp.e_score_correction_bias": "mlp.expert_bias",
                          "mlp.shared_experts.": "mlp.shared_mlp."}}
CORRECTIONS = ("e_score_correction_bias", "expert_bias")  # no run trains them, and every file has them in fp32


def corrections(model):
    return {name: tensor for name, tensor in model.state_dict().items() if name.endswith(CORRECTIONS)}


def types_in(folder):
    """By name; transformers writes an MLP beside experts under their module."""
    return {name.replace(".block_sparse_moe.", ".mlp."): tensor.dtype
            for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items()}


def single_experts(state):
    """The tensors of a model, with those of every expert by itself, as this program writes them."""
    for name, tensor in state.items():
        if name.endswith("experts.gate_up_proj"):
            for expert, matrix in enumerate(tensor):
                for layer, part in zip(("gate_proj", "up_proj"), matrix.chunk(2)):
                    yield name.replace("gate_up_proj", f"{expert}.{layer}.weight"), part
        elif name.endswith("experts.down_proj"):
            for expert, matrix in enumerate(tensor):
                yield name.replace("down_proj", f"{expert}.down_proj.weight"), matrix
        else:
            yield name, tensor


class Families(TrainerTest):
    def load(self, folder):
        model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(report[kind], kind)
        return model

    def stored_name(self, name, model):
        if model.config.model_type == "olmo_hybrid":
            return olmo_hybrid_name(name, model.config)
        for of_model, of_file in STORED_NAMES.get(model.config.model_type, {}).items():
            name = name.replace(of_model, of_file)
        return name

    def check_wrapped(self, result, folder, golden):
        """The file holds the text model, and transformers makes the rest."""
        self.assertIn("of the text model alone; transformers makes the other tensors", result.stdout)
        model, report = AutoModelForImageTextToText.from_pretrained(folder, output_loading_info=True)
        self.assertFalse(report["unexpected_keys"] or report["mismatched_keys"])
        stored = load_file(os.path.join(folder, "model.safetensors"))
        self.assertEqual({name: list(tensor.shape) for name, tensor in stored.items()},
                         {name: tensor["shape"] for name, tensor in golden["tensors"].items()})
        loaded = model.state_dict()
        if not any(name.endswith("experts.gate_up_proj") for name in stored):
            loaded = dict(single_experts(loaded))
        for name, tensor in stored.items():
            there = loaded[name] if tensor.shape == loaded[name].shape else loaded[name].transpose(1, 2)
            self.assertTrue(torch.equal(tensor, there.float()), name)
        made_there = set(loaded) - set(stored) - {"lm_head.weight"}
        self.assertGreater(len(made_there), 3)
        self.assertFalse([name for name in made_there if "language_model" in name])

    def init(self, folder, **config):
        settings, output = os.path.join(folder, "config.json"), os.path.join(folder, "model")
        with open(settings, "w") as file:
            json.dump(config, file)
        self.expect(run("init", "--config_json", settings, "--output_dir", output), 0)
        return output

    def test_what_transformers_begins_with(self):
        """Biases of routers and sinks are drawn, those of experts are zeros, and so is the row of the padding token."""
        with tempfile.TemporaryDirectory() as folder:
            config = {**CONFIGS["gpt_oss"], "vocab_size": 96, "pad_token_id": 7}
            ours = self.load(self.init(folder, **config)).state_dict()
            theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).state_dict()
        self.assertEqual(set(ours), set(theirs))
        for name, tensor in theirs.items():
            kinds = [("zeros" if not t.any() else "ones" if (t == 1).all() else "drawn") for t in (ours[name], tensor)]
            self.assertEqual(*kinds, name)
            if kinds[0] == "drawn":
                self.assertAlmostEqual(ours[name].std().item(), 0.02, delta=0.02 if tensor.numel() < 200 else 0.002, msg=name)
        for tensors in (ours, theirs):
            self.assertEqual(tensors["model.embed_tokens.weight"].any(1).logical_not().nonzero().tolist(), [[7]])

    def test_masks_in_the_files_of_gpt_neox(self):
        """Releases of Pythia store their causal masks, as BOOL or U8, and frequencies: nothing is made of them. The embedding of
        this class learns the padding token too."""
        losses = []
        with open(ROWS) as file:
            padding = json.loads(file.readline())["input_ids"][0]
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**CONFIGS["gpt_neox"], "vocab_size": 512,
                                                                                    "pad_token_id": padding}))
            theirs.save_pretrained(model)
            add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
            file = os.path.join(model, "model.safetensors")
            weights = load_file(file)
            mask = torch.ones(1, 1, 128, 128).tril()
            for number, kind in enumerate((None, torch.bool, torch.uint8)):
                masks = {}
                for block in range(2 if kind else 0):
                    attention = f"gpt_neox.layers.{block}.attention."
                    masks |= {attention + "bias": mask.to(kind), attention + "masked_bias": torch.tensor(-1e9).half(),
                              attention + "rotary_emb.inv_freq": torch.ones(2)}
                save_file(weights | masks, file, metadata={"format": "pt"})
                output = os.path.join(folder, f"out-{number}")
                self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--dataset_name", ROWS, "--max_length", "48",
                                "--max_steps", "2", "--logging_steps", "1", "--bf16", "false", "--profile", "zero3", ranks=2), 0)
                losses.append([step["loss"] for step in read_steps(output) if "step" in step])
                trained = load_file(os.path.join(output, "model.safetensors"))
                self.assertEqual(set(trained), set(weights))
                embeddings = [tensors["gpt_neox.embed_in.weight"][padding] for tensors in (weights, trained)]
                self.assertFalse(torch.equal(*embeddings))
                self.load(output)
        self.assertEqual(losses[1:], losses[:1] * 2)

    def test_files_of_gpt2(self):
        """Releases have names without a prefix, and causal masks. Matrices lie turned, so that transformers' file is ours to the bit."""
        flags = ["--dataset_name", ROWS, "--max_steps", "2", "--logging_steps", "1", "--bf16", "false", "--profile", "zero3", "--cp_size", "2"]
        with tempfile.TemporaryDirectory() as folder:
            model = self.init(folder, **{**CONFIGS["gpt2"], "vocab_size": 512, "n_positions": 48})
            add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
            file, losses = os.path.join(model, "model.safetensors"), []
            weights = load_file(file)
            self.assertAlmostEqual(weights["transformer.h.1.attn.c_attn.weight"].std().item(), 0.02, delta=0.002)
            for matrix in ("attn.c_proj", "mlp.c_proj"):
                self.assertAlmostEqual(weights[f"transformer.h.1.{matrix}.weight"].std().item(), 0.02 / 6 ** 0.5, delta=0.001)
            masks = {f"h.{block}.attn.bias": torch.ones(1, 1, 48, 48).tril() for block in range(3)}
            masks |= {f"h.{block}.attn.masked_bias": torch.tensor(-1e4) for block in range(3)}
            for number, stored in enumerate((weights, masks | {name.removeprefix("transformer."): t for name, t in weights.items()})):
                save_file(stored, file, metadata={"format": "pt"})
                output = os.path.join(folder, f"out-{number}")
                self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--max_length", "48", *flags, ranks=2), 0)
                losses.append([step["loss"] for step in read_steps(output) if "step" in step])
            self.assertEqual(*losses)
            again = os.path.join(folder, "again")
            self.load(output).save_pretrained(again)
            ours, theirs = (load_file(os.path.join(path, "model.safetensors")) for path in (output, again))
            self.assertEqual(set(ours), set(theirs))
            self.assertTrue(all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items()))
            for more, words in ((["--max_length", "64"], "n_positions = 48, each of them a learned row; set max_length = 48 or less"),
                                (["--max_length", "48", "--use_peft", "--use_dora"], "use_dora: GPT2LMHeadModel stores the transposes"),
                                (["--max_length", "48", "--use_peft", "--load_in_4bit"], "load_in_4bit: GPT2LMHeadModel stores the transposes")):
                result = run("train", "--model_name_or_path", model, "--output_dir", os.path.join(folder, "none"), *flags, *more, ranks=2)
                self.expect_one_message(result, 78, words)

    def test_a_random_model_of_every_family(self):
        for name, golden in goldens("families"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                config, output = os.path.join(folder, "config.json"), os.path.join(folder, "model")
                with open(config, "w") as file:
                    json.dump({key: value for key, value in golden["config"].items() if key != "initializer_range"}, file)
                result = run("init", "--config_json", config, "--output_dir", output)
                self.expect(result, 0)
                self.assertNotIn("warning", result.stderr)
                if "text_config" in golden["config"]:
                    self.check_wrapped(result, output, golden)
                    continue
                model = self.load(output)
                factors = {name: tensor for name, tensor in model.named_buffers() if name.endswith("layer_scalar")}  # of the stream
                self.assertEqual({self.stored_name(name, model): list(p.shape)
                                  for name, p in {**dict(model.named_parameters()), **corrections(model), **factors}.items()},
                                 shapes_in_memory(golden))
                self.assertLessEqual({factor.item() for factor in factors.values()}, {1.0})
                for correction in corrections(model).values():
                    self.assertFalse(correction.any())
                norms = [p for name, p in model.named_parameters() if "norm" in name and name.endswith("weight")]
                self.assertLessEqual({p.unique().numel() for p in norms}, {1})  # the neutral factor
                deviation = model.get_input_embeddings().weight.std().item()
                self.assertAlmostEqual(deviation / model.config.initializer_range, 1, delta=0.06)

    def check_logits(self, folder, flags):
        """Of a written model, computed in the layout of its run: those of transformers in fp32, up to the constant of a softmax."""
        rows, output = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "scores")
        ids = torch.randint(3, 500, (2, 40), generator=torch.Generator().manual_seed(2))
        with open(rows, "w") as file:
            file.writelines(json.dumps({"input_ids": row}) + "\n" for row in ids.tolist())
        self.expect(run("score", "--model_name_or_path", folder, "--dataset_name", rows, "--output_dir", output, "--bf16", "false",
                        "--profile", "zero3", "--top_k", str(VOCABULARY), *flags, ranks=2), 0)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            expected = torch.log_softmax(model(ids).logits.double(), -1)
        parts = [pyarrow.parquet.read_table(os.path.join(output, part)) for part in sorted(os.listdir(output))]
        found = [row for part in parts for row in part.to_pylist()]
        self.assertEqual([row["input_ids"] for row in found], ids.tolist())
        for row, log_p in zip(found, expected, strict=True):
            for place in range(1, ids.shape[1]):  # of the token there, by those before
                ours = torch.empty(VOCABULARY, dtype=torch.double)
                ours[row["top_ids"][place]] = torch.tensor(row["top_logprobs"][place], dtype=torch.double)
                error = ((ours - log_p[place - 1]) / log_p[place - 1].abs().clamp(min=1)).abs().max().item()
                self.assertLess(error, 1e-5, place)

    def test_a_trained_model(self):
        for name, trace in goldens("family_traces"):
            flags = TRAINED.get(name.removesuffix(".json"))
            if flags is None:
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model, output = os.path.join(folder, "model"), os.path.join(folder, "out")
                write_model(trace, model)
                add_tokenizer(os.path.join(MODELS, "qwen2-tiny"), model)
                self.expect(run("train", "--model_name_or_path", model, "--output_dir", output, "--profile", "zero3",
                                "--dataset_name", ROWS, "--max_length", "48",
                                "--max_steps", "2", "--learning_rate", "0.01", "--bf16", "false",
                                *flags, ranks=2), 0)
                self.check_logits(output, flags[:2])
                before, after = self.load(model), self.load(output)
                ids = torch.tensor([[5, 17, 99, 3, 250, 44, 8, 120, 301, 77]])
                self.assertGreater((after(ids).logits - before(ids).logits).abs().max().item(), 1e-2)
                after.save_pretrained(os.path.join(folder, "again"))
                self.assertEqual(types_in(output), types_in(os.path.join(folder, "again")))
                for key, weight in after.named_parameters():
                    self.assertTrue(torch.isfinite(weight).all(), key)
                    if not key.endswith(CORRECTIONS):
                        self.assertFalse(torch.equal(weight.float(), before.get_parameter(key)), key)
                for key, correction in corrections(after).items():
                    self.assertEqual(correction.dtype, torch.float32)
                    self.assertTrue(torch.equal(correction, before.state_dict()[key]), key)


if __name__ == "__main__":
    unittest.main()
