"""The memory of adapters that train together, beside that of one."""

import json
import os
import unittest

from adapters_together import COMMON, MODEL, AdaptersTogetherTest
from trainer import read_steps, run

HALF_A_BILLION = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "vocab_size": 151936,
                  "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                  "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                  "use_sliding_window": False, "rope_theta": 1000000.0}


class Memory(AdaptersTogetherTest):
    # Bytes of tensors as the runs count them, in steps after the first, which has the peak of loading too.
    def test_activations_of_one_at_a_time(self):
        rows = self.path("rows.jsonl")
        os.makedirs(os.path.dirname(rows))
        self.write_rows(rows, [[token % 250 for token in range(row, row + 48)] for row in range(8)])
        alone = {"lora_r": 8, "max_steps": 3, "dataset_name": rows, "lora_target_modules": "all-linear"}
        adapters = self.write_adapters("alike.yaml", {f"a{seed}": {**alone, "seed": seed} for seed in range(8)},
                                       **{f"a{seed}": rows for seed in range(8)})

        def activations(output, *flags, **given):
            # Kernels of our own, which are the fastest on some processors, hold memory for each thread.
            self.expect(self.train_together(output, "--cpu_gemm", "aten", *flags, **given), 0)
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
