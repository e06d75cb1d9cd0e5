"""Runs with adapters: checkpoints hold adapters alone, runs go on with them, adapters and merged models are exported."""

import json
import math
import os
import shutil
import unittest

from stopped_run import CUT, DATA, MODEL, ROWS, StoppedRunTest
from trainer import ALL_CASES, in_long_suite, read_steps, run

LORA = ["--use_peft", "--lora_r", "4", "--lora_alpha", "8", "--lora_target_modules", "q_proj,v_proj,down_proj", "--use_dora",
        "--loraplus_lr_ratio", "4"]


def read_file(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def tensors(file):
    with open(file, "rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    header.pop("__metadata__", None)
    return {name: entry["shape"] for name, entry in header.items()}


def refusals_of_vllm(folder):
    """The rules of vLLM 0.33 for adapter_config.json and the names of tensors, as far as no model has a part in them."""
    config = json.loads(read_file(folder, "adapter_config.json"))
    init = config.get("init_lora_weights", True)
    found = [field for field in ("r", "lora_alpha", "target_modules") if config.get(field) is None]
    found += [field for field in ("modules_to_save", "use_dora", "lora_bias", "alora_invocation_tokens", "layer_replication", "use_bdlora",
                                  "use_qalora") if config.get(field)]
    found += ["bias"] * (config.get("bias", "none") != "none")
    found += ["init_lora_weights"] * (isinstance(init, str) and init not in ("gaussian", "eva", "orthogonal", "mica", "lora_ga"))
    names = tensors(os.path.join(folder, "adapter_model.safetensors"))
    layers = {name.removesuffix(f".lora_{matrix}.weight") for matrix in "AB" for name in names if name.endswith(f".lora_{matrix}.weight")}
    for layer in layers:
        (rank, _), (_, rank_of_b) = (names.get(f"{layer}.lora_{matrix}.weight", (0, 0)) for matrix in "AB")
        found += ["r"] * (not 0 < rank == rank_of_b <= max([config["r"], *config["rank_pattern"].values()]))
    found += ["names"] * (len(names) != 2 * len(layers) or not all(layer.startswith("base_model.model.") for layer in layers))
    return sorted(set(found))


class Adapters(StoppedRunTest):
    CHOICE = LORA

    def expect_the_adapter(self, folder):
        self.assertEqual(read_file(folder, "adapter_model.safetensors"), read_file(self.whole, "adapter_model.safetensors"))

    def test_files(self):
        names = tensors(os.path.join(self.whole, "adapter_model.safetensors"))
        layer = "base_model.model.model.layers.0."
        self.assertEqual(names[layer + "self_attn.v_proj.lora_A.weight"][0], 4)
        self.assertEqual(names[layer + "mlp.down_proj.lora_B.weight"][1], 4)
        self.assertEqual(names[layer + "mlp.down_proj.lora_magnitude_vector"], names[layer + "mlp.down_proj.lora_B.weight"][:1])
        self.assertTrue(all(name.endswith(("lora_A.weight", "lora_B.weight", "lora_magnitude_vector")) for name in names), names)
        for folder in (self.whole, os.path.join(self.whole, "checkpoint-6")):
            self.assertFalse(os.path.exists(os.path.join(folder, "model.safetensors")))
            self.expect_the_adapter(folder)
        self.assertEqual(read_file(self.whole, "checkpoint-6", "adapter_config.json"), read_file(self.whole, "adapter_config.json"))
        self.assertFalse(os.path.exists(os.path.join(self.whole, "config.json")))
        config = json.loads(read_file(self.whole, "adapter_config.json"))
        self.assertEqual((config["r"], config["lora_alpha"], config["lora_dropout"], config["base_model_name_or_path"]),
                         (4, 8, 0.05, self.model))
        self.assertEqual(config["target_modules"], ["down_proj", "q_proj", "v_proj"])
        found = json.loads(run("inspect", os.path.join(self.whole, "checkpoint-6"), "--json").stdout)
        self.assertEqual({name for name in found["datasets"] if name.startswith("/model/")},
                         {"/model/" + name.removeprefix("base_model.model.") for name in names})
        self.assertEqual(set(found["frozen"]["tensors"]), set(tensors(os.path.join(MODEL, "model.safetensors"))))

    def test_going_on_to_the_bit(self):
        output = self.stopped_at_3()
        self.expect(self.train(output, *CUT, "--save_model_in_checkpoints", "true", ranks=2), 0, "checkpoint-3")
        for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
            for key in ("loss", "grad_norm"):
                self.assertEqual(ours[key], whole[key], (ours["step"], key))
        self.expect_the_adapter(output)

    def test_killed_in_a_save(self):
        output = self.path("out")
        self.train(output, *CUT, ranks=2, RINGSHARD_FAULT="save:written:2:kill")
        self.expect(self.train(output, *CUT, ranks=2), 0, "checkpoint-3")
        self.expect_the_adapter(output)

    def test_going_on_in_another_layout(self):
        output = self.stopped_at_3()
        self.expect(self.train(output, "--profile", "multi_gpu", "--per_device_train_batch_size", "4"), 0, "checkpoint-3")
        for ours, whole in zip(read_steps(output), read_steps(self.whole), strict=True):
            self.assertAlmostEqual(ours["loss"], whole["loss"], delta=1e-2)

    def test_another_base_or_rank_is_refused(self):
        changed = self.path("changed")
        shutil.copytree(MODEL, changed)
        with open(os.path.join(changed, "model.safetensors"), "r+b") as file:
            file.seek(-2, os.SEEK_END)
            bits = file.read(1)
            file.seek(-2, os.SEEK_END)
            file.write(bytes([bits[0] ^ 1]))
        output = self.stopped_at_3()
        self.expect_one_message(self.train(output, *CUT, model=changed, ranks=2), 65, changed, self.model, "model_name_or_path")
        self.expect(self.train(output, *CUT, choice=LORA[:2] + ["2"] + LORA[3:], ranks=2), 65, "shape")
        self.expect(self.train(output, *CUT, choice=LORA[:-2], ranks=2), 78, "loraplus_lr_ratio")

    def test_export(self):
        checkpoint = os.path.join(self.whole, "checkpoint-6")
        self.expect(run("export", checkpoint, "--output_dir", self.path("adapter"), ranks=2), 0, "its adapter", stream="stdout")
        self.expect_the_adapter(self.path("adapter"))
        self.assertEqual(read_file(self.path("adapter"), "adapter_config.json"), read_file(self.whole, "adapter_config.json"))
        for ranks in (None, 3):
            self.expect(run("export", checkpoint, "--merge", "true", "--output_dir", self.path(f"merged-{ranks}"), ranks=ranks), 0)
        merged = tensors(os.path.join(self.path("merged-3"), "model.safetensors"))
        self.assertEqual(merged, tensors(os.path.join(MODEL, "model.safetensors")))
        self.assertEqual(read_file(self.path("merged-None"), "model.safetensors"), read_file(self.path("merged-3"), "model.safetensors"))
        # The loss goes on where that of the adapter ended.
        self.expect(self.train(self.path("next"), "--max_steps", "1", "--learning_rate", "0", choice=[], model=self.path("merged-3")), 0)
        self.expect(self.train(self.path("same"), "--max_steps", "1", "--learning_rate", "0",
                               choice=["--adapter_name_or_path", self.whole, "--lora_dropout", "0"]), 0)
        self.assertAlmostEqual(read_steps(self.path("next"))[0]["loss"], read_steps(self.path("same"))[0]["loss"], delta=5e-3)
        self.expect_one_message(run("export", os.path.join(self.path("next"), "checkpoint-1"), "--merge", "true", "--output_dir",
                                    self.path("no")), 78, "no adapters")

    @in_long_suite
    def test_biases(self):
        """Those of adapted layers train: k_proj, of the same product, keeps its own."""
        lora = ["--use_peft", "--lora_r", "4", "--lora_target_modules", "q_proj,v_proj,down_proj", "--bias", "lora_only"]
        whole, output = self.path("whole"), self.path("out")
        self.expect(self.train(whole, *CUT, choice=lora, ranks=2), 0)
        self.train(output, *CUT, choice=lora, ranks=2, RINGSHARD_FAULT="save:written:2:kill")
        self.expect(self.train(output, *CUT, choice=lora, ranks=2), 0, "checkpoint-3")
        self.expect(run("export", os.path.join(whole, "checkpoint-6"), "--output_dir", self.path("exported"), ranks=3), 0)
        for folder in (output, self.path("exported")):
            self.assertEqual(read_file(folder, "adapter_model.safetensors"), read_file(whole, "adapter_model.safetensors"))
        self.assertEqual(json.loads(read_file(whole, "adapter_config.json"))["bias"], "lora_only")
        layer = "base_model.model.model.layers.0.self_attn."
        names = {name.removeprefix(layer) for name in tensors(os.path.join(whole, "adapter_model.safetensors"))}
        self.assertEqual({name for name in names if name.endswith("bias") and not name.startswith("base_model")},
                         {"q_proj.base_layer.bias", "v_proj.base_layer.bias"})
        self.expect(run("export", os.path.join(whole, "checkpoint-6"), "--merge", "true", "--output_dir", self.path("merged")), 0)
        same = ["--max_steps", "1", "--learning_rate", "0"]
        self.expect(self.train(self.path("next"), *same, choice=[], model=self.path("merged")), 0)
        self.expect(self.train(self.path("same"), *same, choice=["--adapter_name_or_path", whole, "--lora_dropout", "0"]), 0)
        self.assertAlmostEqual(read_steps(self.path("next"))[0]["loss"], read_steps(self.path("same"))[0]["loss"], delta=5e-3)
        self.assertEqual(read_file(self.path("same"), "adapter_model.safetensors"), read_file(whole, "adapter_model.safetensors"))
        self.expect(self.train(self.path("no"), choice=["--adapter_name_or_path", whole, "--bias", "all"]), 78, "leave the setting out")

    def test_killed_and_resumed_in_another_layout(self):
        """The losses of an undisturbed run on one rank, in fp32; dropout too is the same in every layout."""
        cases = [("head-dora", "--lora_target_modules", "lm_head", "--use_dora"),
                 ("bias-of-b", "--lora_target_modules", "q_proj,v_proj", "--lora_bias"),
                 ("rows", "--trainable_token_indices", "[3, 11, 267]")]
        more = [("head", "--lora_target_modules", "q_proj,lm_head"),
                ("pattern", "--lora_target_modules", "q_proj", "--layers_to_transform", "0,2", "--layers_pattern", "layers"),
                ("embedding", "--lora_target_modules", "q_proj,embed_tokens")]
        for number, (name, *choice) in enumerate(cases + more * ALL_CASES):
            lora = ["--use_peft", "--lora_r", "4", "--lora_dropout", "0.1", *choice, "--bf16", "false"]
            whole, output = self.path(name + "-whole"), self.path(name)
            self.expect(self.train(whole, "--per_device_train_batch_size", "4", "--save_strategy", "no", choice=lora), 0)
            killed = self.train(output, *CUT, choice=lora, ranks=2, RINGSHARD_FAULT="save:latest:1:kill")
            self.assertNotEqual(killed.returncode, 0)
            other = (["--profile", "zero1", "--per_device_train_batch_size", "2"],
                     ["--profile", "zero2", "--sp_size", "2", "--per_device_train_batch_size", "4"])[number % 2]
            self.expect(self.train(output, *other, choice=lora, ranks=2), 0, "checkpoint-3")
            for ours, theirs in zip(read_steps(output), read_steps(whole), strict=True):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=1e-5, msg=(name, ours["step"]))
            self.assertEqual(*(json.loads(read_file(folder, "adapter_config.json")) for folder in (output, whole)))

    def test_taken_out_of_the_weights(self):
        """The first values are stored once: the same bits after a kill, and at another number of ranks."""
        pissa = ["--use_peft", "--lora_r", "4", "--lora_target_modules", "q_proj,v_proj,down_proj", "--lora_dropout", "0",
                 "--init_lora_weights", "pissa_niter_4", "--lora_modules_to_save", "norm"]
        whole, output = self.path("whole"), self.path("out")
        self.expect(self.train(whole, *CUT, "--save_model_in_checkpoints", choice=pissa, ranks=2), 0)
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            self.assertEqual(read_file(whole, "checkpoint-6", name), read_file(whole, name))
        initial = read_file(whole, "initial_adapter", "adapter_model.safetensors")
        self.train(output, *CUT, choice=pissa, ranks=2, RINGSHARD_FAULT="save:written:2:kill")
        self.expect(self.train(output, *CUT, choice=pissa, ranks=2), 0, "checkpoint-3")
        self.assertEqual(read_file(output, "initial_adapter", "adapter_model.safetensors"), initial)
        for folder in (self.path("exported"), output):
            if folder != output:
                self.expect(run("export", os.path.join(whole, "checkpoint-6"), "--output_dir", folder, ranks=3), 0)
            self.assertEqual(read_file(folder, "adapter_model.safetensors"), read_file(whole, "adapter_model.safetensors"))
        config = json.loads(read_file(whole, "adapter_config.json"))
        self.assertEqual((config["r"], config["lora_alpha"], config["init_lora_weights"]), (8, 64, True))
        elsewhere = self.path("elsewhere")
        self.expect(self.train(elsewhere, "--profile", "multi_gpu", "--per_device_train_batch_size", "4", "--resume_from_checkpoint",
                               os.path.join(whole, "checkpoint-3"), choice=pissa), 0)
        self.assertEqual(read_file(elsewhere, "initial_adapter", "adapter_model.safetensors"), initial)
        os.remove(os.path.join(whole, "initial_adapter", "adapter_model.safetensors"))
        shutil.rmtree(os.path.join(whole, "checkpoint-6"))
        for command in (lambda: self.train(whole, *CUT, choice=pissa, ranks=2),
                        lambda: run("export", os.path.join(whole, "checkpoint-3"), "--output_dir", self.path("no"))):
            self.expect(command(), 66, "initial_adapter")

    def test_hybrid_and_offloaded(self):
        """With dropout, beside four bits, and with adapters that are taken out of the weights: the losses of one rank."""
        common = ["--bf16", "false", "--max_steps", "3"]
        layouts = ((1, "--per_device_train_batch_size", "8"),
                   (4, "--per_device_train_batch_size", "2", "--profile", "zero3", "--dp_replicate_size", "2"),
                   (2, "--per_device_train_batch_size", "4", "--profile", "zero3", "--offload_optimizer_device", "cpu",
                    "--offload_param_device", "cpu"))
        cases = [("four-bits", "--load_in_4bit", "--use_bnb_nested_quant"), ("biases", "--bias", "all", "--use_dora")]
        more = [("plain",), ("pissa", "--init_lora_weights", "pissa", "--lora_dropout", "0")]
        for name, *kind in cases + more * ALL_CASES:
            losses = []
            for ranks, *layout in layouts:
                output = self.path(f"{name}-{ranks}")
                lora = ["--use_peft", "--lora_r", "4", "--lora_target_modules", "all-linear", *kind]
                self.expect(self.train(output, *common, *layout, choice=lora, ranks=None if ranks == 1 else ranks), 0)
                losses.append([step["loss"] for step in read_steps(output)])
            for other in losses[1:]:
                for ours, one_rank in zip(other, losses[0], strict=True):
                    self.assertAlmostEqual(ours, one_rank, delta=1e-5, msg=name)

    def test_choices_of_layers(self):
        """Patterns, blocks and excluded layers make the adapter that PEFT makes of them."""
        start = os.path.join(DATA, "adapters", "start", "qwen3_patterns")
        theirs = json.loads(read_file(start, "adapter_config.json"))
        patterns = [word for key in ("rank_pattern", "alpha_pattern") for word in ("--" + key, json.dumps(theirs[key]))]
        choice = ["--use_peft", "--lora_r", "4", "--lora_alpha", "8", "--lora_dropout", "0", "--lora_target_modules", "q_proj,v_proj,up_proj",
                  "--layers_to_transform", "0,2", "--layers_pattern", "layers", *patterns]
        model = os.path.join(DATA, "models", "qwen3-tiny")
        short = ["--max_steps", "1", "--save_strategy", "no"]
        self.expect(self.train(self.path("out"), *short, choice=choice, model=model), 0)
        ours = json.loads(read_file(self.path("out"), "adapter_config.json"))
        self.assertEqual(ours["layers_pattern"], ["layers"])
        for key in ("r", "lora_alpha", "target_modules", "layers_to_transform", "rank_pattern", "alpha_pattern", "exclude_modules"):
            self.assertEqual(ours[key], theirs[key], key)
        self.assertEqual(tensors(os.path.join(self.path("out"), "adapter_model.safetensors")),
                         tensors(os.path.join(start, "adapter_model.safetensors")))
        with open(self.path("settings.yaml"), "w") as file:
            file.write("exclude_modules: .*layers.1.*\nlayers_to_transform: [0, 1]\nrank_pattern: {v_proj: 3, q_proj: 2}\n")
        self.expect(self.train(self.path("file"), *short, "--config", self.path("settings.yaml"), choice=["--use_peft"], model=model), 0)
        found = tensors(os.path.join(self.path("file"), "adapter_model.safetensors"))
        self.assertEqual({name.split(".")[4] for name in found}, {"0"})
        self.assertEqual(sorted(shape[0] for name, shape in found.items() if "lora_A" in name), [2, 3])

    def test_what_vllm_takes(self):
        for name, flags, refused in (
                ("plain", ["--use_rslora", "--lora_target_modules", "all-linear"], []),
                ("expression", ["--lora_target_modules", r".*\.(q_proj|v_proj)", "--init_lora_weights", "gaussian"], []),
                ("four-bits", ["--load_in_4bit", "--loraplus_lr_ratio", "4"], []),
                ("pissa", ["--init_lora_weights", "pissa", "--lora_dropout", "0"], []),
                ("dora", ["--use_dora"], ["names", "use_dora"]),
                ("biases", ["--bias", "lora_only"], ["bias", "names"]),
                ("bias of B", ["--lora_bias"], ["lora_bias", "names"]),
                ("saved", ["--lora_modules_to_save", "norm"], ["modules_to_save", "names"])):
            with self.subTest(name):
                self.expect(self.train(self.path(name), "--max_steps", "1", "--save_strategy", "no", choice=["--use_peft", *flags]), 0)
                self.assertEqual(refusals_of_vllm(self.path(name)), refused)

    def test_dora_begins_with_the_outputs_of_the_model(self):
        """In bf16 too: magnitudes are not rounded, so the same losses to the bit."""
        for dropout in ("0", "0.2"):
            losses = []
            for dora in ("false", "true"):
                output = self.path(dropout + dora)
                self.expect(self.train(output, "--max_steps", "1", "--save_strategy", "no",
                                       choice=["--use_peft", "--lora_target_modules", "all-linear", "--use_dora", dora, "--lora_dropout", dropout]), 0)
                losses.append(read_steps(output)[0]["loss"])
            self.assertEqual(*losses, dropout)

    def test_dropout_is_of_training(self):
        losses = []
        for dropout in ("0", "0.5"):
            output = self.path(dropout)
            self.expect(self.train(output, "--max_steps", "2", "--eval_strategy", "steps", "--eval_steps", "2", "--eval_dataset_name",
                                   ROWS, choice=["--adapter_name_or_path", self.whole, "--lora_dropout", dropout],
                                   ), 0)
            losses.append([step["loss"] for step in read_steps(output)])
        self.assertNotEqual(*losses)
        for step in range(2):
            self.assertAlmostEqual(losses[0][step], losses[1][step], delta=0.2)

    def test_a_checkpoint_is_no_model(self):
        checkpoint = os.path.join(self.whole, "checkpoint-3")
        self.expect_one_message(self.train(self.path("no"), choice=[], model=self.whole), 65, "adapter", "merge")
        shutil.copytree(checkpoint, self.path("checkpoint-3"))
        self.expect(self.train(self.path("no"), model=self.path("checkpoint-3")), 65, "adapter")

    def test_settings_that_make_no_sense(self):
        start = ["--adapter_name_or_path", self.whole]
        for lora, code, words in (
                (["--lora_r", "8"], 78, ("has a meaning with adapters only", "use_peft")),
                (["--use_peft", "--lora_target_modules", "q_prog"], 78, ("no linear layer has this name", "self_attn.q_proj")),
                (["--use_peft", "--lora_target_modules", "all_linear"], 78, ("no linear layer has this name", "all-linear")),
                (["--use_peft", "--lora_target_modules", ".*q_proj,.*v_proj"], 78, ("no linear layer has this name", "stands alone")),
                (["--use_peft", "--lora_target_modules", r"model\.layer\..*"], 78, ("matches no linear layer", "model.layers.0")),
                (["--use_peft", "--lora_target_modules", "q_proj("], 78, ("is no regular expression",)),
                (["--use_peft", "--lora_target_modules", "norm"], 78, ("no linear layer has this name",)),
                (["--use_peft", "--lora_target_modules", "q_proj,lm_head", "--init_lora_weights", "olora", "--lora_dropout", "0"], 78,
                 ("lm_head is tied to the embedding",)),
                (["--use_peft", "--lora_target_modules", "embed_tokens", "--use_dora"], 78, ("use_dora: model.embed_tokens", "magnitudes")),
                (["--use_peft", "--lora_target_modules", "embed_tokens", "--lora_bias"], 78, ("lora_bias: model.embed_tokens", "PEFT refuses")),
                (["--use_peft", "--lora_target_modules", "embed_tokens", "--init_lora_weights", "pissa", "--lora_dropout", "0"], 78,
                 ("init_lora_weights: model.embed_tokens", "A = 0")),
                (["--use_peft", "--lora_target_modules", "embed_tokens", "--loraplus_lr_ratio", "4"], 78, ("loraplus_lr_embedding",)),
                (["--use_peft", "--trainable_token_indices", "[1, 1]"], 78, ("trainable_token_indices", "each token stands once")),
                (["--use_peft", "--trainable_token_indices", "[-1]"], 78, ("trainable_token_indices", "numbers of tokens")),
                (["--use_peft", "--trainable_token_indices", '{"embed_tokens": []}'], 78, ("trainable_token_indices", "numbers of tokens")),
                (["--use_peft", "--trainable_token_indices", "[512]"], 78, ("there is no token 512", "vocabulary has 512")),
                (["--use_peft", "--trainable_token_indices", '{"q_proj": [1]}'], 78, ("q_proj has no rows", "model.embed_tokens")),
                (["--use_peft", "--trainable_token_indices", '{"embed_tokens": [1], "model.embed_tokens": [2]}'], 78, ("stands twice",)),
                (["--use_peft", "--trainable_token_indices", "[1]", "--lora_modules_to_save", "embed_tokens"], 78, ("trains model.embed_tokens whole",)),
                (["--use_peft", "--trainable_token_indices", "[1]", "--lora_target_modules", "lm_head"], 78, ("lora_target_modules names",)),
                (["--trainable_token_indices", "[1]"], 78, ("has a meaning with adapters only",)),
                ([*start, "--trainable_token_indices", "[1]"], 78, ("trainable_token_indices", "leave it out")),
                (["--use_peft", "--lora_target_modules", "([a-z._0-9]+)+[!?]"], 78, ("([a-z._0-9]+)+[!?]: takes too many steps on the name",)),
                (["--use_peft", "--lora_target_modules", "(" * 50000 + "q_proj" + ")" * 50000], 78, ("... (100006 bytes): is no regular",)),
                (["--use_peft", "--rank_pattern", '{"([a-z._0-9]+)+[!?]": 2}'], 78, ("rank_pattern", "takes too many steps")),
                (["--use_peft", "--exclude_modules", "(.*)*(.*)*(.*)*[!?]"], 78, ("exclude_modules", "takes too many steps")),
                (["--use_peft", "--lora_target_modules", r"\Qq_proj\E"], 78, ("is no regular expression in the syntax of Python's re",)),
                (["--use_peft", "--lora_modules_to_save", "lm_heat"], 78, ("no module has this name", "lm_head")),
                (["--use_peft", "--lora_modules_to_save", "k_proj"], 78, ("one matrix product",)),
                (["--use_peft", "--lora_r", "1000", "--init_lora_weights", "pissa", "--lora_dropout", "0"], 78,
                 ("lora_r = 1000", "has no part of a rank above")),
                (["--use_peft", "--freeze", "norm"], 78, ("freeze", "leave it out")),
                (["--loraplus_lr_ratio", "4"], 78, ("has a meaning with adapters only", "use_peft")),
                (["--use_peft", "--init_lora_weights", "loftq"], 78, ("init_lora_weights", "pissa or olora")),
                (["--use_peft", "--init_lora_weights", "pissa_niter_x"], 78, ("init_lora_weights", "pissa_niter_N")),
                (["--use_peft", "--init_lora_weights", "pissa_niter_-1"], 78, ("init_lora_weights", "pissa_niter_N")),
                (["--use_peft", "--lora_task_type", "FOO"], 78, ("lora_task_type = FOO", "CAUSAL_LM")),
                ([*start, "--use_peft", "false"], 78, ("use_peft = false", "leave it out")),
                (["--use_peft", "--init_lora_weights", "pissa", "--use_dora"], 78, ("use_dora", "no magnitudes")),
                (["--use_peft", "--init_lora_weights", "olora", "--load_in_4bit"], 78, ("load_in_4bit", "leave one of the two out")),
                (["--bias", "all"], 78, ("has a meaning with adapters only", "use_peft")),
                (["--use_peft", "--bias", "some"], 78, ("bias", "lora_only")),
                (["--use_peft", "--lora_bias", "--use_dora"], 78, ("lora_bias, use_dora", "leave one out")),
                (["--use_peft", "--lora_bias", "--init_lora_weights", "gaussian"], 78, ("lora_bias, init_lora_weights",)),
                (["--use_peft", "--lora_bias", "--lora_dropout", "0", "--lora_target_parameters", "o_proj.weight"], 78,
                 ("lora_bias: adapters of parameters",)),
                (["--lora_bias"], 78, ("has a meaning with adapters only",)),
                (["--use_peft", "--layers_pattern", "layers"], 78, ("layers_pattern", "beside layers_to_transform only")),
                (["--use_peft", "--layers_pattern", "h", "--layers_to_transform", "0"], 78, ("layers_pattern = h", "lie in 'layers'")),
                (["--use_peft", "--bias", "lora_only", "--lora_target_modules", "down_proj"], 78, ("the model has no biases",)),
                (["--use_peft", "--bias", "all", "--lora_target_modules", "down_proj", "--lora_modules_to_save", "self_attn"], 78,
                 ("bias = all", "give bias lora_only")),
                (["--use_peft", "--loraplus_lr_embedding", "1e-6"], 78, ("LoRA+ is not served beside an adapter of the embedding",)),
                ([*start, "--use_dora", "false"], 78, ("use_dora", "leave the setting out")),
                (["--load_in_4bit"], 78, ("load_in_4bit", "give use_peft true")),
                (["--use_peft", "--use_bnb_nested_quant"], 78, ("use_bnb_nested_quant", "give load_in_4bit true")),
                (["--use_peft", "--load_in_4bit", "--bnb_4bit_quant_type", "fp4"], 78, ("bnb_4bit_quant_type", "nf4")),
                (["--use_peft", "--load_in_4bit", "--lora_modules_to_save", "down_proj"], 78, ("down_proj", "is quantised (load_in_4bit)")),
                (["--use_peft", "--lora_target_parameters", "weight"], 78, ("lora_dropout", "give lora_dropout 0")),
                (["--use_peft", "--lora_dropout", "0", "--lora_target_parameters", "weight"], 78, ("matches", "name what is meant")),
                (["--use_peft", "--lora_dropout", "0", "--lora_target_parameters", "q_prog.weight"], 78, ("no parameter has this name",)),
                (["--use_peft", "--lora_dropout", "0", "--lora_target_parameters", "q_proj.weight"], 78, ("name it once",)),
                (["--lora_target_parameters", "q_proj.weight"], 78, ("has a meaning with adapters only",)),
                (["--use_peft", "--added_tokens", ",".join(f"<new-{i}>" for i in range(40))], 78, ("lora_modules_to_save embed_tokens",)),
                (["--use_peft", "--rank_pattern", "[1]"], 78, ("rank_pattern", "JSON object")),
                (["--use_peft", "--rank_pattern", '{"q_proj": 2.5}'], 78, ("rank_pattern", "whole number above 0")),
                (["--use_peft", "--rank_pattern", '{"q_prog": 2}'], 78, ("rank_pattern: q_prog matches no layer", "q_proj")),
                (["--use_peft", "--rank_pattern", '{"q_proj": 2, ".*proj": 3}'], 78, ("both match", "do not overlap")),
                (["--use_peft", "--alpha_pattern", '{"q_proj": 0}'], 78, ("alpha_pattern", "number above 0")),
                (["--use_peft", "--alpha_pattern", '{"q_proj(": 1}'], 78, ("alpha_pattern", "no regular expression")),
                (["--use_peft", "--layers_to_transform", "0,x"], 78, ("layers_to_transform", "whole numbers")),
                (["--use_peft", "--layers_to_transform", "0,30"], 78, ("layers_to_transform = 30", "blocks of this model are 0 to")),
                (["--use_peft", "--layers_to_transform", "30"], 78, ("layers_to_transform",)),
                (["--use_peft", "--layers_to_transform", "0", "--lora_target_modules", ".*q_proj"], 78, ("layers_to_transform", "expression")),
                (["--use_peft", "--exclude_modules", "k_prog"], 78, ("exclude_modules = k_prog: matches no linear layer", "k_proj")),
                (["--use_peft", "--exclude_modules", "q_proj,v_proj"], 78, ("exclude_modules leave",)),
                (["--layers_to_transform", "0"], 78, ("has a meaning with adapters only",)),
                (["--rank_pattern", '{"q_proj": 2}'], 78, ("has a meaning with adapters only",)),
                ([*start, "--lora_target_parameters", "q_proj.weight"], 78, ("lora_target_parameters", "leave it out")),
                ([*start, "--rank_pattern", '{"q_proj": 2}'], 78, ("rank_pattern", "leave it out")),
                ([*start, "--lora_r", "8"], 78, ("lora_r", "leave the setting out")),
                (["--adapter_name_or_path", MODEL], 66, ("adapter_config.json", "PEFT adapter"))):
            with self.subTest(lora):
                self.expect(self.train(self.path("no"), choice=lora), code, *words)
                self.assertFalse(os.path.exists(os.path.join(self.path("no"), "attempt-1")))
        self.expect(self.train(self.path("no"), choice=start, model=os.path.join(DATA, "models", "llama3-tiny")), 65, "another model",
                    "base_model_name_or_path")

    def test_an_adapter_of_a_model_with_another_name(self):
        """Its shapes fit, so it trains, with a warning."""
        short = ["--max_steps", "1", "--save_strategy", "no"]
        renamed = shutil.copytree(MODEL, self.path("another-model"))
        for model, is_warned in ((self.model + "/", False), (renamed, True)):
            result = self.train(self.path("out"), *short, choice=["--adapter_name_or_path", self.whole], model=model)
            self.expect(result, 0)
            self.assertEqual("base_model_name_or_path" in result.stderr, is_warned, result.stderr)
            shutil.rmtree(self.path("out"))

    def test_folders_that_peft_writes_otherwise(self):
        """A file of torch, an adapter with a name of its own, and embeddings that PEFT adds where a vocabulary has grown."""
        def folder(name):
            return shutil.copytree(os.path.join(DATA, "adapters", "start", "qwen2_qv"), self.path(name))

        old, named, grown = folder("old"), folder(os.path.join("named", "mine")), folder("grown")
        os.rename(os.path.join(old, "adapter_model.safetensors"), os.path.join(old, "adapter_model.bin"))
        file = os.path.join(grown, "adapter_model.safetensors")
        content = read_file(file)
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        header["base_model.model.lm_head.weight"] = {"dtype": "F32", "shape": [1, 1], "data_offsets": [len(content) - end, len(content) - end + 4]}
        text = json.dumps(header).encode()
        with open(file, "wb") as written:
            written.write(len(text).to_bytes(8, "little") + text + content[end:] + bytes(4))
        for adapter, code, words in ((old, 66, ("adapter_model.bin", "save_file")),
                                     (os.path.dirname(named), 66, ("adapter_config.json", named)),
                                     (grown, 65, ("lm_head.weight", "save_embedding_layers"))):
            with self.subTest(adapter):
                self.expect_one_message(self.train(self.path("no"), choice=["--adapter_name_or_path", adapter]), code, *words)

    def test_the_plan(self):
        def plan(*flags):
            result = run("plan", "--world", "2", "--profile", "zero3", "--model_name_or_path", MODEL, "--gpu", "h100-80", "--json", "--bf16", "true", *flags)
            self.expect(result, 0)
            return json.loads(result.stdout)

        sizes = [math.prod(shape) for shape in tensors(os.path.join(self.whole, "adapter_model.safetensors")).values()]
        planned, full = plan(*LORA, *CUT[2:], "--max_length", "48"), plan(*CUT[2:], "--max_length", "48")
        self.assertAlmostEqual(planned["checkpoint_bytes"], 12 * sum(sizes), delta=12 * 4096)
        plain = plan(*LORA[:LORA.index("--use_dora")], "--lora_dropout", "0", *CUT[2:], "--max_length", "48")
        self.assertLess(plain["step_seconds"]["products"], full["step_seconds"]["products"] * 0.8)
        with open(os.path.join(self.whole, "metrics.jsonl")) as file:
            measured = json.loads(file.readline())
        for kind in ("weights", "optimizer"):
            self.assertEqual(planned["memory_bytes"][kind], measured[f"memory_{kind}_bytes"], kind)


if __name__ == "__main__":
    unittest.main()
