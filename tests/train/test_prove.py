"""`trainer prove`: architectures and meshes drawn by a seed hold, and a seeded error is found with its tensor."""

import json
import os
import random
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

FAMILIES = os.path.join(FOLDER, "..", "parity", "data", "families")
ALL = bool(os.environ.get("ALL_CASES"))
LORA = ["--use_peft", "--lora_r", "4"]


def draw_mesh(dice):
    """Ranks, and flags of a mesh."""
    ranks = dice.choice([2, 4])
    cp = dice.choice([n for n in (1, 1, 2, 4) if ranks % n == 0])
    sp = dice.choice([n for n in (1, 2) if ranks // cp % n == 0])
    profile = dice.choice(["multi_gpu", "zero1", "zero2", "zero3", "fsdp2"])
    flags = ["--profile", profile, "--cp_size", str(cp), "--sp_size", str(sp)]
    if profile != "multi_gpu" and ranks // cp // sp == 4:
        flags += dice.choice([[], ["--dp_replicate_size", "2"]])
    if cp > 1:
        flags += ["--cp_comm_strategy", dice.choice(["ring", "allgather"])]
    flags += dice.choice([[], LORA, [*LORA, "--use_dora"]])
    return ranks, flags + dice.choice([["--bf16", "false"], [], ["--mixed_precision", "fp8"]])


class Prove(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def model(self, family):
        """A folder with config.json alone."""
        os.makedirs(self.path(family), exist_ok=True)
        with open(os.path.join(FAMILIES, family + ".json")) as golden, open(self.path(family, "config.json"), "w") as file:
            json.dump(json.load(golden)["config"], file)
        return self.path(family)

    def prove(self, ranks, family, *flags, code=0, **variables):
        """Returns the proof, and the messages."""
        result = run("prove", "--model_name_or_path", self.model(family), "--output_dir", self.path("proof"), *flags, ranks=ranks,
                     timeout=300, **variables)
        self.assertEqual(result.returncode, code, f"{family} {ranks} {flags} {variables}: {result.stdout}{result.stderr}")
        with open(self.path("proof", "proof.json")) as file:
            return json.load(file), result.stderr

    def test_no_false_alarm(self):
        dice = random.Random(53)
        families = sorted(name[:-5] for name in os.listdir(FAMILIES))
        for family in families if ALL else dice.sample(families, 4):
            for _ in range(12 if ALL else 1):
                while True:
                    ranks, flags = draw_mesh(dice)
                    result = run("prove", "--model_name_or_path", self.model(family), "--output_dir", self.path("proof"), *flags,
                                 ranks=ranks, timeout=300)
                    if result.returncode != 78:  # heads that do not divide, an adapter without a layer
                        break
                self.assertEqual(result.returncode, 0, f"{family} {ranks} {flags}: {result.stdout}{result.stderr}")

    def test_seeded_errors(self):
        """A rank's part of a sum, a hop of a ring, an exchange of heads or of experts' rows, updated weights, a target, a border."""
        dense, experts = "qwen2_5_vl", "qwen3_moe"
        cases = [
            (dense, ["--profile", "zero2"], "zero:*:drop@1", "gradients"),
            (dense, ["--profile", "multi_gpu"], "all:1:drop@1", "gradients"),
            (dense, ["--profile", "multi_gpu", "--cp_size", "2"], "ring:*:drop@1", "gradients"),
            (dense, ["--profile", "multi_gpu", "--sp_size", "2"], "ulysses:*:drop@0", "gradients"),
            (dense, ["--profile", "multi_gpu"], "targets:1:drop@1", "loss"),
            (dense, ["--profile", "multi_gpu", "--cp_size", "2"], "documents:1:drop", "documents"),
            (experts, ["--profile", "zero2", "--ep_size", "2"], "experts:*:drop@1", "gradients"),
        ]
        for family, flags, fault, what in cases:
            with self.subTest(fault=fault, flags=flags):
                proof, said = self.prove(2, family, *flags, "--bf16", "false", code=76, RINGSHARD_FAULT=f"prove:{fault}")
                self.assertFalse(proof["holds"])
                wrong = {check["what"]: check for check in proof["checks"] if not check["holds"] and check["steps"] == 0}
                self.assertIn(what, wrong)
                if what != "documents":
                    self.assertIn(".", wrong["gradients"]["tensor"])
                self.assertIn("this mesh does not compute what one rank computes: fp32, before a step:", said)

    def test_one_rank(self):
        result = run("prove", "--model_name_or_path", self.model("qwen3_moe"), "--profile", "zero3", "--cp_size", "4", ranks=1)
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("mpirun --oversubscribe -n 8 trainer prove", result.stderr)


if __name__ == "__main__":
    unittest.main()
