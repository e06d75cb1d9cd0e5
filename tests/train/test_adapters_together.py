"""Adapters that train together beside one model: each has the curve and the result of a run of its own."""

import json
import os
import shutil
import unittest

from adapters_together import ADAPTERS, COMMON, FOLDER, MODEL, AdaptersTogetherTest, evaluations, read_file, tensors
from trainer import ALL_CASES, in_long_suite, read_metrics, read_steps, run

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
# Two with biases of their own, of which one has magnitudes, drops inputs and has LoRA+; one without.
BIASED = {"small": {"lora_r": 4, "bias": "lora_only", "lora_bias": True, "learning_rate": 1e-2, "weight_decay": 0.1, "lora_dropout": 0.0, "max_steps": 5,
                    "lora_target_modules": "q_proj,v_proj,down_proj"},
          "wide": {"lora_r": 2, "bias": "lora_only", "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 3,
                   "loraplus_lr_ratio": 4, "lora_target_modules": "all-linear"},
          "short": {"lora_r": 4, "learning_rate": 1e-3, "max_steps": 5, "lora_target_modules": "q_proj,v_proj"}}
# Each with weights of the model of its own: the tied embedding and output layer; all biases and the output layer; the final norm.
OWNING = {"small": {"lora_r": 4, "lora_modules_to_save": "lm_head,embed_tokens", "learning_rate": 2e-3, "weight_decay": 0.1,
                    "lora_dropout": 0.0, "max_steps": 5, "lora_target_modules": "q_proj,v_proj"},
          "wide": {"lora_r": 2, "bias": "all", "lora_modules_to_save": "lm_head", "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.1,
                   "seed": 3, "max_steps": 3, "lora_target_modules": "v_proj,down_proj"},
          "short": {"lora_r": 4, "lora_modules_to_save": "model.norm", "learning_rate": 1e-3, "loraplus_lr_ratio": 4, "max_steps": 5,
                    "lora_dropout": 0.0, "lora_target_parameters": "o_proj.weight", "lora_target_modules": "q_proj,v_proj"}}
# Beside the output layer, which is tied: a plain adapter of it, and one with magnitudes that drops inputs.
HEADS = {"small": {"lora_r": 4, "learning_rate": 2e-3, "lora_dropout": 0.0, "max_steps": 5, "lora_target_modules": "q_proj,lm_head"},
         "wide": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 4,
                  "lora_target_modules": "lm_head,v_proj"},
         "short": {"lora_r": 4, "learning_rate": 2e-3, "max_steps": 5, "lora_target_modules": "q_proj,v_proj",
                   "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": '{"patience": 0, "factor": 0.5, "threshold": 0.5}'}}
EXPERTS = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
           "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
           "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": [1],
           "max_position_embeddings": 256, "tie_word_embeddings": False, "router_aux_loss_coef": 0.05, "initializer_range": 0.1}
BESIDE_EXPERTS = {"small": {"lora_r": 4, "learning_rate": 2e-3, "lora_dropout": 0.0, "max_steps": 4,
                            "lora_target_modules": "q_proj,v_proj"},
                  "wide": {"lora_r": 8, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 3,
                           "lora_target_modules": "q_proj,k_proj,v_proj,o_proj"},
                  "short": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "max_steps": 4, "lora_target_modules": "o_proj"}}

# Of all matrices of experts, of some and of the router, and of none.
OF_EXPERTS = {"small": {"lora_r": 4, "learning_rate": 2e-3, "lora_dropout": 0.0, "max_steps": 4, "lora_target_modules": "q_proj",
                        "lora_target_parameters": "mlp.experts.gate_up_proj,mlp.experts.down_proj"},
              "wide": {"lora_r": 2, "learning_rate": 1e-3, "lora_dropout": 0.0, "seed": 3, "max_steps": 3, "loraplus_lr_ratio": 4,
                       "lora_target_modules": "v_proj", "lora_target_parameters": "mlp.gate.weight,mlp.experts.down_proj"},
              "short": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "max_steps": 4, "lora_target_modules": "o_proj"}}
# A model whose blocks share a projection of the embeddings; two of the adapters are of it too.
EMBEDDED = {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "vocab_size": 512, "vocab_size_per_layer_input": 512,
            "hidden_size": 32, "hidden_size_per_layer_input": 16, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 4, "num_kv_shared_layers": 1, "head_dim": 8, "global_head_dim": 16, "sliding_window": 32,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"], "max_position_embeddings": 256,
            "enable_moe_block": False, "tie_word_embeddings": True, "initializer_range": 0.1}
OF_EMBEDDINGS = {"small": {"lora_r": 4, "learning_rate": 2e-3, "lora_dropout": 0.0, "max_steps": 4, "lora_target_modules": "all-linear"},
                 "wide": {"lora_r": 2, "use_dora": True, "learning_rate": 1e-3, "lora_dropout": 0.1, "seed": 3, "max_steps": 3,
                          "lora_target_modules": "per_layer_model_projection,q_proj"},
                 "short": {"lora_r": 2, "learning_rate": 1e-3, "max_steps": 4, "lora_target_modules": "o_proj"}}


class AdaptersTogether(AdaptersTogetherTest):
    @in_long_suite
    def test_one_rank(self):
        self.expect_own_curves()

    def test_accumulated_and_packed(self):
        self.expect_own_curves("--gradient_accumulation_steps", "2", "--packing", "true", "--activation_policy", "input")

    @in_long_suite
    def test_one_at_a_time(self):
        self.expect_own_curves("--adapters_at_a_time", "1", "--gradient_accumulation_steps", "2", of_job=2)

    def test_two_at_a_time_in_shards(self):
        self.expect_own_curves("--adapters_at_a_time", "2", "--profile", "zero3", "--sp_size", "2", of_job=2, ranks=2)

    def test_evaluations_by_steps(self):
        prompts = os.path.join(self.folder.name, "prompts.jsonl")
        with open(prompts, "w") as file:
            file.writelines(json.dumps({"prompt": text}) + "\n" for text in ("The ", "How far is it?", "Name a bird, or two."))
        together = self.expect_own_curves("--eval_strategy", "steps", "--eval_steps", "2", "--eval_on_start", "--eval_dataset_name",
                                          self.data_of("small"), "--per_device_eval_batch_size", "3", "--profile", "zero3",
                                          "--cp_size", "2", "--eval_prompts", prompts, "--eval_max_new_tokens", "8", ranks=4)
        texts = [evaluations(os.path.join(together, name))[-1]["eval_samples"] for name in ADAPTERS]
        self.assertEqual([len(of_one) for of_one in texts], [3, 3, 3])
        self.assertNotEqual(texts[0], texts[2])
        steps = {name: [line["step"] for line in evaluations(os.path.join(together, name))] for name in ADAPTERS}
        self.assertEqual([steps["small"], steps["wide"]], [[0, 2, 4, 6], [0, 2, 4]])
        first = [evaluations(os.path.join(together, name))[0]["eval_loss"] for name in ADAPTERS]
        self.assertAlmostEqual(evaluations(together)[0]["eval_loss"], sum(first) / len(first), delta=1e-9)

    def test_evaluations_by_epoch_of_own_rows(self):
        together = self.expect_own_curves("--eval_strategy", "epoch", "--dataset_train_split", "train[:9]",
                                          "--dataset_test_split", "train[9:]", "--packing", "true")
        last = [evaluations(os.path.join(together, name))[-1]["eval_loss"] for name in ADAPTERS]
        self.assertEqual(len(set(last)), len(ADAPTERS))

    def test_named_evaluation_sets(self):
        """Each adapter has a line of each set, as alone; the line of the job has the means over all."""
        sets = json.dumps({"easy": self.data_of("small"), "hard": self.data_of("wide")})
        together = self.expect_own_curves("--eval_strategy", "steps", "--eval_steps", "2", "--eval_dataset_name", sets,
                                          "--metric_for_best_model", "eval_hard_loss")
        losses = []
        for name in ADAPTERS:
            ours, alone = ([(key, line[key]) for line in read_metrics(folder) for key in ("eval_easy_loss", "eval_hard_loss") if key in line]
                           for folder in (os.path.join(together, name), self.path(name)))
            self.assertEqual([key for key, _ in ours], ["eval_easy_loss", "eval_hard_loss"] * (len(ours) // 2))
            for (_, mine), (_, own) in zip(ours, alone, strict=True):
                self.assertAlmostEqual(mine, own, delta=1e-6)
            losses += [value for _, value in ours[:2]]
            best = [json.loads(read_file(folder, "trainer_state.json"))["best_metric"] for folder in (os.path.join(together, name), self.path(name))]
            self.assertAlmostEqual(*best, delta=1e-6)
        self.assertAlmostEqual(evaluations(together)[0]["eval_loss"], sum(losses) / len(losses), delta=1e-9)

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
            for key in ("global_step", "max_steps", "num_train_epochs", "best_global_step", "stateful_callbacks", "eval_steps", "save_steps"):
                self.assertEqual(ours[key], own[key], (name, key))
            for step in self.saved_steps(together) & self.saved_steps(self.path(name)):
                saved = [json.loads(read_file(folder, f"checkpoint-{step}", file)) for folder, file in
                         ((together, f"trainer_state.{name}.json"), (self.path(name), "trainer_state.json"))]
                for key in ("global_step", "max_steps", "num_train_epochs", "best_global_step", "stateful_callbacks"):
                    self.assertEqual(saved[0][key], saved[1][key], (name, step, key))
                self.assertAlmostEqual(saved[0]["best_metric"], saved[1]["best_metric"], delta=1e-6)
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
        self.expect(self.train_together(killed, *flags, adapters=adapters), 0)
        for name in STOPPING:
            self.assertEqual(read_file(killed, name, "adapter_model.safetensors"), read_file(together, name, "adapter_model.safetensors"))
        self.expect(self.train_together(killed, *flags, adapters=adapters), 0, "this run is complete")

    @in_long_suite
    def test_best_alone_is_saved(self):
        together, states = self.expect_own_best("--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy", "best",
                                                "--metric_for_best_model", "entropy", "--greater_is_better", "true", of=WORSENING)
        self.assertTrue({best for best, _ in states.values()} <= self.saved_steps(together))

    @in_long_suite
    def test_magnitudes(self):
        self.expect_own_curves("--packing", "true", "--activation_policy", "input", of=SCALED)

    def test_magnitudes_in_shards(self):
        together = self.expect_own_curves("--profile", "zero3", "--sp_size", "2", "--save_steps", "5", of=SCALED, ranks=2)
        exported = self.path("exported")
        self.expect(run("export", together, "--output_dir", exported), 0)
        for name in SCALED:
            self.assertEqual(read_file(exported, name, "adapter_model.safetensors"),
                             read_file(together, name, "adapter_model.safetensors"))

    def test_output_layers_and_a_rate_that_follows_evaluations(self):
        """Once killed: the rate comes back out of the checkpoint."""
        flags = ["--profile", "zero3", "--cp_size", "2", "--save_steps", "2", "--eval_strategy", "steps", "--eval_steps", "1",
                 "--eval_dataset_name", self.data_of("wide")]
        together = self.expect_own_curves(*flags, of=HEADS, ranks=2)
        killed, adapters = self.path("killed"), self.write_adapters(f"{self.id()}.yaml", HEADS)
        self.train_together(killed, *flags, adapters=adapters, ranks=2, RINGSHARD_FAULT="save:latest:2:kill")
        self.expect_one_message(self.train_together(killed, *flags, "--eval_delay", "1", adapters=adapters, ranks=2), 78,
                                "eval_delay: 0 then, 1 now")
        self.expect(self.train_together(killed, *flags, adapters=adapters, ranks=2), 0, "resuming from")
        for name in HEADS:
            self.assertEqual(read_file(killed, name, "adapter_model.safetensors"), read_file(together, name, "adapter_model.safetensors"))
        rates = [line["learning_rate"] for line in read_steps(os.path.join(killed, "short"))]
        self.assertLess(min(rates), 1e-3)
        self.assertEqual(rates, [line["learning_rate"] for line in read_steps(os.path.join(together, "short"))])

    @in_long_suite
    def test_biases(self):
        """The rounding of MKL, the library for fp32 on Intel's processors, depends on the number of rows, and AdamW makes steps of it."""
        self.expect_own_curves("--packing", "true", "--gradient_accumulation_steps", "2", "--cpu_gemm", "native", of=BIASED)

    def test_biases_in_shards(self):
        """Those of one go on from a run of its own; all come back out of a checkpoint."""
        self.expect(self.train_alone("small", self.path("first"), of=BIASED, model=MODEL), 0)
        of = {**BIASED, "small": {"adapter_name_or_path": self.path("first"), "learning_rate": 5e-3, "max_steps": 3}}
        together = self.expect_own_curves("--profile", "zero3", "--cp_size", "2", "--save_steps", "5", of=of, ranks=2)
        exported = self.path("exported")
        self.expect(run("export", together, "--output_dir", exported), 0)
        for name in BIASED:
            for file in ("adapter_model.safetensors", "adapter_config.json"):
                self.assertEqual(read_file(exported, name, file), read_file(together, name, file))
        begun, ended = (tensors(os.path.join(folder)) for folder in (self.path("first"), os.path.join(together, "small")))
        bias = "base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias"
        self.assertNotEqual(begun[bias], ended[bias])

    @in_long_suite
    def test_weights_of_their_own(self):
        self.expect_own_curves("--packing", "true", "--gradient_accumulation_steps", "2", of=OWNING)

    @in_long_suite
    def test_weights_of_their_own_one_at_a_time(self):
        self.expect_own_curves("--adapters_at_a_time", "1", "--profile", "zero3", "--sp_size", "2", of=OWNING, of_job=2, ranks=2)

    def test_weights_of_their_own_in_shards(self):
        """With texts of each; one goes on from a run of its own; all come back out of a checkpoint."""
        prompts = os.path.join(self.folder.name, "prompts.jsonl")
        with open(prompts, "w") as file:
            file.writelines(json.dumps({"prompt": text}) + "\n" for text in ("The ", "How far is it?"))
        self.expect(self.train_alone("small", self.path("first"), of=OWNING, model=MODEL), 0)
        of = {**OWNING, "small": {"adapter_name_or_path": self.path("first"), "learning_rate": 1e-3, "max_steps": 3}}
        together = self.expect_own_curves("--profile", "zero3", "--cp_size", "2", "--save_steps", "3", "--eval_strategy", "steps",
                                          "--eval_steps", "3", "--eval_dataset_name", self.data_of("short"), "--eval_prompts", prompts,
                                          "--eval_max_new_tokens", "6", of=of, ranks=2)
        exported, killed = self.path("exported"), self.path("killed")
        self.expect(run("export", together, "--output_dir", exported), 0)
        for name in OWNING:
            for file in ("adapter_model.safetensors", "adapter_config.json"):
                self.assertEqual(read_file(exported, name, file), read_file(together, name, file))
        names = {name: {tensor for tensor in tensors(os.path.join(together, name)) if "lora_" not in tensor} for name in OWNING}
        self.assertEqual(names["small"], {"base_model.model.lm_head.weight", "base_model.model.model.embed_tokens.weight"})
        self.assertEqual(names["short"], {"base_model.model.model.norm.weight"})
        self.assertIn("base_model.model.model.layers.1.self_attn.k_proj.bias", names["wide"])
        flags = ["--profile", "zero3", "--cp_size", "2", "--save_steps", "1"]
        adapters = self.write_adapters("owning.yaml", OWNING)
        self.train_together(killed, *flags, adapters=adapters, ranks=2, RINGSHARD_FAULT="save:written:3:kill")
        self.expect(self.train_together(killed, *flags, adapters=adapters, ranks=2), 0, "resuming from")
        whole = self.path("whole")
        self.expect(self.train_together(whole, *flags, adapters=adapters, ranks=2), 0)
        for name in OWNING:
            self.assertEqual(read_file(killed, name, "adapter_model.safetensors"), read_file(whole, name, "adapter_model.safetensors"))

    # Two with magnitudes go on from adapters of runs of their own; one begins anew beside them.
    def test_going_on_from_adapters(self):
        of = {"short": SCALED["wide"]}
        for name in ("small", "wide"):
            self.expect(self.train_alone(name, self.path(f"first-{name}"), of=SCALED, model=MODEL), 0)
            of[name] = {"adapter_name_or_path": self.path(f"first-{name}"), "learning_rate": 5e-4, "max_steps": 3}
        self.expect_own_curves("--profile", "zero3", "--sp_size", "2", of=of, ranks=2)
        self.expect_refusal("list: [{name: a, adapter_name_or_path: %s, lora_r: 3}]" % self.path("first-wide"), "adapter a: lora_r [",
                            "has another one", flags=["--dataset_name", self.data_of("small")])

    def model_of(self, fields):
        config, model = (os.path.join(self.folder.name, f"{self.id()} {name}") for name in ("config.json", "model"))
        with open(config, "w") as file:
            json.dump(fields, file)
        self.expect(run("init", "--config_json", config, "--output_dir", model), 0)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(MODEL, file), model)
        return model

    def test_of_experts(self):
        model, flags = self.model_of(EXPERTS), ["--router_aux_loss_coef", "0"]
        whole = self.expect_own_curves(*flags, of=OF_EXPERTS, model=model)
        # An adapter's numbers are the same bits whatever the others learn.
        faster = OF_EXPERTS | {"wide": OF_EXPERTS["wide"] | {"learning_rate": 1e-2}}
        self.expect(self.train_together(self.path("faster"), *flags, adapters=self.write_adapters("faster.yaml", faster), model=model), 0)
        for name, is_same in (("small", True), ("wide", False), ("short", True)):
            ours, theirs = (read_file(folder, name, "adapter_model.safetensors") for folder in (whole, self.path("faster")))
            self.assertEqual(ours == theirs, is_same, name)
        for layout in (("--ep_size", "2"), ("--cp_size", "2", "--activation_policy", "input")):
            with self.subTest(layout):
                shutil.rmtree(self.path(""))
                self.expect_own_curves(*flags, "--profile", "zero3", *layout, of=OF_EXPERTS, model=model, ranks=2)

    def test_of_embeddings_of_layers(self):
        self.expect_own_curves("--profile", "zero3", "--cp_size", "2", of=OF_EMBEDDINGS, model=self.model_of(EMBEDDED), ranks=2)

    @in_long_suite
    def test_beside_experts(self):
        model = self.model_of(EXPERTS)
        self.expect_own_curves("--router_aux_loss_coef", "0", "--profile", "zero3", "--ep_size", "2", of=BESIDE_EXPERTS, model=model,
                               ranks=2)
        self.expect(self.train_together(self.path("out"), model=model), 78, "router_aux_loss_coef = 0.05", "all adapters together")

    @in_long_suite
    def test_smaller_layouts(self):
        for layout in (("zero3",), ("zero2", "--cp_size", "2"), ("zero3", "--sp_size", "2", "--packing", "true")):
            with self.subTest(layout):
                self.expect_own_curves("--profile", *layout, ranks=2)
                shutil.rmtree(self.path(""))

    def test_ring_and_ulysses(self):
        self.expect_own_curves("--profile", "zero2", "--cp_size", "2", "--sp_size", "2", "--packing", "true", ranks=4)

    def test_hybrid(self):
        self.expect_own_curves("--profile", "zero3", "--dp_replicate_size", "2", ranks=4)

    @in_long_suite
    def test_offloaded(self):
        folder = self.path("offloaded")
        os.makedirs(folder)
        self.expect_own_curves("--profile", "zero3", "--offload_optimizer_device", "nvme", "--offload_optimizer_nvme_path", folder,
                               "--offload_param_device", "nvme", "--offload_param_nvme_path", folder, "--activation_offloading",
                               ranks=2)

    def test_four_bits(self):
        self.expect_own_curves("--load_in_4bit", "--use_bnb_nested_quant", "--profile", "zero3", "--sp_size", "2", ranks=2)
        if ALL_CASES:
            shutil.rmtree(self.path(""))
            self.expect_own_curves("--load_in_4bit", "--profile", "zero3", "--cp_size", "2", of=SCALED, ranks=2)

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
        self.expect(self.train_together(whole, *flags, "--save_model_in_checkpoints", "true", ranks=2), 0)
        for name in ADAPTERS:  # of the last step of each, and of all later ones
            for file in ("adapter_model.safetensors", "adapter_config.json"):
                self.assertEqual(read_file(whole, "checkpoint-6", name, file), read_file(whole, name, file))
        self.assertNotEqual(read_file(whole, "checkpoint-2", "small", "adapter_model.safetensors"),
                            read_file(whole, "small", "adapter_model.safetensors"))
        self.expect(run("inspect", whole), 0)
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

    def test_a_schedule_of_an_adapter_belongs_to_the_curve(self):
        """A job at a constant rate has a resumed adapter, whose rate depends on its steps, end where it would have."""
        of = {"small": {"lora_r": 4, "learning_rate": 1e-3, "lr_scheduler_type": "cosine"}, "wide": {"lora_r": 4, "learning_rate": 1e-3}}
        adapters = self.write_adapters(f"{self.id()}.yaml", of)
        output = self.path("scheduled")
        flags = ["--lr_scheduler_type", "constant", "--save_steps", "2"]
        self.expect(self.train_together(output, *flags, "--num_train_epochs", "1", adapters=adapters), 0)
        self.expect(self.train_together(output, *flags, "--num_train_epochs", "2", adapters=adapters), 78, "num_train_epochs: 1 then, 2 now")

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
        self.expect_refusal("list: [{name: a, lora_r: 0}]", "lora_r = 0 [", "adapter a]",
                            flags=["--dataset_name", self.data_of("small")])
        for flag, value in (("init_lora_weights", "pissa"), ("adapter_name_or_path", "folder")):
            self.expect_refusal("list: [{name: a}]", f"{flag} = ", flags=[f"--{flag}", value])
        self.expect_refusal("list: [{name: a, init_lora_weights: olora}]", "init_lora_weights of the adapter a", "choose true or gaussian",
                            flags=["--dataset_name", self.data_of("small")])
        self.expect_refusal("list: [{name: a, rank_pattern: {q_prog: 2}}]", "adapter a: rank_pattern: q_prog matches no layer",
                            flags=["--dataset_name", self.data_of("small")])
        for own, words in (("lora_modules_to_save: norm", ("adapter a: would train model.layers.0.input_layernorm.weight", "final norm")),
                           ("lora_modules_to_save: down_proj", ("adapter a: would train model.layers.0.mlp.down_proj.weight", "a run of its own")),
                           ("lora_modules_to_save: lm_heat", ("adapter a: lora_modules_to_save = lm_heat", "lm_head")),
                           ("bias: lora_only, lora_target_modules: down_proj", ("bias of the adapter a", "leave it out"))):
            self.expect_refusal("list: [{name: a, %s}]" % own, *words, flags=["--dataset_name", self.data_of("small")])
        for own, words in (("lora_target_modules: embed_tokens", "adapter a: would adapt model.embed_tokens"),
                           ("trainable_token_indices: [3]", "adapter a: has trainable_token_indices")):
            self.expect_refusal("list: [{name: a, %s}]" % own, words, "share the rows", flags=["--dataset_name", self.data_of("small")])
        self.expect_refusal("list: [{name: -rf}]", "name = -rf: ", "does not begin with -")
        for name in ("checkpoint-1", "Attempt-2", "tensorboard", "latest", "stop-now", "save-now", "stopped", "superseded-1-1"):
            self.expect_refusal("list: [{name: %s}]" % name, f"name = {name}: ", "folder of the job")
        self.expect_refusal("list: [{name: a}]", "use_peft = false", "leave it out", flags=["--use_peft", "false"])
        self.expect(run("score", "--model_name_or_path", MODEL, "--dataset_name", self.data_of("small"), "--adapters", self.adapters,
                        "--output_dir", self.path("scores")), 78, "adapters: ", "adapter_name_or_path")
        self.assertEqual(self.train_together(self.path("out"), adapters="/nowhere.yaml").returncode, 66)

    def test_changed_adapters_are_refused(self):
        output = self.path("out")
        self.expect(self.train_together(output), 0)
        adapters = os.path.join(self.folder.name, "other.yaml")
        with open(self.adapters) as before, open(adapters, "w") as after:
            after.write(before.read().replace('"seed": 1', '"seed": 3'))
        self.expect(self.train_together(output, adapters=adapters), 78, "adapters: ", "then", "now")


if __name__ == "__main__":
    unittest.main()
