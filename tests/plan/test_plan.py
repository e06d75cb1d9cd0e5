"""The answers of `trainer plan` to questions about steps that nobody runs."""

import json
import os
import pathlib
import sys
import time
import unittest
from xml.etree import ElementTree

from planning import CONFIG, SIZES, PlanTest
from devices import HOST, OTHERS
from trainer import run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench" / "gpu"))
import shapes  # noqa: E402

# Seconds of a step on H100s, reckoned part by part from the published rates of kernels at these sizes: no measurement of ours.
RECKONED = (
    ("0.5B", 0.453, "--world", "1", "--profile", "single_gpu", "--max_length", "1024", "--per_device_train_batch_size", "64",
     "--activation_policy", "everything"),
    ("0.5B", 0.456, "--world", "1", "--profile", "single_gpu", "--max_length", "4096", "--documents", "8",
     "--per_device_train_batch_size", "16", "--activation_policy", "everything"),
    ("8B", 0.7625, "--world", "8", "--profile", "zero3", "--max_length", "8192", "--per_device_train_batch_size", "1",
     "--activation_policy", "everything"),
    ("8B", 5.45, "--world", "8", "--profile", "zero3", "--cp_size", "8", "--max_length", "131072", "--per_device_train_batch_size", "1",
     "--activation_policy", "all"))


class Plan(PlanTest):
    def test_seventy_billion_weights_in_four_bits(self):
        folder = os.path.join(self.folder.name, "seventy")
        os.mkdir(folder)
        config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
                  "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-5,
                  "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                  "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        plan = self.planned(["--model_name_or_path", folder, "--use_peft", "--lora_r", "16", "--lora_target_modules", "all-linear",
                             "--load_in_4bit", "--use_bnb_nested_quant", "--max_length", "4096", "--gpu", "h100-80",
                             "--per_device_train_batch_size", "1", "--profile", "single_gpu"], "--world", "1")
        self.assertTrue(plan["fits"])
        in_four_bits = 80 * 8192 * (8192 + 2 * 1024 + 8192 + 3 * 28672)
        adapters = 80 * 16 * (2 * (8192 + 8192) + 2 * (8192 + 1024) + 3 * (8192 + 28672))
        others = 8192 * (2 * 128256 + 161)
        formula = 0.55 * in_four_bits + 2 * others + 6 * adapters
        self.assertLess(plan["memory_bytes"]["weights"], formula)
        self.assertGreater(plan["memory_bytes"]["weights"], 0.9 * formula)

    def test_experts_in_four_bits_fit_one_device(self):
        """gpt-oss-20b in 13 GB and Qwen3-30B-A3B in 24 GB, all weights whole on one H100."""
        gpt_oss = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
                   "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
                   "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "max_position_embeddings": 131072,
                   "tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}
        qwen3 = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
                 "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
                 "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True,
                 "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
        for name, config, most in (("gpt-oss-20b", gpt_oss, 13e9), ("Qwen3-30B-A3B", qwen3, 24e9)):
            folder = os.path.join(self.folder.name, name)
            os.mkdir(folder)
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump(config, file)
            plan = self.planned(["--model_name_or_path", folder, "--use_peft", "--lora_r", "8", "--lora_dropout", "0",
                                 "--lora_target_modules", "q_proj,k_proj,v_proj,o_proj", "--load_in_4bit", "--use_bnb_nested_quant",
                                 "--max_length", "512", "--gpu", "h100-80", "--per_device_train_batch_size", "1",
                                 "--activation_policy", "input", "--profile", "single_gpu"], "--world", "1")
            self.assertLess(plan["peak_bytes"], most, name)

    def test_a_ring_sends_the_keys_of_a_window_alone(self):
        sent = {}
        for window in (None, 1024):
            self.model = self.made(f"window-{window}", {**SIZES, "architectures": ["MistralForCausalLM"], "sliding_window": window})
            plan = self.planned(self.flags("zero3", 4, 1, 65536, "attention", "bf16", []), "--world", "4")
            sent[window] = next(group["bytes"] for group in plan["traffic"] if group["group"] == "ring")
        self.assertGreater(sent[1024], 0)
        self.assertLess(16 * sent[1024], sent[None])

    def test_the_longest_row(self):
        flags = self.flags("zero3", 2, 1, 512, "input", "bf16", [])
        device = self.device(is_host="true", memory_bytes="1.2e8")
        longest = self.planned(flags, "--world", "2", "--gpu", device, "--longest")
        self.assertTrue(longest["fits"])
        self.assertGreater(longest["row_length"], 1024)
        self.assertGreater(longest["peak_bytes"], 0.85 * 1.2e8)
        longer = self.planned([*flags, "--max_length", str(longest["row_length"] + 512)], "--world", "2", "--gpu", device)
        self.assertFalse(longer["fits"])

    def test_longer_rows_are_short_of(self):
        flags = [*self.flags("zero3", 2, 1, 512, "input", "bf16", ["--activation_offloading", "true"]), "--world", "2"]
        for what, numbers in (("memory of the device", {"memory_bytes": "1e8"}),
                              ("room for files of a node", {"scratch_room_bytes": "3e7", "is_host": "true"}),
                              ("host memory of a node", {"host_memory_bytes": "2e7"})):
            with self.subTest(what):
                longest = self.planned(flags, "--gpu", self.device(**numbers), "--longest")
                self.assertEqual(longest["longer_is_short_of"], what)
                self.assertTrue(longest["fits"])
                longer = ("--max_length", str(int(1.1 * longest["row_length"])))
                refused = self.planned([*flags, *longer], "--gpu", self.device(**numbers))
                self.assertEqual((refused["fits"], refused["short_of"]), (False, what))
                told = run("plan", *flags, *longer, "--gpu", self.device(**numbers))
                self.expect(told, 0, f"it does not fit, being short of {what}: ", stream="stdout")

    def test_a_gpu_attends_in_more_room(self):
        """The gradient of queries in fp32, those of keys and values for every query head: beside what a processor takes."""
        tokens, width = 8192, CONFIG["hidden_size"]
        flags = [*self.flags("zero3", 1, 1, tokens, "input", "bf16", ["--per_device_train_batch_size", "1"]), "--world", "1"]
        here = self.planned(flags, "--gpu", self.device(is_host="true"))
        there = self.planned(flags, "--gpu", self.device())
        more = there["memory_bytes"]["activations"] - here["memory_bytes"]["activations"]
        room = tokens * width * (4 + 2 * 2)
        self.assertGreater(more, 0.5 * room)
        self.assertLess(more, 2.5 * room)  # what the operator gives back is new memory too
        threads = self.planned(flags, "--gpu", self.device(), "--num_threads", "2")
        self.assertEqual(threads["memory_bytes"], there["memory_bytes"])

    def test_when_a_checkpoint_is_durable(self):
        flags = [*self.flags("zero3", 1, 1, 512, "input", "bf16", []), "--world", "16"]  # two nodes
        plan = self.planned(flags, "--gpu", self.device(host_copy_bytes="1e6", save_bytes="1e7"))
        copy = plan["memory_bytes"]["save_copy"]
        self.assertEqual(16 * copy, plan["checkpoint_bytes"])
        self.assertAlmostEqual(plan["checkpoint_seconds"]["stall"], copy / 1e6)
        self.assertAlmostEqual(plan["checkpoint_seconds"]["durable"], copy / 1e6 + 8 * copy / 1e7)
        # The weights once more: 4 or 2 bytes beside the 12 that are copied.
        for dtype, number in (("float32", 4), ("bfloat16", 2), ("auto", 4)):
            with self.subTest(dtype):
                model = ("--save_model_in_checkpoints", "true", "--dtype", dtype)
                more = self.planned(flags, "--gpu", self.device(host_copy_bytes="1e6", save_bytes="1e7"), *model)
                self.assertEqual(more["memory_bytes"]["save_copy"], copy)
                written = copy // 12 * (12 + number)
                self.assertEqual(more["checkpoint_bytes"], 16 * written)
                self.assertAlmostEqual(more["checkpoint_seconds"]["durable"], copy / 1e6 + 8 * written / 1e7)
                self.assertEqual(more["step_seconds"], plan["step_seconds"])
        small = self.device(host_copy_bytes="1e6", save_bytes="1e7", host_memory_bytes=str(7 * copy))
        plan = self.planned(flags, "--gpu", small)
        self.assertTrue(plan["fits"])
        self.assertAlmostEqual(plan["checkpoint_seconds"]["stall"], 8 * copy / 1e7)
        self.assertEqual(plan["checkpoint_seconds"]["stall"], plan["checkpoint_seconds"]["durable"])
        self.expect(run("plan", *flags, "--gpu", small), 0, "a node has no room for a copy", "it is durable after", "/s)",
                    stream="stdout")

    def test_the_parts_of_a_step(self):
        for more in (["--gpu", "h100-80"], ["--gpu", "h100-80", "--activation_offloading", "true"], []):
            with self.subTest(more):
                flags = [*self.flags("zero3", 2, 2, 2048, "attention", "bf16", []), "--world", "16", *more]
                plan = self.planned(flags, "--parts")
                sums = {name: 0 for name in plan["step_seconds"]}
                for part in plan["step_parts"]:
                    sums[part["sum"]] += part["seconds"]
                    sums["total"] += part["seconds"]
                    self.assertAlmostEqual(part["share"], part["seconds"] / plan["step_seconds"]["total"])
                for name, seconds in plan["step_seconds"].items():
                    self.assertAlmostEqual(sums[name] / seconds if seconds else sums[name] + 1, 1, msg=name)
                names = {part["name"] for part in plan["step_parts"]}
                self.assertLessEqual({"qkv, forward", "gate_up, again", "down, gradient of inputs", "head, gradient of weights",
                                      "attention, backward", "loss", "update of weights", "sent over ring",
                                      "sent over zero"}, names)
                if more:
                    self.assertLessEqual({"norms, backward", "SwiGLU, forward", "RoPE, again", "gradients of heads"}, names)
                    kernels = {part["name"]: part["kernels"] for part in plan["step_parts"]}
                    self.assertEqual(kernels["SwiGLU, backward"], ["::SwiGluBackward"])
                    self.assertIn("gemm", kernels["residuals, read by products"])
                uncounted = {part["name"]: part["kernels"] for part in plan["uncounted_kernels"]}
                self.assertEqual(uncounted["sums of squares"], ["::SumBlock"])
                del plan["step_parts"], plan["uncounted_kernels"]
                self.assertEqual(plan, self.planned(flags))
                self.expect(run("plan", *flags, *(() if more else ("--gpu", HOST)), "--parts"), 0, "its parts, in seconds and of the step:",
                            "  gate_up, gradient of weights ", stream="stdout")

    def test_steps_on_gpus_take_about_what_was_reckoned(self):
        for model, reckoned, *flags in RECKONED:
            with self.subTest(flags):
                folder = os.path.join(self.folder.name, model)
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "config.json"), "w") as file:
                    json.dump(shapes.MODELS[model], file)
                plan = self.planned(["--model_name_or_path", folder, "--mixed_precision", "bf16", *flags, "--gpu", "h100-80"])
                self.assertLess(abs(plan["step_seconds"]["total"] / reckoned - 1), 0.08, plan["step_seconds"])

    def test_a_device_is_shown_measured_and_read(self):
        shown = run("plan", "--gpu", "h100-80", "--show_device")
        self.expect(shown, 0, "memory_bytes: 8.225e+10", "save_bytes: 5e+09", stream="stdout")
        path = os.path.join(self.folder.name, "shown")
        with open(path, "w") as file:
            file.write(shown.stdout)
        self.assertEqual(run("plan", "--gpu", path, "--show_device").stdout, shown.stdout)
        drive = os.path.join(self.folder.name, "drive")
        os.mkdir(drive)
        self.expect(run("doctor", "--measure", path, "--output_dir", drive, ranks=2), 0)
        self.assertEqual(os.listdir(drive), [])
        with open(path) as file:
            numbers = dict(line.split(": ") for line in file if not line.startswith("#"))
        for name in (*OTHERS, "memory_bytes"):
            self.assertGreater(float(numbers[name]), 1e6, name)
        self.expect(run("plan", "--gpu", path, "--show_device"), 0, "is_host: true", stream="stdout")
        nowhere = os.path.join(self.folder.name, "nowhere")
        self.expect_one_message(run("doctor", "--measure", path, "--output_dir", nowhere, ranks=2), 74, "nowhere")

    def test_fewer_rows_at_a_time_are_suggested_where_nothing_else_fits(self):
        flags = ["--model_name_or_path", self.model, "--max_length", "4096"]
        one = self.planned([*flags, "--profile", "zero3", "--activation_policy", "input", "--activation_offloading", "true",
                            "--per_device_train_batch_size", "1"], "--world", "1", "--gpu", self.device())
        device = self.device(memory_bytes=str(1.05 * one["peak_bytes"]))
        suggested = self.planned(flags, "--world", "1", "--gpu", device, "--suggest")
        self.assertGreater(len(suggested), 0)
        for answer in suggested:
            self.assertTrue(answer["flags"].startswith("--per_device_train_batch_size 1 "), answer["flags"])
        given = run("plan", *flags, "--per_device_train_batch_size", "8", "--world", "1", "--gpu", device, "--suggest")
        self.expect(given, 78, "fewer at a time (--per_device_train_batch_size)")
        self.expect(run("plan", *flags, "--world", "1", "--gpu", device), 0, "8 rows of 4096 tokens at a time", stream="stdout")

    def test_this_host_is_measured_where_nothing_else_is_named(self):
        result = run("plan", *self.flags("zero3", 1, 1, 512, "input", "bf16", []), "--world", "2", "--json")
        self.expect(result, 0)
        plan = json.loads(result.stdout)
        self.assertTrue(plan["fits"])
        self.assertTrue(0 < plan["utilisation"] < 1, plan)

    def test_slower_ways_between_ranks(self):
        flags = [*self.flags("zero3", 1, 2, 2048, "input", "bf16", []), "--world", "8", "--nodes", "4", "--gpu", "h100-80"]
        times = [self.planned(flags, *("--interconnect", names) if names else ())["step_seconds"]["exposed_communication"]
                 for names in ("nvlink+ib800", "", "pcie3+eth25")]
        self.assertLess(times[0], times[1])
        self.assertLess(2 * times[1], times[2])

    def test_curves(self):
        flags = self.flags("zero3", 1, 1, 256, "input", "bf16", [])
        device = self.device(memory_bytes="4e7")
        folder = os.path.join(self.folder.name, "curves")
        self.expect(run("plan", *flags, "--world", "256", "--gpu", device, "--curves", folder), 0)
        points = {}
        for name in ("weak", "strong", "longest"):
            with open(os.path.join(folder, name + ".jsonl")) as file:
                points[name] = [json.loads(line) for line in file]
            self.assertEqual([point["step"] for point in points[name]], [256, 512, 1024])
        self.assertEqual(points["weak"][-1], points["strong"][-1])  # there nothing is left to share
        self.assertGreater(points["longest"][1]["row_length"], 1.5 * points["longest"][0]["row_length"])
        picture = os.path.join(self.folder.name, "curves.svg")
        self.expect(run("plot", "--plan", *(os.path.join(folder, name + ".jsonl") for name in points), "-o", picture), 0)
        text = ElementTree.parse(picture).getroot()
        keys = [group.get("data-key") for group in text.iter() if group.get("data-key")]
        self.assertEqual(keys, ["tokens_per_second", "step_seconds", "utilisation", "row_length", "peak_bytes"])

    def test_bad_input(self):
        flags = self.flags("zero3", 1, 1, 512, "all", "fp32", [])
        models = {}
        for name, text in (("empty", None), ("broken", '{"arch'), ("other", '{"architectures": ["MambaForCausalLM"]}')):
            models[name] = os.path.join(self.folder.name, name)
            os.mkdir(models[name])
            if text:
                with open(os.path.join(models[name], "config.json"), "w") as file:
                    file.write(text)
        without = self.device()
        with open(without) as file:
            lines = [line for line in file if not line.startswith("save_bytes")]
        with open(without, "w") as file:
            file.writelines(lines)
        for code, words, *more in (
            (78, "gpu = h300: known are cpu, a100-40, a100-80, h100-80, h200-141, b200, or a file that", "--world", "2",
             "--gpu", "h300"),
            (78, f"gpu = {without}: save_bytes must be there and a number above 0", "--world", "2", "--gpu", without),
            (78, "link_bytes must be there and a number above 0", "--world", "2", "--gpu", self.device(link_bytes="-1")),
            (78, "interconnect = wire: is written as LINK+NETWORK, of nvlink, pcie3, pcie4, pcie5 and eth25", "--world", "2",
             "--interconnect", "wire"),
            (78, "interconnect = nvlink+ib400+x", "--world", "2", "--interconnect", "nvlink+ib400+x"),
            (78, "sizes that work: 1x4x1x1", "--world", "4", "--cp_size", "8"),
            (78, "dp_replicate_size = 3 [command line]", "--world", "4", "--dp_replicate_size", "3"),
            (64, "--nodes must be at least 1", "--world", "4", "--nodes", "0"),
            (64, "--world must be at least 1", "--world", "99999999999999999999"),
            (64, "--curves has no value", "--world", "2", "--curves"),
            (64, "--longest, --suggest and --curves are questions of their own", "--world", "2", "--longest", "--suggest"),
            (64, "--parts is of one step: leave --suggest and --curves out", "--world", "2", "--parts", "--suggest"),
            (66, "config.json: there is no such file", "--world", "2", "--model_name_or_path", models["empty"]),
            (65, "config.json: is not readable JSON", "--world", "2", "--model_name_or_path", models["broken"]),
            (78, "architectures = [MambaForCausalLM]: this program trains AfmoeForCausalLM, ApertusForCausalLM", "--world", "2",
             "--model_name_or_path", models["other"]),
            (78, "sp_size = 3", "--world", "3", "--sp_size", "3"),
            (78, "cp_size", "--world", "4", "--cp_size", "3"),
            (78, "nodes = 3", "--world", "4", "--nodes", "3"),
            (64, "--world must be at least 1", "--world", "none"),
            (78, "max_lenght", "--world", "2", "--max_lenght", "3"),
            (66, "nowhere", "--world", "2", "--model_name_or_path", "/nowhere"),
        ):
            with self.subTest(words):
                self.expect_one_message(run("plan", *flags, *more), code, words)

    def test_without_mpi_and_at_once(self):
        began = time.monotonic()
        result = run("plan", *self.flags("zero3", 8, 8, 1 << 20, "input", "bf16", []), "--world", "64", "--gpu", "h100-80",
                     OMPI_MCA_orte_base_help_aggregate="0")
        self.expect(result, 0, "mesh 1x1x8x8", "a rank holds at most", "sends in a step over ring (8 ranks)", stream="stdout")
        self.assertLess(time.monotonic() - began, 20)  # half a second where nothing else runs


if __name__ == "__main__":
    unittest.main()
