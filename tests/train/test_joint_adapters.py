"""Adapters that train together beside one model: each has the curve and the result of a run of its own."""

import json
import os
import random
import shutil
import struct
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, read_steps, run  # noqa: E402

MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
COMMON = ["--bf16", "false", "--max_length", "48", "--logging_steps", "1",
          "--per_device_train_batch_size", "2", "--full_determinism"]
# Adapters differ in every way in which they may; one ends after 4 steps, one after an epoch and a half.
ADAPTERS = {"small": {"lora_r": 4, "lora_alpha": 8, "learning_rate": 2e-3, "seed": 1, "max_steps": 6,
                      "lora_target_modules": "q_proj,v_proj"},
            "wide": {"lora_r": 8, "use_rslora": True, "learning_rate": 5e-4, "seed": 2, "lora_dropout": 0.1, "max_steps": 4,
                     "lora_target_modules": "all-linear", "init_lora_weights": "gaussian", "max_grad_norm": 0.1},
            "short": {"lora_r": 2, "lora_dropout": 0.0, "learning_rate": 1e-2, "lr_scheduler_type": "cosine",
                      "num_train_epochs": 1.5, "weight_decay": 0.1, "loraplus_lr_ratio": 4,
                      "lora_target_modules": "down_proj"}}
# With rates at which some have their least loss on other rows before the last step.
WORSENING = {"small": {"lora_r": 4, "learning_rate": 3e-2, "seed": 1, "max_steps": 6, "lora_target_modules": "all-linear"},
             "wide": {"lora_r": 8, "learning_rate": 1e-3, "seed": 2, "max_steps": 4, "lora_target_modules": "all-linear"},
             "short": {"lora_r": 2, "lora_dropout": 0.0, "learning_rate": 2e-2, "max_steps": 8, "lora_target_modules": "q_proj,v_proj"}}
STOPPING = {name: {**settings, "max_steps": 60} for name, settings in WORSENING.items()}
# Two with magnitudes (DoRA), of which one drops inputs, and one without.
SCALED = {"small": {"lora_r": 4, "lora_alpha": 8, "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.0, "max_steps": 5,
                    "lora_target_modules": "all-linear"},
          "wide": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 3,
                   "lora_target_modules": "q_proj,down_proj", "init_lora_weights": "gaussian"},
          "short": {"lora_r": 4, "learning_rate": 1e-3, "max_steps": 5, "lora_target_modules": "q_proj,v_proj"}}
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
           "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
           "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": [1],
           "max_position_embeddings": 256, "tie_word_embeddings": False, "router_aux_loss_coef": 0.05, "initializer_range": 0.1}
HALF_A_BILLION = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "vocab_size": 151936,
                  "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                  "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                  "use_sliding_window": False, "rope_theta": 1000000.0}
BESIDE_EXPERTS = {"small": {"lora_r": 4, "learning_rate": 2e-3, "lora_dropout": 0.0, "max_steps": 4,
                            "lora_target_modules": "q_proj,v_proj"},
                  "wide": {"lora_r": 8, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 3,
                           "lora_target_modules": "all-linear"},
                  "short": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "max_steps": 4, "lora_target_modules": "o_proj"}}


def read_file(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def tensors(folder):
    content = read_file(folder, "adapter_model.safetensors")
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, after = entry["data_offsets"]
        found[name] = struct.unpack(f"<{(after - begin) // 4}f", content[end + begin:end + after])
    return found


def evaluations(folder):
    return [line for line in read_metrics(folder) if "eval_loss" in line]


class JointAdapters(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for number, name in enumerate(ADAPTERS):
            numbers = random.Random(number)
            rows = [[numbers.randrange(5, 250) for _ in range(numbers.randrange(8, 48))] for _ in range(13 - number)]
            cls.write_rows(cls.data_of(name), rows)
        cls.adapters = cls.write_adapters("adapters.yaml")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def data_of(cls, name):
        return os.path.join(cls.folder.name, f"{name}.jsonl")

    @staticmethod
    def write_rows(file, rows):
        with open(file, "w") as lines:
            for row in rows:
                lines.write(json.dumps({"input_ids": row, "labels": row}) + "\n")

    @classmethod
    def write_adapters(cls, name, of=None, **data):
        path = os.path.join(cls.folder.name, name)
        with open(path, "w") as file:
            file.write("list:\n")
            for adapter, settings in (of or ADAPTERS).items():
                own = {"name": adapter, "dataset_name": data.get(adapter, cls.data_of(adapter)), **settings}
                file.write("  - " + json.dumps(own) + "\n")
        return path

    def path(self, name):
        return os.path.join(self.folder.name, self.id(), name)

    def train_together(self, output, *flags, adapters=None, model=MODEL, ranks=None, **variables):
        return run("train", "--model_name_or_path", model, *COMMON, "--adapters", adapters or self.adapters, "--output_dir", output,
                   *flags, ranks=ranks, **variables)

    def train_alone(self, name, output, *flags, of, model, ranks=None):
        own = [word for key, value in of[name].items() for word in (f"--{key}", str(value))]
        return run("train", "--model_name_or_path", model, *COMMON, "--use_peft", *own, "--dataset_name", self.data_of(name),
                   "--output_dir", output, *flags, ranks=ranks)

    # The first `of_job` flags are those of the job with all adapters alone.
    def expect_own_curves(self, *flags, of=None, model=MODEL, ranks=None, of_job=0):
        of = of or ADAPTERS
        together = self.path("together")
        adapters = self.write_adapters(f"{self.id()}.yaml", of)
        self.expect(self.train_together(together, *flags, adapters=adapters, model=model, ranks=ranks), 0)
        for name in of:
            alone = self.path(name)
            self.expect(self.train_alone(name, alone, *flags[of_job:], of=of, model=model, ranks=ranks), 0)
            ours = os.path.join(together, name)
            for mine, own in zip(read_steps(ours), read_steps(alone), strict=True):
                with self.subTest(adapter=name, step=own["step"]):
                    for key in ("step", "epoch", "learning_rate", "num_tokens"):
                        self.assertEqual(mine[key], own[key], key)
                    for key in ("loss", "entropy", "mean_token_accuracy"):
                        self.assertAlmostEqual(mine[key], own[key], delta=1e-6, msg=key)
                    self.assertAlmostEqual(mine["grad_norm"], own["grad_norm"], delta=1e-5 * max(1, own["grad_norm"]))
            for mine, own in zip(evaluations(ours), evaluations(alone), strict=True):
                with self.subTest(adapter=name, evaluation=own["step"]):
                    for key in ("step", "epoch", "eval_num_tokens"):
                        self.assertEqual(mine[key], own[key], key)
                    for key in ("eval_loss", "eval_entropy", "eval_mean_token_accuracy"):
                        self.assertAlmostEqual(mine[key], own[key], delta=1e-6, msg=key)
            self.assertEqual(read_metrics(ours)[-1]["step"], read_metrics(alone)[-1]["step"])
            self.assertIn("train_runtime", read_metrics(ours)[-1])
            self.assertEqual(read_file(ours, "adapter_config.json"), read_file(alone, "adapter_config.json"))
            theirs = tensors(alone)
            for tensor, values in tensors(ours).items():
                for mine, own in zip(values, theirs.pop(tensor), strict=True):
                    self.assertAlmostEqual(mine, own, delta=2e-5, msg=tensor)
            self.assertEqual(theirs, {})
        return together

    def test_one_rank(self):
        self.expect_own_curves()

    def test_accumulated_and_packed(self):
        self.expect_own_curves("--gradient_accumulation_steps", "2", "--packing", "true", "--activation_policy", "input")

    def test_one_at_a_time(self):
        self.expect_own_curves("--adapters_at_a_time", "1", "--gradient_accumulation_steps", "2", of_job=2)

    def test_two_at_a_time_in_shards(self):
        self.expect_own_curves("--adapters_at_a_time", "2", "--profile", "zero3", "--sp_size", "2", of_job=2, ranks=2)

    def test_evaluations_by_steps(self):
        together = self.expect_own_curves("--eval_strategy", "steps", "--eval_steps", "2", "--eval_on_start", "--eval_dataset_name",
                                          self.data_of("small"), "--per_device_eval_batch_size", "3", "--profile", "zero3",
                                          "--cp_size", "2", ranks=4)
        steps = {name: [line["step"] for line in evaluations(os.path.join(together, name))] for name in ADAPTERS}
        self.assertEqual([steps["small"], steps["wide"]], [[0, 2, 4, 6], [0, 2, 4]])
        first = [evaluations(os.path.join(together, name))[0]["eval_loss"] for name in ADAPTERS]
        self.assertAlmostEqual(evaluations(together)[0]["eval_loss"], sum(first) / len(first), delta=1e-9)

    def test_evaluations_by_epoch_of_own_rows(self):
        together = self.expect_own_curves("--eval_strategy", "epoch", "--dataset_train_split", "train[:9]",
                                          "--dataset_test_split", "train[9:]", "--packing", "true")
        last = [evaluations(os.path.join(together, name))[-1]["eval_loss"] for name in ADAPTERS]
        self.assertEqual(len(set(last)), len(ADAPTERS))

    # Returns the trainer_state.json of an adapter in the job, and of its own run.
    def states_of(self, together, name):
        return [json.loads(read_file(folder, "trainer_state.json")) for folder in (os.path.join(together, name), self.path(name))]

    def saved_steps(self, output):
        return {int(name.split("-")[1]) for name in os.listdir(output) if name.startswith("checkpoint-")}

    def test_saves_and_lines_by_epoch(self):
        together = self.expect_own_curves("--save_strategy", "epoch", "--logging_strategy", "epoch")
        own = [self.saved_steps(self.path(name)) for name in ADAPTERS]
        self.assertEqual(self.saved_steps(together), set.union(*own))
        self.assertEqual(self.saved_steps(together), {4, 6, 9})

    def expect_own_best(self, *flags, of, ranks=None):
        together = self.expect_own_curves("--eval_dataset_name", self.data_of("wide"), "--load_best_model_at_end", *flags, of=of,
                                          ranks=ranks)
        states = {}
        for name in of:
            ours, own = self.states_of(together, name)
            for key in ("global_step", "best_global_step", "stateful_callbacks", "eval_steps", "save_steps"):
                self.assertEqual(ours[key], own[key], (name, key))
            self.assertAlmostEqual(ours["best_metric"], own["best_metric"], delta=1e-6)
            self.assertEqual(os.path.basename(ours["best_model_checkpoint"]), os.path.basename(own["best_model_checkpoint"]))
            states[name] = (ours["best_global_step"], ours["global_step"])
        return together, states

    def test_best_of_each(self):
        together, states = self.expect_own_best("--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1",
                                                "--save_total_limit", "1", "--profile", "zero3", of=WORSENING, ranks=2)
        self.assertEqual({best < last for best, last in states.values()}, {True, False})
        kept = {best for best, _ in states.values()} | {max(last for _, last in states.values())}
        self.assertEqual(self.saved_steps(together), kept)

    def test_early_stopping(self):
        flags = ["--eval_strategy", "epoch", "--save_strategy", "epoch", "--early_stopping_patience", "2"]
        together, states = self.expect_own_best(*flags, of=STOPPING)
        ends = [last for _, last in states.values()]
        self.assertLess(min(ends), max(ends))
        self.assertLess(min(ends), STOPPING["small"]["max_steps"])
        killed = self.path("killed")
        adapters = self.write_adapters(f"{self.id()}.yaml", STOPPING)
        flags += ["--eval_dataset_name", self.data_of("wide"), "--load_best_model_at_end"]
        self.train_together(killed, *flags, adapters=adapters, RINGSHARD_FAULT="export:2:kill")
        self.train_together(killed, *flags, adapters=adapters, RINGSHARD_FAULT="save:written:5:kill")
        self.expect(self.train_together(killed, *flags, adapters=adapters), 0, "resuming from")
        for name in STOPPING:
            self.assertEqual(read_file(killed, name, "adapter_model.safetensors"), read_file(together, name, "adapter_model.safetensors"))
        self.expect(self.train_together(killed, *flags, adapters=adapters), 0, "this run is complete")

    def test_best_alone_is_saved(self):
        together, states = self.expect_own_best("--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "best",
                                                "--metric_for_best_model", "entropy", "--greater_is_better", "true", of=WORSENING)
        self.assertTrue({best for best, _ in states.values()} <= self.saved_steps(together))

    def test_magnitudes(self):
        self.expect_own_curves("--packing", "true", "--activation_policy", "input", of=SCALED)

    def test_magnitudes_in_shards(self):
        together = self.expect_own_curves("--profile", "zero3", "--sp_size", "2", "--save_steps", "5", of=SCALED, ranks=2)
        exported = self.path("exported")
        self.expect(run("export", together, "--output_dir", exported), 0)
        for name in SCALED:
            self.assertEqual(read_file(exported, name, "adapter_model.safetensors"),
                             read_file(together, name, "adapter_model.safetensors"))

    # Two with magnitudes go on from adapters of runs of their own; one begins anew beside them.
    def test_going_on_from_adapters(self):
        of = {"short": SCALED["wide"]}
        for name in ("small", "wide"):
            self.expect(self.train_alone(name, self.path(f"first-{name}"), of=SCALED, model=MODEL), 0)
            of[name] = {"adapter_name_or_path": self.path(f"first-{name}"), "learning_rate": 5e-4, "max_steps": 3}
        self.expect_own_curves("--profile", "zero3", "--sp_size", "2", of=of, ranks=2)
        self.expect_refusal("list: [{name: a, adapter_name_or_path: %s, lora_r: 3}]" % self.path("first-wide"), "adapter a: lora_r [",
                            "has another one", flags=["--dataset_name", self.data_of("small")])

    def test_beside_experts(self):
        os.makedirs(self.path(""))
        config, model = self.path("config.json"), self.path("model")
        with open(config, "w") as file:
            json.dump(EXPERTS, file)
        self.expect(run("init", "--config_json", config, "--output_dir", model), 0)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(MODEL, file), model)
        self.expect_own_curves("--router_aux_loss_coef", "0", "--profile", "zero3", "--ep_size", "2", of=BESIDE_EXPERTS, model=model,
                               ranks=2)
        self.expect(self.train_together(self.path("out"), model=model), 78, "router_aux_loss_coef = 0.05", "all adapters together")

    @unittest.skipUnless("ALL_CASES" in os.environ, "each is a part of a layout below, or of one with evaluations, magnitudes or experts")
    def test_smaller_layouts(self):
        for layout in (("zero3",), ("zero2", "--cp_size", "2"), ("zero3", "--sp_size", "2", "--packing", "true")):
            with self.subTest(layout):
                self.expect_own_curves("--profile", *layout, ranks=2)
                shutil.rmtree(self.path(""))

    def test_ring_and_ulysses(self):
        self.expect_own_curves("--profile", "zero2", "--cp_size", "2", "--sp_size", "2", "--packing", "true", ranks=4)

    def test_hybrid(self):
        self.expect_own_curves("--profile", "zero3", "--dp_replicate_size", "2", ranks=4)

    def test_offloaded(self):
        folder = self.path("offloaded")
        os.makedirs(folder)
        self.expect_own_curves("--profile", "zero3", "--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", folder,
                               "--offload_param_device", "nvme", "--offload_param_nvme_path", folder, "--activation_offloading",
                               ranks=2)

    def test_four_bits(self):
        self.expect_own_curves("--load_in_4bit", "--use_bnb_nested_quant", "--profile", "zero3", "--sp_size", "2", ranks=2)

    def test_rows_of_one_adapter_move_no_bit_of_another(self):
        changed = self.path("changed.jsonl")
        os.makedirs(os.path.dirname(changed))
        with open(self.data_of("small")) as lines:
            rows = [json.loads(line)["input_ids"] for line in lines]
        for row in rows:
            row[3] = 300 - row[3]
        self.write_rows(changed, rows)
        outputs = [self.path("before"), self.path("after")]
        self.expect(self.train_together(outputs[0], "--profile", "zero3", ranks=2), 0)
        adapters = self.write_adapters("changed.yaml", small=changed)
        self.expect(self.train_together(outputs[1], "--profile", "zero3", adapters=adapters, ranks=2), 0)
        for name in ADAPTERS:
            files = [read_file(output, name, "adapter_model.safetensors") for output in outputs]
            losses = [[line["loss"] for line in read_steps(os.path.join(output, name))] for output in outputs]
            self.assertEqual(files[0] == files[1], name != "small", name)
            self.assertEqual(losses[0] == losses[1], name != "small", name)

    def test_killed_and_resumed(self):
        flags = ["--profile", "zero3", "--save_steps", "1"]
        whole, killed = self.path("whole"), self.path("killed")
        self.expect(self.train_together(whole, *flags, ranks=2), 0)
        self.train_together(killed, *flags, ranks=2, RINGSHARD_FAULT="save:written:3:kill")
        self.train_together(killed, *flags, ranks=2, RINGSHARD_FAULT="export:1:kill")
        self.expect(self.train_together(killed, *flags, ranks=2), 0, "resuming from")
        for name in ADAPTERS:
            ours, theirs = os.path.join(killed, name), os.path.join(whole, name)
            self.assertEqual(read_file(ours, "adapter_model.safetensors"), read_file(theirs, "adapter_model.safetensors"))
            for mine, own in zip(read_steps(ours), read_steps(theirs), strict=True):
                self.assertEqual([mine[key] for key in ("step", "loss", "grad_norm")],
                                 [own[key] for key in ("step", "loss", "grad_norm")])
        self.expect(self.train_together(killed, *flags, ranks=2), 0, "this run is complete")
        exported = self.path("exported")
        self.expect(run("export", killed, "--output_dir", exported), 0)
        self.assertEqual(read_file(exported, "small", "adapter_model.safetensors"),
                         read_file(killed, "small", "adapter_model.safetensors"))

    def expect_refusal(self, content, *words, flags=()):
        file = os.path.join(self.folder.name, "wrong.yaml")
        with open(file, "w") as adapters:
            adapters.write(content)
        self.expect(self.train_together(self.path("out"), *flags, adapters=file), 78, *words)

    def test_wrong_input(self):
        self.expect_refusal("list: []", "wrong.yaml:1", "list: must hold runs")
        self.expect_refusal("list: [{name: a, lora_rank: 4}]", "lora_rank = 4 [", "wrong.yaml, adapter a]",
                            "no setting of this name")
        self.expect_refusal("list: [{name: a}, {name: a, lora_r: 4}]", "name = a: two adapters have this name")
        self.expect_refusal("list: [{name: a/b}]", "name = a/b", "letters, digits")
        for key, value in (("max_length", "64"), ("packing", "true"), ("mixed_precision", "bf16"), ("profile", "zero3")):
            self.expect_refusal("list: [{name: a, %s: %s}]" % (key, value), f"{key} = {value} [", "adapter a]",
                                "adapters that train together share it")
        self.expect_refusal("list: [{name: a, learning_rate: fast}]", "learning_rate = fast [", "adapter a]", "number")
        self.expect_refusal("list: [{name: a, lora_r: 5000}]", "adapter a: lora_r = 5000",
                            flags=["--dataset_name", self.data_of("small")])
        for flag, value in (("lora_modules_to_save", "lm_head"), ("bias", "all"), ("init_lora_weights", "pissa"),
                            ("save_model_in_checkpoints", "true"), ("adapter_name_or_path", "folder")):
            self.expect_refusal("list: [{name: a}]", f"{flag} = ", flags=[f"--{flag}", value])
        self.assertEqual(self.train_together(self.path("out"), adapters="/nowhere.yaml").returncode, 66)

    def test_changed_adapters_are_refused(self):
        output = self.path("out")
        self.expect(self.train_together(output), 0)
        adapters = os.path.join(self.folder.name, "other.yaml")
        with open(self.adapters) as before, open(adapters, "w") as after:
            after.write(before.read().replace('"seed": 1', '"seed": 3'))
        self.expect(self.train_together(output, adapters=adapters), 78, "adapters: ", "then", "now")

    # Bytes of tensors as the runs count them, in steps after the first, which has the peak of loading too.
    def test_activations_of_one_at_a_time(self):
        rows = self.path("rows.jsonl")
        os.makedirs(os.path.dirname(rows))
        self.write_rows(rows, [[token % 250 for token in range(row, row + 48)] for row in range(8)])
        alone = {"lora_r": 8, "max_steps": 3, "dataset_name": rows, "lora_target_modules": "all-linear"}
        adapters = self.write_adapters("alike.yaml", {f"a{seed}": {**alone, "seed": seed} for seed in range(8)},
                                       **{f"a{seed}": rows for seed in range(8)})

        def activations(output, *flags, **given):
            self.expect(self.train_together(output, *flags, **given), 0)
            return read_steps(output)[-1]["memory_activations_bytes"]

        together = activations(self.path("together"), adapters=adapters)
        in_turn = activations(self.path("in-turn"), "--adapters_at_a_time", "1", adapters=adapters)
        one = activations(self.path("one"), adapters=self.write_adapters("one.yaml", {"a0": alone}, a0=rows))
        self.assertGreater(together, 3 * one)
        self.assertLess(in_turn, 1.05 * one)

    # Of a model of Qwen2.5-0.5B's shape. Weights, gradients and moments of the adapters are most of what eight take more.
    def test_memory_of_eight(self):
        folder = self.path("half-a-billion")
        os.makedirs(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(HALF_A_BILLION, file)
        adapters = json.dumps([{"name": f"a{seed}", "seed": seed} for seed in range(8)])
        for bf16, policy, length in (("false", "input", 256), ("true", "all", 2048)):
            def bytes_of(*flags, of=(bf16, policy, length)):
                result = run("plan", "--model_name_or_path", folder, "--lora_r", "8", "--lora_target_modules", "all-linear",
                             "--per_device_train_batch_size", "1", "--bf16", of[0], "--activation_policy", of[1],
                             "--max_length", str(of[2]), "--device", "cpu", *flags, "--json")
                self.expect(result, 0)
                kinds = json.loads(result.stdout)["memory_bytes"]
                return sum(number for kind, number in kinds.items() if kind != "save_copy")

            together, one = bytes_of("--adapters", adapters, "--adapters_at_a_time", "1"), bytes_of("--use_peft")
            with self.subTest(policy=policy, ratio=together / one):
                self.assertLess(together, 1.3 * one)

    def test_plan(self):
        def peak(*flags):
            result = run("plan", "--model_name_or_path", MODEL, *COMMON, *flags, "--gpu", "h100-80", "--json")
            self.expect(result, 0)
            return json.loads(result.stdout)["memory_bytes"]

        together, one = peak("--adapters", self.adapters), peak("--use_peft", "--lora_r", "8")
        self.assertLess(together["weights"], 3 * one["weights"])
        self.assertGreater(together["optimizer"], one["optimizer"])
        self.assertGreater(together["activations"], one["activations"])


if __name__ == "__main__":
    unittest.main()
