"""Ranks that share experts: a run goes on with another number of them, and files do not depend on it."""

import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from adapters_together import tensors  # noqa: E402
from trainer import TrainerTest, read_steps, run, some_of  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
CONFIG = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": [1],
          "max_position_embeddings": 256, "tie_word_embeddings": False, "router_aux_loss_coef": 0.05, "initializer_range": 0.1}
# A router of sigmoids with corrections, beside a shared MLP; and experts that files hold as one tensor.
OTHERS = [{"model_type": "glm4_moe", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2,
           "moe_intermediate_size": 32, "max_position_embeddings": 256, "initializer_range": 0.1},
          {"model_type": "granitemoe", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
           "max_position_embeddings": 256, "initializer_range": 0.1}]
GPT_OSS = {"model_type": "gpt_oss", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2,
           "sliding_window": 16, "router_aux_loss_coef": 0.05, "initializer_range": 0.1,
           "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
STEPS = 6
FLAGS = ["--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--learning_rate", "0.002",
         "--max_length", "48", "--max_steps", str(STEPS), "--logging_steps", "1", "--save_steps", "2", "--full_determinism",
         "--check_replicas_every", "2"]


class ExpertParallel(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = cls.make_model(CONFIG, "model")
        cls.alone = os.path.join(cls.folder.name, "alone")
        alone = cls.train(cls.alone, "--per_device_train_batch_size", "4")
        assert alone.returncode == 0, alone.stderr

    @classmethod
    def make_model(cls, content, name):
        config, model = os.path.join(cls.folder.name, "config.json"), os.path.join(cls.folder.name, name)
        with open(config, "w") as file:
            json.dump(content, file)
        made = run("init", "--config_json", config, "--output_dir", model)
        assert made.returncode == 0, made.stderr
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(DATA, "models", "qwen2-tiny", file), model)
        return model

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def train(cls, output, *flags, ranks=None, **variables):
        return run("train", "--model_name_or_path", cls.model, *FLAGS, "--output_dir", output, *flags, ranks=ranks, **variables)

    def expect_numbers_of_one_rank(self, output, alone=None):
        ours, alone = read_steps(output), read_steps(alone or self.alone)
        self.assertEqual([line["step"] for line in ours], list(range(1, STEPS + 1)))
        for a, b in zip(ours, alone):
            for key in {"loss", "grad_norm", "aux_loss", "expert_load_max_to_mean", "expert_load_min_to_mean"} & set(b):
                self.assertLessEqual(abs(a[key] - b[key]), 1e-4 * abs(b[key]), (a["step"], key))
            for key in ("num_tokens", "dead_experts", "expert_load_max_block", "expert_load_max_expert", "expert_load_min_block",
                        "expert_load_min_expert"):
                self.assertEqual(a[key], b[key], (a["step"], key))

    def test_a_killed_run_goes_on_with_another_number(self):
        killed = os.path.join(self.folder.name, "killed")
        result = self.train(killed, "--profile", "zero3", "--ep_size", "4", "--per_device_train_batch_size", "1", ranks=4,
                            RINGSHARD_FAULT="save:copy:2:kill")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        for number, (ranks, flags) in enumerate(some_of([
                (4, ["--profile", "zero1", "--ep_size", "2", "--per_device_train_batch_size", "1"]),
                (2, ["--profile", "zero3", "--cp_size", "2", "--ep_size", "2", "--per_device_train_batch_size", "4"]),
                (2, ["--profile", "zero3", "--per_device_train_batch_size", "2"]),
                (None, ["--per_device_train_batch_size", "4"])])):
            with self.subTest(flags):
                output = os.path.join(self.folder.name, f"resumed-{number}")
                shutil.copytree(killed, output)
                self.expect(self.train(output, *flags, ranks=ranks), 0, "checkpoint-2")
                self.expect_numbers_of_one_rank(output)

    def test_a_run_that_gathers_slices_goes_on_without_them(self):
        """Experts as single tensors, and as one, of which every slice has a part: by both ways of writing."""
        for kind, model, alone in (("single", self.model, self.alone),
                                   ("stacked", self.make_model(OTHERS[1], "of-slices"), os.path.join(self.folder.name, "of-slices-alone"))):
            with self.subTest(kind):
                flags = ("--model_name_or_path", model)
                if alone != self.alone:
                    self.expect(self.train(alone, *flags, "--per_device_train_batch_size", "4"), 0)
                killed = os.path.join(self.folder.name, kind + "-slices")
                result = self.train(killed, *flags, "--profile", "zero3", "--per_device_train_batch_size", "2", "--hdf5_io",
                                    "direct" if kind == "single" else "mpio", ranks=2, RINGSHARD_FAULT="save:copy:2:kill")
                self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
                for number, layout in enumerate([["--profile", "zero1", "--ep_size", "2", "--per_device_train_batch_size", "2"],
                                                 ["--profile", "zero3", "--sp_size", "2", "--per_device_train_batch_size", "4"]]):
                    output = f"{killed}-{number}"
                    shutil.copytree(killed, output)
                    self.expect(self.train(output, *flags, *layout, "--save_model_in_checkpoints", "true", ranks=2), 0, "checkpoint-2")
                    self.expect_numbers_of_one_rank(output, alone)
                exported = os.path.join(self.folder.name, kind + "-slices-exported")
                self.expect(run("export", os.path.join(output, f"checkpoint-{STEPS}"), "--output_dir", exported), 0)
                self.expect_equal_weights(exported, output, os.path.join(output, f"checkpoint-{STEPS}"))

    def test_other_kinds_of_experts_go_on_with_another_number(self):
        for config in some_of(OTHERS):
            kind = config["model_type"]
            with self.subTest(kind):
                flags = ("--model_name_or_path", self.make_model(config, kind))
                alone, killed = os.path.join(self.folder.name, kind + "-alone"), os.path.join(self.folder.name, kind + "-killed")
                self.expect(self.train(alone, *flags, "--per_device_train_batch_size", "4"), 0)
                result = self.train(killed, *flags, "--profile", "zero3", "--ep_size", "4", "--per_device_train_batch_size", "1",
                                    ranks=4, RINGSHARD_FAULT="save:copy:2:kill")
                self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
                self.expect(self.train(killed, *flags, "--profile", "zero3", "--cp_size", "2", "--ep_size", "2",
                                       "--per_device_train_batch_size", "4", "--save_model_in_checkpoints", "true", ranks=2), 0,
                            "checkpoint-2")
                self.expect_numbers_of_one_rank(killed, alone)
                exported = os.path.join(self.folder.name, kind + "-exported")
                self.expect(run("export", os.path.join(killed, f"checkpoint-{STEPS}"), "--output_dir", exported), 0)
                self.expect_equal_weights(exported, killed, os.path.join(killed, f"checkpoint-{STEPS}"))

    def test_adapters_of_experts_go_on_with_another_number(self):
        """The file of the adapter is that of one rank; A and B of all experts are in it."""
        flags = ("--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--lora_target_modules", "all-linear", "--learning_rate", "0.01")
        alone, killed = os.path.join(self.folder.name, "adapters-alone"), os.path.join(self.folder.name, "adapters-killed")
        self.expect(self.train(alone, *flags, "--per_device_train_batch_size", "4"), 0)
        result = self.train(killed, *flags, "--profile", "zero3", "--ep_size", "4", "--per_device_train_batch_size", "1", ranks=4,
                            RINGSHARD_FAULT="save:copy:2:kill")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        for number, (ranks, *layout) in enumerate([
                (2, "--profile", "zero3", "--cp_size", "2", "--ep_size", "2", "--per_device_train_batch_size", "4"),
                (2, "--profile", "zero3", "--per_device_train_batch_size", "2")]):
            with self.subTest(layout):
                output = os.path.join(self.folder.name, f"adapters-{number}")
                shutil.copytree(killed, output)
                self.expect(self.train(output, *flags, *layout, ranks=ranks), 0, "checkpoint-2")
                self.expect_numbers_of_one_rank(output, alone)
                self.expect_close_adapters(output, alone)

    def test_experts_in_four_bits(self):
        """A killed run goes on with another number of ranks that share experts; the merged model computes as the run."""
        flags = ("--use_peft", "--lora_r", "4", "--lora_dropout", "0", "--learning_rate", "0.01", "--load_in_4bit", "--use_bnb_nested_quant",
                 "--lora_target_modules", "q_proj", "--lora_target_parameters", "mlp.experts.gate_up_proj,mlp.experts.down_proj")
        still = ("--max_steps", "1", "--learning_rate", "0", "--per_device_train_batch_size", "4")
        for config in some_of((GPT_OSS, CONFIG)):
            kind = config["model_type"] + "-four"
            model = ("--model_name_or_path", self.make_model(config, kind))
            alone, killed, merged, merged_by_3, same, unrounded, whole = (
                os.path.join(self.folder.name, f"{kind}-{name}")
                for name in ("alone", "killed", "merged", "merged-by-3", "same", "unrounded", "whole"))
            with self.subTest(kind):
                self.expect(self.train(alone, *model, *flags, "--per_device_train_batch_size", "4"), 0, "the experts are in four bits, too")
                result = self.train(killed, *model, *flags, "--profile", "zero3", "--ep_size", "4", "--per_device_train_batch_size", "1",
                                    ranks=4, RINGSHARD_FAULT="save:copy:2:kill")
                self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
                self.expect(self.train(killed, *model, *flags, "--profile", "zero3", "--cp_size", "2", "--ep_size", "2",
                                       "--per_device_train_batch_size", "4", ranks=2), 0, "checkpoint-2")
                self.expect_numbers_of_one_rank(killed, alone)
                self.expect_close_adapters(killed, alone)
                for folder, ranks in ((merged, None), (merged_by_3, 3)):
                    self.expect(run("export", os.path.join(killed, f"checkpoint-{STEPS}"), "--merge", "true", "--output_dir", folder,
                                    ranks=ranks), 0)
                self.expect_equal_weights(merged, merged_by_3)
                adapter = ("--adapter_name_or_path", killed)
                self.expect(self.train(same, *model, *adapter, "--load_in_4bit", "--use_bnb_nested_quant", *still), 0)
                self.expect(self.train(unrounded, *model, *adapter, *still), 0)
                self.expect(self.train(whole, "--model_name_or_path", merged, *still), 0)
                rounded, other, of_merged = (read_steps(output)[0]["loss"] for output in (same, unrounded, whole))
                self.assertAlmostEqual(rounded, of_merged, delta=1e-4)
                self.assertGreater(abs(rounded - other), 1e-3)

    def expect_close_adapters(self, ours, theirs):
        ours, theirs = tensors(ours), tensors(theirs)
        self.assertEqual(set(ours), set(theirs))
        self.assertTrue(any("experts" in name for name in ours))
        for name, numbers in theirs.items():
            self.assertEqual(len(ours[name]), len(numbers), name)
            self.assertLess(max(abs(x - y) for x, y in zip(ours[name], numbers)), 1e-3 * max(map(abs, numbers)), name)

    def expect_equal_weights(self, exported, *folders):
        for folder in folders:
            with open(os.path.join(folder, "model.safetensors"), "rb") as ours, \
                    open(os.path.join(exported, "model.safetensors"), "rb") as theirs:
                self.assertEqual(ours.read(), theirs.read())

    def test_files_hold_whole_experts(self):
        output = os.path.join(self.folder.name, "shared")
        self.expect(self.train(output, "--profile", "fsdp2", "--sp_size", "2", "--ep_size", "4", "--per_device_train_batch_size",
                               "2", "--save_model_in_checkpoints", "true", ranks=4), 0)
        self.expect_numbers_of_one_rank(output)
        exported = os.path.join(self.folder.name, "exported")
        self.expect(run("export", os.path.join(output, f"checkpoint-{STEPS}"), "--output_dir", exported), 0)
        self.expect_equal_weights(exported, output, os.path.join(output, f"checkpoint-{STEPS}"))

    def test_sizes_that_do_not_work(self):
        output = os.path.join(self.folder.name, "refused")
        self.expect(self.train(output, "--profile", "zero3", "--ep_size", "2", ranks=3), 78, "ep_size = 2 [command line]",
                    "sizes that work: 1, 3")
        self.expect(self.train(output, "--profile", "zero3", "--ep_size", "3", ranks=3), 78, "ep_size = 3 [command line]",
                    "8 experts do not divide into 3 equal parts", "on this mesh: 1")
        self.expect(self.train(output, "--profile", "zero3", "--ep_size", "0"), 78, "ep_size")
        dense = os.path.join(DATA, "models", "qwen2-tiny")
        self.expect(self.train(output, "--model_name_or_path", dense, "--profile", "zero3", "--ep_size", "2", ranks=2), 78,
                    "has no experts")
        self.assertFalse(os.path.exists(os.path.join(output, "metrics.jsonl")))

    def test_routers_that_are_not_known(self):
        config, output = os.path.join(self.folder.name, "router.json"), os.path.join(self.folder.name, "no-model")
        mixtral = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8}
        for fields, code, says in (({"architectures": ["PhimoeForCausalLM"], "model_type": "phimoe"}, 78,
                                    ["architectures = [PhimoeForCausalLM]", "Glm4MoeForCausalLM"]),
                                   ({**mixtral, "router_jitter_noise": 0.1}, 78, ["router_jitter_noise = 0.1"]),
                                   ({"num_experts_per_tok": 9}, 78, ["num_experts_per_tok = 9", "number of experts, 8"]),
                                   ({"scoring_func": "softplus"}, 0, ["scoring_func", "it changes nothing"])):
            with self.subTest(fields):
                with open(config, "w") as file:
                    json.dump({**CONFIG, **fields}, file)
                self.expect(run("init", "--config_json", config, "--output_dir", output), code, *says)

    def test_a_loss_without_routers(self):
        output = os.path.join(self.folder.name, "refused-loss")
        self.expect(self.train(output, "--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--router_aux_loss_coef",
                               "0.01"), 78, "router_aux_loss_coef = 0.01 [command line]", "has no experts")
        corrected = self.make_model(OTHERS[0], "corrected")
        self.expect(self.train(output, "--model_name_or_path", corrected, "--router_aux_loss_coef", "0.01"), 78,
                    "router_aux_loss_coef = 0.01 [command line]", "corrections")
        self.expect(self.train(output, "--router_aux_loss_coef", "-1"), 78, "router_aux_loss_coef")
        self.assertFalse(os.path.exists(os.path.join(output, "metrics.jsonl")))

    def test_matrices_of_experts_are_updated_one_by_one(self):
        for name, *arguments in (("muon", "--optim_args", "adjust_lr_fn=match_rms_adamw"), ("adafactor",)):
            flags = ["--optim", name, *arguments, "--per_device_train_batch_size"]
            folders = [os.path.join(self.folder.name, f"{name}-{kind}") for kind in ("alone", "shared", "slices")]
            self.expect(self.train(folders[0], *flags, "4"), 0)
            self.expect(self.train(folders[1], *flags, "2", "--profile", "zero3", "--ep_size", "2", ranks=2), 0)
            self.expect(self.train(folders[2], *flags, "2", "--profile", "zero3", ranks=2), 0)
            alone, *others = [[step["loss"] for step in read_steps(folder)] for folder in folders]
            for losses in others:
                for ours, theirs in zip(losses, alone, strict=True):
                    self.assertLess(abs(ours - theirs), 2e-5 * theirs, name)


if __name__ == "__main__":
    unittest.main()
