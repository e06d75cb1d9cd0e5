"""What `trainer plan` says of a step, beside what runs account for: bytes within 2 %, in thirty configurations."""

import concurrent.futures
import contextlib
import errno
import itertools
import json
import os
import random
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_metrics, run  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
CONFIG = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 256,
          "intermediate_size": 704, "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
          "vocab_size": 2048, "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
          "initializer_range": 0.02, "use_sliding_window": False,
          "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}
KINDS = ("weights", "gathered", "gradients", "optimizer", "activations", "communication", "staging", "save_copy")

# ranks, profile, cp, sp, length, policy, type, more
CASES = [
    (1, "single_gpu", 1, 1, 512, "all", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "input", "fp32", []),
    (1, "single_gpu", 1, 1, 512, "all", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "attention", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "input", "bf16", []),
    (1, "single_gpu", 1, 1, 512, "all", "fp8", []),
    (1, "single_gpu", 1, 1, 4096, "attention", "bf16", ["--per_device_train_batch_size", "1"]),
    (1, "single_gpu", 1, 1, 4096, "input", "fp32", ["--per_device_train_batch_size", "1"]),
    (1, "single_gpu", 1, 1, 256, "attention", "fp32", ["--per_device_train_batch_size", "6"]),
    (1, "single_gpu", 1, 1, 512, "attention", "fp32", ["--optimizer_state_dtype", "bf16"]),
    (2, "multi_gpu", 1, 1, 512, "attention", "fp32", []),
    (2, "multi_gpu", 1, 1, 512, "attention", "bf16", ["--gradient_accumulation_steps", "2"]),
    (2, "zero1", 1, 1, 512, "attention", "fp32", []),
    (2, "zero1", 1, 1, 512, "all", "bf16", []),
    (2, "zero2", 1, 1, 512, "attention", "fp32", ["--gradient_accumulation_steps", "2"]),
    (2, "zero2", 1, 1, 1024, "input", "bf16", []),
    (2, "zero3", 1, 1, 512, "attention", "fp32", []),
    (2, "zero3", 1, 1, 512, "all", "bf16", []),
    (2, "zero3", 2, 1, 2048, "attention", "fp32", []),
    (2, "zero3", 2, 1, 2048, "input", "bf16", []),
    (2, "zero3", 1, 2, 2048, "attention", "fp32", []),
    (2, "zero3", 1, 2, 2048, "all", "bf16", []),
    (2, "zero2", 2, 1, 1024, "attention", "bf16", ["--cp_comm_strategy", "allgather"]),
    (4, "zero3", 2, 2, 2048, "attention", "fp32", []),
    (4, "zero3", 2, 2, 2048, "input", "bf16", []),
    (4, "zero3", 1, 1, 512, "attention", "fp32", ["--dp_replicate_size", "2"]),
    (4, "fsdp2", 1, 1, 512, "attention", "bf16", []),
    (4, "zero3", 4, 1, 4096, "attention", "fp32", ["--per_device_train_batch_size", "1"]),
    (2, "zero3", 1, 1, 512, "attention", "fp32", ["--offload_optimizer_device", "nvme"]),
    (2, "zero3", 1, 1, 2048, "all", "fp32", ["--activation_offloading", "true"]),
]
# Kinds of layers: four norms, caps and windows; LayerNorms around an MLP without a gate; attention and MLP in parallel; positions that
# depend on the length of a document; xIELU; experts with a clamped SwiGLU, sinks.
SIZES = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 32, "vocab_size": 2048, "pad_token_id": None}
LAYERS = {"gemma2": {"architectures": ["Gemma2ForCausalLM"], "sliding_window": 128, "query_pre_attn_scalar": 32},
          "starcoder2": {"architectures": ["Starcoder2ForCausalLM"], "sliding_window": 128},
          "cohere": {"architectures": ["CohereForCausalLM"]},
          "apertus": {"architectures": ["ApertusForCausalLM"]},
          "gpt_oss": {"architectures": ["GptOssForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128,
                      "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
          "phi3": {"architectures": ["Phi3ForCausalLM"], "original_max_position_embeddings": 256, "max_position_embeddings": 1024,
                   "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16}}}
LAYER_CASES = [(1, "single_gpu", 1, 1, 512, "input", "bf16", []), (1, "single_gpu", 1, 1, 512, "attention", "fp32", []),
               (2, "zero3", 2, 1, 1024, "attention", "fp32", [])]
questions, answers = 3, 3
RATES = ("products", "products_backward", "attention", "attention_backward", "attention_extra_keys",
         "attention_backward_extra_keys", "peak", "row_bytes")
OTHERS = ("loss_logits", "optimizer_bytes", "host_copy_bytes", "scratch_bytes", "link_bytes", "network_bytes", "save_bytes",
          "host_memory_bytes", "scratch_room_bytes")


def remove_group(folder):
    """The kernel lets go of a process that has ended a moment after its parent has seen it end."""
    for _ in range(100):
        try:
            return os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            time.sleep(0.05)
    raise TimeoutError(f"{folder}: a process is still in this control group")


@contextlib.contextmanager
def memory_group(limit):
    """A function for preexec_fn: it moves a process below a control group with that limit, as SLURM does, into a group that
    has none of its own. Needs root, and a hierarchy that can be written to."""
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        job = os.path.join(root, f"ringshard-test-{os.getpid()}")
        step = os.path.join(job, "step")
        try:
            os.mkdir(job)
            os.mkdir(step)
            with open(os.path.join(job, file), "w") as limits:
                limits.write(str(limit))
            break
        except OSError:
            for folder in (step, job):
                if os.path.isdir(folder):
                    os.rmdir(folder)
    else:
        raise unittest.SkipTest("no control group with a memory limit can be made here")

    def join():
        with open(os.path.join(step, "cgroup.procs"), "w") as processes:
            processes.write(str(os.getpid()))

    try:
        yield join
    finally:
        for folder in (step, job):
            remove_group(folder)


class Plan(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = cls.made("model", CONFIG)
        cls.number = itertools.count()
        cls.host = cls.device(is_host="true")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def made(cls, name, config):
        """A random model."""
        wanted, folder = (os.path.join(cls.folder.name, name + end) for end in (".json", ""))
        with open(wanted, "w") as file:
            json.dump(config, file)
        made = run("init", "--config_json", wanted, "--output_dir", folder)
        assert made.returncode == 0, made.stderr
        return folder

    def rows(self, length):
        """Every row has just that length."""
        path = os.path.join(self.folder.name, f"rows-{length}.jsonl")
        if not os.path.exists(path):
            draw = random.Random(length)
            with open(path, "w") as file:
                for _ in range(32):
                    file.write(json.dumps({"input_ids": [draw.randrange(2048) for _ in range(length)]}) + "\n")
        return path

    def flags(self, profile, ring, ulysses, length, policy, number_type, more):
        flags = ["--model_name_or_path", self.model, "--profile", profile, "--cp_size", str(ring), "--sp_size",
                 str(ulysses), "--max_length", str(length), "--activation_policy", policy, "--mixed_precision",
                 "no" if number_type == "fp32" else number_type, "--per_device_train_batch_size", "2", *more]
        if "nvme" in more:
            flags += ["--offload_optimizer_nvme_path", self.folder.name]
        return flags

    def begun(self, ranks, *case, **environment):
        """Two steps: from the second on, all are alike."""
        output = os.path.join(self.folder.name, f"out-{next(self.number)}")
        result = run("train", *self.flags(*case), "--dataset_name", self.rows(case[3]), "--output_dir", output, "--max_steps", "2",
                     "--logging_steps", "1", "--save_strategy", "no", ranks=ranks, timeout=300, **environment)
        return output, result

    def all_begun(self):
        """Of one rank, two at a time."""
        alone, together = ([case for case in CASES if (case[0] == 1) is is_alone] for is_alone in (True, False))
        for case in alone:
            self.rows(case[4])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            yield from zip(alone, list(pool.map(lambda case: self.begun(*case), alone)))
        for case in together:
            yield case, self.begun(*case)

    def planned(self, flags, *more):
        """For a device that is written down: this host would be measured for each question, which takes seconds."""
        device = () if "--gpu" in (*flags, *more) else ("--gpu", self.host)
        result = run("plan", *flags, *device, *more, "--json")
        self.expect(result, 0)
        return json.loads(result.stdout)

    @classmethod
    def device(cls, **numbers):
        """A file for --gpu: a terabyte of everything, 1e12 operations and 1e10 bytes a second, but for these."""
        path = os.path.join(cls.folder.name, f"device-{next(cls.number)}")
        all_numbers = {f"{kind}_{rate}": "1e12" for kind in ("bf16", "fp32") for rate in RATES}
        all_numbers |= {name: "1e12" if name.endswith(("memory_bytes", "room_bytes")) else "1e10" for name in OTHERS}
        all_numbers |= {name: "1" for name in all_numbers if name.endswith("extra_keys")}
        all_numbers |= {"memory_bytes": "1e12"} | numbers
        with open(path, "w") as file:
            file.write("name: made\n" + "".join(f"{name}: {number}\n" for name, number in all_numbers.items()))
        return path

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

    def test_bytes_of_other_layers(self):
        for name, config in LAYERS.items():
            self.model = self.made(name, {**SIZES, **config})  # of this test alone
            for ranks, *case in LAYER_CASES if name == "gemma2" else LAYER_CASES[:1]:
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

    def test_bytes_of_adapters(self):
        lora = ["--use_peft", "--lora_r", "8", "--lora_target_modules", "all-linear"]
        four_bits = [*lora, "--load_in_4bit", "--use_bnb_nested_quant"]
        together = ["--adapters", json.dumps([{"name": f"r{rank}", "lora_r": rank} for rank in (4, 8, 16)])]
        for ranks, *case in ((1, "single_gpu", 1, 1, 512, "attention", "bf16", lora),
                             (1, "single_gpu", 1, 1, 512, "all", "fp32", [*lora, "--lora_dropout", "0"]),
                             (1, "single_gpu", 1, 1, 512, "attention", "bf16", [*lora, "--use_dora"]),
                             (1, "single_gpu", 1, 1, 512, "attention", "bf16", four_bits),
                             (1, "single_gpu", 1, 1, 512, "input", "fp32", together),
                             (2, "zero3", 2, 1, 1024, "attention", "bf16", lora),
                             (2, "zero3", 1, 2, 1024, "attention", "bf16", four_bits),
                             (2, "zero3", 1, 1, 512, "input", "bf16", [*together, "--load_in_4bit"]),
                             (2, "zero1", 1, 1, 512, "attention", "bf16", [*lora, "--lora_modules_to_save", "norm"])):
            with self.subTest(ranks=ranks, case=case):
                self.check_bytes(ranks, case, *self.begun(ranks, *case))

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

    def test_a_ring_sends_the_keys_of_a_window_alone(self):
        sent = {}
        for window in (None, 1024):
            self.model = self.made(f"window-{window}", {**SIZES, "architectures": ["MistralForCausalLM"], "sliding_window": window})
            plan = self.planned(self.flags("zero3", 4, 1, 65536, "attention", "bf16", []), "--world", "4")
            sent[window] = next(group["bytes"] for group in plan["traffic"] if group["group"] == "ring")
        self.assertGreater(sent[1024], 0)
        self.assertLess(16 * sent[1024], sent[None])

    def test_what_does_not_fit_is_refused(self):
        flags = [*self.flags("zero3", 1, 1, 2048, "all", "fp32", []), "--dataset_name", self.rows(2048), "--output_dir",
                 os.path.join(self.folder.name, "never"), "--dry_run"]
        self.expect(run("train", *flags, ranks=2), 0, "plan: a rank holds at most", "dry_run: this run can begin")
        held = self.planned(flags, "--world", "2")["peak_bytes"]
        small = {"RINGSHARD_TEST_DEVICE_MEMORY": str(int(2 * held * 0.7))}  # of two ranks
        refused = run("train", *flags, ranks=2, **small)
        self.expect_one_message(refused, 78, "a step takes", "at: ", "rows of 2048 tokens", "what makes it fit: ",
                                "--activation_policy input", "--ignore_plan begins all the same")
        self.expect(run("train", *flags, "--ignore_plan", ranks=2, **small), 0, "warning: a step takes")
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "never")))

    def test_the_memory_limit_of_the_job_counts(self):
        flags = [*self.flags("single_gpu", 1, 1, 16384, "all", "fp32", []), "--dataset_name", self.rows(16384), "--output_dir",
                 os.path.join(self.folder.name, "limited"), "--dry_run"]
        held = self.planned(flags)["peak_bytes"]
        self.assertGreater(held, 1 << 30)  # a process that only plans stays below the limit
        with memory_group(held // 2) as join:
            refused = run("train", *flags, preexec_fn=join)
        self.expect_one_message(refused, 78, "a step takes", "at: ", "rows of 16384 tokens")

    def test_as_much_is_kept_as_there_is_room_for(self):
        """The plan and two ranks choose the same; what blocks keep changes no loss; what was chosen can be said."""
        ends = [self.planned(self.flags("zero3", 1, 1, 1024, policy, "fp32", []), "--world", "2")["peak_bytes"]
                for policy in ("input", "all")]
        memory = int((ends[0] + 0.6 * (ends[1] - ends[0])) / 0.9)  # a tenth stays free
        device = self.device(is_host="true", memory_bytes=str(memory))
        auto = self.flags("zero3", 1, 1, 1024, "auto", "fp32", [])
        planned = self.planned(auto, "--world", "2", "--gpu", device)
        chosen = planned["activation_policy"]
        self.assertRegex(chosen, r"^all:\d,")
        said = f"activation_policy auto: {chosen[4]} of 5 blocks keep all, "
        self.expect(run("plan", *auto, "--world", "2", "--gpu", device), 0, said, f"({chosen})", stream="stdout")
        fixed = self.planned(self.flags("zero3", 1, 1, 1024, chosen, "fp32", []), "--world", "2", "--gpu", device)
        self.assertEqual(fixed, planned)
        losses = {}
        for policy in ("auto", "all", "attention"):
            case = ("zero3", 1, 1, 1024, policy, "fp32", ["--ignore_plan"])
            output, result = self.begun(2, *case, RINGSHARD_TEST_DEVICE_MEMORY=str(2 * memory))
            self.expect(result, 0, *((said, f"({chosen})") if policy == "auto" else ()))
            losses[policy] = [line["loss"] for line in read_metrics(output) if "loss" in line]
            with open(os.path.join(output, "run.json")) as file:
                record = json.load(file)
            setting = record["settings"]["activation_policy"]
            if policy == "auto":
                self.assertEqual((setting["value"], setting["origin"]), (chosen, "auto [command line]"))
                self.assertIn(f"activation_policy auto: {record['activations_kept']} ({chosen})", result.stderr)
        self.assertEqual(len(set(map(tuple, losses.values()))), 1, losses)

    def test_policies_that_no_model_has(self):
        for policy, words in (("all:6,input", "names 6 blocks, and the model has 5"),
                              ("all:2,input:2", "names 4 blocks, and the model has 5: leave the last number out"),
                              ("most", "must be auto, or one of all, ")):
            with self.subTest(policy):
                flags = self.flags("zero3", 1, 1, 512, policy, "fp32", [])
                self.expect_one_message(run("plan", *flags, "--gpu", self.host), 78, f"activation_policy = {policy}", words)
                self.expect_one_message(self.begun(1, "zero3", 1, 1, 512, policy, "fp32", [])[1], 78,
                                        f"activation_policy = {policy} [command line]: ", words)

    def test_the_longest_row(self):
        flags = self.flags("zero3", 2, 1, 512, "input", "bf16", [])
        device = os.path.join(self.folder.name, "device")
        self.expect(run("doctor", "--measure", device), 0)
        with open(device) as file:
            text = file.read()
        with open(device, "w") as file:
            file.write("".join("memory_bytes: 1e8\n" if line.startswith("memory_bytes") else line + "\n"
                               for line in text.splitlines()))
        longest = self.planned(flags, "--world", "2", "--gpu", device, "--longest")
        self.assertTrue(longest["fits"])
        self.assertGreater(longest["row_length"], 1024)
        self.assertGreater(longest["peak_bytes"], 0.85e8)
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
        nowhere = os.path.join(self.folder.name, "nowhere")
        self.expect_one_message(run("doctor", "--measure", path, "--output_dir", nowhere, ranks=2), 74, "nowhere")

    def test_what_is_suggested_can_begin(self):
        """Twenty questions and ten answers to each by hand: --questions 20."""
        draw = random.Random(7)
        for question in range(questions):
            world = draw.choice((1, 2, 4))
            length = draw.choice((256, 1024))
            flags = ["--model_name_or_path", self.model, "--max_length", str(length),
                     "--per_device_train_batch_size", str(draw.choice((1, 2, 4))), "--bf16", draw.choice(("true", "false"))]
            suggested = self.planned(flags, "--world", str(world), "--suggest")
            self.assertGreater(len(suggested), 0)
            for answer in suggested[:answers]:
                with self.subTest(question=question, world=world, flags=answer["flags"]):
                    begun = run("train", *flags, *answer["flags"].split(), "--dataset_name", self.rows(length),
                                "--output_dir", os.path.join(self.folder.name, "dry"), "--dry_run", ranks=world)
                    self.expect(begun, 0, "mesh " + answer["mesh"])

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
            (66, "config.json: there is no such file", "--world", "2", "--model_name_or_path", models["empty"]),
            (65, "config.json: is not readable JSON", "--world", "2", "--model_name_or_path", models["broken"]),
            (78, "architectures = [MambaForCausalLM]: this program trains LlamaForCausalLM, Qwen2ForCausalLM", "--world", "2",
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
    if "--questions" in sys.argv:
        at = sys.argv.index("--questions")
        questions, answers = int(sys.argv[at + 1]), 10
        del sys.argv[at:at + 2]
    unittest.main()
