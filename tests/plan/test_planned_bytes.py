"""The bytes of a step that `trainer plan` counts, beside those that runs account for: equal within 2 %. Both name the library of matrix
products, whose workspace counts: a run that times libraries takes others on other processors."""

import concurrent.futures
import json
import os
import struct
import unittest

from planning import HOST, SIZES, PlanTest
from trainer import ALL_CASES, read_metrics, run

KINDS = ("weights", "gathered", "gradients", "optimizer", "activations", "communication", "staging", "save_copy")

# ranks, profile, cp, sp, length, policy, type, more
CASES = [
    (1, "single_gpu", 1, 1, 512, "all", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "input", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "all", "fp8", []),
    (1, "single_gpu", 1, 1, 4096, "attention", "bf16", ["--per_device_train_batch_size", "1"]),
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", ["--optimizer_state_dtype", "bf16"]),
    (2, "multi_gpu", 1, 1, 512, "attention", "bf16", ["--gradient_accumulation_steps", "2"]),
    (2, "zero1", 1, 1, 512, "all", "bf16", []),
    (2, "zero2", 1, 1, 512, "attention", "fp32", ["--gradient_accumulation_steps", "2"]),
    (2, "zero3", 1, 1, 512, "attention", "fp32", []),
    (2, "zero3", 2, 1, 2048, "input", "bf16", []),
    (2, "zero3", 1, 2, 2048, "attention", "fp32", []),
    (2, "zero2", 2, 1, 1024, "attention", "bf16", ["--cp_comm_strategy", "allgather"]),
    (4, "zero3", 2, 2, 2048, "input", "bf16", []),
    (4, "zero3", 1, 1, 512, "attention", "fp32", ["--dp_replicate_size", "2"]),
    (4, "fsdp2", 1, 1, 512, "attention", "bf16", []),
    (2, "zero3", 1, 1, 512, "attention", "fp32", ["--offload_optimizer_device", "nvme"]),
    (2, "zero3", 1, 1, 2048, "all", "fp32", ["--activation_offloading", "true"]),
    (1, "single_gpu", 1, 1, 512, "all", "bf16", ["--residual_dtype", "fp32"]),
    (2, "zero3", 2, 1, 1024, "attention", "bf16", ["--residual_dtype", "fp32", "--activation_offloading", "true"]),
]
# The same kinds with other policies, types and layouts, if ALL_CASES is set.
MORE_CASES = [
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "input", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "all", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "attention", "bf16", []),
    (1, "single_gpu", 1, 1, 4096, "input", "fp32", ["--per_device_train_batch_size", "1"]),
    (1, "single_gpu", 1, 1, 256, "attention", "fp32", ["--per_device_train_batch_size", "6"]),
    (2, "multi_gpu", 1, 1, 512, "attention", "fp32", []),
    (2, "zero1", 1, 1, 512, "attention", "fp32", []),
    (2, "zero2", 1, 1, 1024, "input", "bf16", []),
    (2, "zero3", 1, 1, 512, "all", "bf16", []),
    (2, "zero3", 2, 1, 2048, "attention", "fp32", []),
    (2, "zero3", 1, 2, 2048, "all", "bf16", []),
    (4, "zero3", 2, 2, 2048, "attention", "fp32", []),
    (4, "zero3", 4, 1, 4096, "attention", "fp32", ["--per_device_train_batch_size", "1"]),
]
if ALL_CASES:
    CASES += MORE_CASES
LATENT = {"num_key_value_heads": 8, "head_dim": None, "kv_lora_rank": 64, "q_lora_rank": None, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32,
          "v_head_dim": 32, "moe_intermediate_size": 96}
# Kinds of layers: four norms, caps and windows; LayerNorms around an MLP without a gate; attention and MLP in parallel; positions that
# depend on the length of a document; xIELU; experts with a clamped SwiGLU, sinks; learned positions and turned matrices; states, latents
# and short convolutions.
LAYERS = {"gpt2": {"architectures": ["GPT2LMHeadModel"], "n_embd": 256, "n_layer": 4, "n_head": 8, "vocab_size": 2048, "attn_pdrop": 0,
                   "embd_pdrop": 0, "resid_pdrop": 0},
          "gemma2": {"architectures": ["Gemma2ForCausalLM"], "sliding_window": 128, "query_pre_attn_scalar": 32},
          "starcoder2": {"architectures": ["Starcoder2ForCausalLM"], "sliding_window": 128},
          "cohere": {"architectures": ["CohereForCausalLM"]},
          "apertus": {"architectures": ["ApertusForCausalLM"]},
          "gpt_oss": {"architectures": ["GptOssForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128,
                      "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
          "phi3": {"architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 256, "max_position_embeddings": 1024,
                   "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}},
          "gemma4_text": {"architectures": ["Gemma4ForCausalLM"], "attention_k_eq_v": True, "global_head_dim": 64, "hidden_size_per_layer_input": 0,
                          "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_activation": "gelu_pytorch_tanh"},
          "gemma4_experts": {"architectures": ["Gemma4ForCausalLM"], "global_head_dim": 64, "hidden_size_per_layer_input": 0, "sliding_window": 64,
                             "layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_activation": "gelu_pytorch_tanh",
                             "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 96},
          "gemma4_layers": {"architectures": ["Gemma4ForCausalLM"], "global_head_dim": 64, "hidden_size_per_layer_input": 64,
                            "vocab_size_per_layer_input": 2048, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "sliding_window": 64,
                            "layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_activation": "gelu_pytorch_tanh"},
          "mimo_v2_flash": {"architectures": ["MiMoV2FlashForCausalLM"], "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
                            "v_head_dim": 24, "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 2},
          "kimi_linear": {"architectures": ["KimiLinearForCausalLM"], "num_experts": 8, "num_experts_per_token": 2, "linear_head_dim": 32,
                          "linear_num_heads": 8, "layer_types": ["linear_attention", "full_attention"] * 2, **LATENT},
          "qwen3_next": {"architectures": ["Qwen3NextForCausalLM"], "num_experts": 0, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
                         "linear_key_head_dim": 32, "linear_value_head_dim": 32},
          "falcon_h1": {"architectures": ["FalconH1ForCausalLM"], "mamba_n_heads": 8, "mamba_d_head": 32, "mamba_d_ssm": 256,
                        "mamba_d_state": 32, "mamba_n_groups": 1},
          "lfm2": {"architectures": ["Lfm2ForCausalLM"], "layer_types": ["conv", "full_attention"] * 2},
          "nemotron_h": {"architectures": ["NemotronHForCausalLM"], "hybrid_override_pattern": "M-*E", "mamba_num_heads": 8,
                         "mamba_head_dim": 32, "n_groups": 2, "ssm_state_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2,
                         "moe_intermediate_size": 96, "moe_shared_expert_intermediate_size": 96},
          "deepseek_v3": {"architectures": ["DeepseekV3ForCausalLM"], "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2,
                          "topk_group": 2, **LATENT}}
LAYER_CASES = [(1, "single_gpu", 1, 1, 512, "input", "bf16", []), (2, "zero3", 2, 1, 1024, "attention", "fp32", [])]
MORE_LAYER_CASES = [(1, "single_gpu", 1, 1, 512, "attention", "fp32", [])]


class PlannedBytes(PlanTest):
    library = "native"

    def flags(self, *case):
        return [*super().flags(*case), "--cpu_gemm", self.library]

    def all_begun(self):
        """Of one rank, two at a time."""
        alone, together = ([case for case in CASES if (case[0] == 1) is is_alone] for is_alone in (True, False))
        for case in alone:
            self.rows(case[4])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            yield from zip(alone, list(pool.map(lambda case: self.begun(*case), alone)))
        for case in together:
            yield case, self.begun(*case)

    def check_bytes(self, ranks, case, output, result):
        self.expect(result, 0)
        line = [line for line in read_metrics(output) if "loss" in line][-1]
        run_bytes = {kind: line[f"memory_{kind}_bytes"] for kind in KINDS}
        plan = self.planned(self.flags(*case), "--world", str(ranks))["memory_bytes"]
        plan["save_copy"] = 0
        total, real = sum(plan.values()), sum(run_bytes.values())
        print(f"{total / real:.4f} {ranks} {' '.join(map(str, case))}", flush=True)
        self.assertLess(abs(total - real), 0.02 * real,
                        "\n".join(f"{kind}: {plan[kind]} planned, {run_bytes[kind]} held" for kind in KINDS))

    def test_bytes(self):
        for (ranks, *case), (output, result) in self.all_begun():
            with self.subTest(ranks=ranks, case=case):
                self.check_bytes(ranks, case, output, result)

    def planned_activations(self, *case):
        return self.planned(self.flags(*case), "--world", "1")["memory_bytes"]["activations"]

    def bytes_kept(self):
        """By the program's own kernels, from product to product: with products of fp32 no library has a workspace."""
        planned = {}
        for self.library in ("native", "aten"):  # of one test alone
            planned[self.library] = self.planned_activations("single_gpu", 1, 1, 512, "all", "fp32", [])
        return planned["native"] - planned["aten"]

    def test_bytes_of_each_library(self):
        """MKL sums products of bf16 in a matrix of fp32 beside them; the program's own kernels keep memory for each thread; the others have
        no workspace, or a small one."""
        kept = self.bytes_kept()
        self.assertGreater(kept, 8 << 20)
        case = ("single_gpu", 1, 1, 512, "all", "bf16", [])
        activations = {}
        for self.library in ("native", "aten", "mkl", "onednn"):  # of this test alone
            output, result = self.begun(1, *case)
            if self.library in ("mkl", "onednn") and result.returncode == 78:
                self.expect(result, 78, "this build", "has no", "take one of")
                continue
            with self.subTest(self.library):
                self.check_bytes(1, case, output, result)
                activations[self.library] = self.planned_activations(*case)
        self.assertIn("native", activations)
        self.assertIn("aten", activations)
        if "mkl" in activations:
            self.assertGreater(activations["mkl"], activations["native"] - kept)

    def test_bytes_of_an_anchor(self):
        """In a chunk of the head all tokens but those of one row are the anchor's, whose logits it holds twice."""
        length = 32
        data, anchor = self.rows(length, 1), self.rows(length, 31)
        scores = os.path.join(self.folder.name, "scores")
        self.expect(run("score", "--model_name_or_path", self.model, "--dataset_name", anchor, "--max_length", str(length), "--top_k", "4",
                        "--output_dir", scores), 0)
        order = ["--per_device_train_batch_size", "32", "--train_sampling_strategy", "sequential"]
        for number_type in ("bf16", "fp32"):
            case = ("single_gpu", 1, 1, length, "all", number_type, [*order, "--anchor", scores])
            with self.subTest(number_type):
                self.check_bytes(1, case, *self.begun(1, *case, data=data))
                alone = ("single_gpu", 1, 1, length, "all", number_type, order)
                self.assertGreater(self.planned_activations(*case), self.planned_activations(*alone) + (2 << 20))

    def test_residual_streams_that_are_refused(self):
        case = ("single_gpu", 1, 1, 512, "all")
        wide = self.flags(*case, "bf16", ["--residual_dtype", "fp32"])
        self.expect(run("plan", *wide, "--world", "1", "--gpu", "h100-80"), 78, "residual_dtype = fp32 [command line]", "on GPUs")
        narrow = self.flags(*case, "fp32", ["--residual_dtype", "bf16"])
        self.expect(run("plan", *narrow, "--world", "1", "--gpu", HOST), 78, "residual_dtype = bf16", "mixed_precision = no", "fp32")

    def test_bytes_of_other_layers(self):
        for name, config in LAYERS.items():
            self.model = self.made(name, config if "n_embd" in config else {**SIZES, **config})  # of this test alone
            cases = LAYER_CASES if name == "gemma2" else LAYER_CASES[:1]
            for ranks, *case in cases + MORE_LAYER_CASES * ALL_CASES:
                with self.subTest(name, ranks=ranks, case=case):
                    self.check_bytes(ranks, case, *self.begun(ranks, *case))

    def test_bytes_of_experts_that_ranks_share(self):
        experts = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 192}
        self.model = self.made("experts", {**SIZES, **experts})  # of this test alone
        for case in (("zero3", 1, 1, 512, "attention", "bf16", ["--ep_size", "2"]),
                     ("zero1", 1, 1, 512, "attention", "fp32", ["--ep_size", "2"])):
            with self.subTest(case):
                self.check_bytes(2, case, *self.begun(2, *case))
        plan = self.planned(self.flags(*case), "--world", "2")
        self.assertGreater(next(group["bytes"] for group in plan["traffic"] if group["group"] == "experts"), 0)

    def test_bytes_of_experts_in_slices(self):
        """Gathered are the other weights of two blocks, the vocabulary, and two of sixteen slices."""
        experts = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 192}
        self.model = self.made("experts-in-slices", {**SIZES, **experts})  # of this test alone
        cases = [(2, "zero3", 1, 1, 512, "attention", "bf16", []), (4, "zero3", 2, 1, 1024, "all", "fp32", ["--dp_replicate_size", "2"])]
        more = [(2, "zero3", 2, 1, 2048, "input", "bf16", []), (2, "zero3", 1, 2, 2048, "all", "bf16", []),
                (2, "fsdp2", 1, 1, 512, "input", "fp32", [])]
        for ranks, *case in cases + more * ALL_CASES:
            with self.subTest(ranks=ranks, case=case):
                self.check_bytes(ranks, case, *self.begun(ranks, *case))
        of_experts = 32 * 3 * SIZES["hidden_size"] * 192 * 2  # bytes of a block in bf16
        plan = self.planned(self.flags(*cases[0][1:]), "--world", "2")
        vocabulary = 2 * SIZES["vocab_size"] * SIZES["hidden_size"] * 2
        self.assertLess(plan["memory_bytes"]["gathered"], vocabulary + of_experts)
        self.assertGreater(plan["peak_bytes_if_uneven"], plan["peak_bytes"])

    def test_activations_of_experts(self):
        experts = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 16, "num_experts_per_tok": 8, "moe_intermediate_size": 192}
        self.model = self.made("experts-of-a-rank", {**SIZES, **experts})  # of this test alone
        case = ("single_gpu", 1, 1, 512, "all", "bf16", [])
        output, result = self.begun(1, *case)
        self.expect(result, 0)
        held = [line for line in read_metrics(output) if "loss" in line][-1]["memory_activations_bytes"]
        planned = self.planned(self.flags(*case), "--world", "1")["memory_bytes"]["activations"]
        self.assertLess(abs(planned - held), 0.002 * held, (planned, held))

    def prefer_first_experts(self):
        """Biases that send all tokens to the experts of the first of two ranks."""
        with open(os.path.join(self.model, "model.safetensors"), "r+b") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            for name, tensor in json.loads(file.read(size)).items():
                if name.endswith("router.bias"):
                    self.assertEqual((tensor["shape"], tensor["dtype"]), ([4], "F32"))
                    file.seek(8 + size + tensor["data_offsets"][0])
                    file.write(struct.pack("<4f", 50, 50, 0, 0))

    def test_bytes_if_one_rank_has_all_rows(self):
        self.model = self.made("uneven", {**SIZES, **LAYERS["gpt_oss"]})  # of this test alone
        self.prefer_first_experts()
        cases = [("zero3", 1, 1, 512, "all", "bf16", ["--ep_size", "2"]), ("zero1", 1, 1, 512, "attention", "fp32", ["--ep_size", "2"])]
        for case in cases if ALL_CASES else cases[:1]:
            with self.subTest(case):
                output, result = self.begun(2, *case)
                self.expect(result, 0)
                line = [line for line in read_metrics(output) if "loss" in line][-1]
                self.assertEqual(line["dead_experts"], 2 * SIZES["num_hidden_layers"])
                held = sum(line[f"memory_{kind}_bytes"] for kind in KINDS)
                plan = self.planned(self.flags(*case), "--world", "2")
                uneven = plan["peak_bytes_if_uneven"] - plan["memory_bytes"]["save_copy"]
                print(f"{uneven / held:.4f} uneven {' '.join(map(str, case))}", flush=True)
                self.assertLess(abs(uneven - held), 0.02 * held)
                self.assertGreater(plan["peak_bytes_if_uneven"], 1.01 * plan["peak_bytes"])

    def test_bytes_of_adapters(self):
        lora = ["--use_peft", "--lora_r", "8", "--lora_target_modules", "all-linear"]
        four_bits = [*lora, "--load_in_4bit", "--use_bnb_nested_quant"]
        together = ["--adapters", json.dumps([{"name": f"r{rank}", "lora_r": rank} for rank in (4, 8, 16)])]
        cases = [(1, "single_gpu", 1, 1, 512, "attention", "bf16", lora),
                 (1, "single_gpu", 1, 1, 512, "attention", "bf16", [*lora, "--use_dora"]),
                 (1, "single_gpu", 1, 1, 512, "input", "fp32", together),
                 (2, "zero3", 2, 1, 1024, "attention", "bf16", lora),
                 (2, "zero3", 1, 2, 1024, "attention", "bf16", four_bits),
                 (2, "zero3", 1, 1, 512, "input", "bf16", [*together, "--load_in_4bit"]),
                 (2, "zero1", 1, 1, 512, "attention", "bf16", [*lora, "--lora_modules_to_save", "norm"])]
        more = [(1, "single_gpu", 1, 1, 512, "all", "fp32", [*lora, "--lora_dropout", "0"]),
                (1, "single_gpu", 1, 1, 512, "attention", "bf16", four_bits)]
        for ranks, *case in cases + more * ALL_CASES:
            with self.subTest(ranks=ranks, case=case):
                self.check_bytes(ranks, case, *self.begun(ranks, *case))


if __name__ == "__main__":
    unittest.main()
