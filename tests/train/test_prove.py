"""`trainer prove`: architectures and meshes drawn by a seed hold, and a seeded error is found with its tensor."""

import json
import os
import random
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import ALL_CASES, FolderTest, read_json, run  # noqa: E402

FAMILIES = os.path.join(FOLDER, "..", "parity", "data", "families")
LORA = ["--use_peft", "--lora_r", "4"]
DENSE, SINKS, EXPERTS, DELTA = "qwen2_5_vl", "gpt_oss", "qwen3_moe", "qwen3_next"
# Family, ranks, flags, fault, the check that finds it.
ERRORS = [
    # A rank divides by the targets of its own rows, or of its own part of them.
    (DENSE, 2, "--profile zero2", "zero:*:scale@1", "gradients"),
    (DENSE, 2, "--profile multi_gpu --cp_size 2", "all:*:scale@1", "gradients"),
    # The part of one rank is the whole gradient: of one unit, of all, of experts, of a copy of the model.
    (DELTA, 2, "--profile multi_gpu --cp_size 2", "all:2:alone", "gradients"),
    (DENSE, 2, "--profile zero1", "zero:*:alone", "gradients"),
    (EXPERTS, 4, "--profile zero2 --ep_size 2", "experts zero:*:alone", "gradients"),
    (DENSE, 4, "--profile zero2 --dp_replicate_size 2", "replicate:*:alone", "gradients"),
    # A part is added twice, or lost.
    (DENSE, 2, "--profile zero2", "zero:*:twice@0", "gradients"),
    (DENSE, 2, "--profile zero2", "zero:*:drop@1", "gradients"),
    (DENSE, 2, "--profile multi_gpu", "all:1:drop@1", "gradients"),
    # The norm by which gradients are clipped lacks the part of a rank.
    (SINKS, 2, "--profile zero2", "norm:*:drop@1", "norm"),
    # A ring loses what one rank sends, once or always; it has numbers of the pass before.
    (DENSE, 2, "--profile multi_gpu --cp_size 2", "ring:*:drop@1", "gradients"),
    (DELTA, 2, "--profile multi_gpu --cp_size 2", "ring:*:stale@0", "gradients"),
    # An exchange of heads loses them, or has them in another order.
    (DENSE, 2, "--profile multi_gpu --sp_size 2", "ulysses:*:drop@0", "gradients"),
    (DENSE, 2, "--profile multi_gpu --sp_size 2", "ulysses:*:swap", "gradients"),
    # The tokens of experts, by which routers are balanced, are those of one rank, or of all but one.
    (EXPERTS, 2, "--profile zero2", "all counts:*:alone", "gradients"),
    (EXPERTS, 2, "--profile multi_gpu --cp_size 2", "all counts:*:drop@1", "gradients"),
    # An exchange of rows with experts loses them; the twelfth is one of a pass whose logits rank 0 does not see.
    (EXPERTS, 2, "--profile zero2 --ep_size 2", "experts:*:drop@1", "gradients"),
    (EXPERTS, 2, "--profile zero2 --ep_size 2", "experts:12:drop@1", "documents"),
    # A rank computes with the weights before the last update.
    (DENSE, 2, "--profile zero3", "zero:*:stale@1", "gradients"),
    # A loader deals rows of another rank, loses targets, or joins documents.
    (DENSE, 2, "--profile multi_gpu", "rows:1:drop@1", "loss"),
    (DENSE, 2, "--profile multi_gpu", "targets:1:drop@1", "loss"),
    (DENSE, 2, "--profile multi_gpu --cp_size 2", "documents:1:drop", "documents"),
]


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


def golden_of(family):
    return read_json(FAMILIES, family + ".json.gz")


class Prove(FolderTest):
    def model(self, family):
        """A folder with config.json alone."""
        os.makedirs(self.path(family), exist_ok=True)
        with open(self.path(family, "config.json"), "w") as file:
            json.dump(golden_of(family)["config"], file)
        return self.path(family)

    def prove(self, ranks, family, *flags, code=0, **variables):
        """Returns the proof, and the messages."""
        result = run("prove", "--model_name_or_path", self.model(family), "--output_dir", self.path("proof"), *flags, ranks=ranks,
                     timeout=300, **variables)
        self.assertEqual(result.returncode, code, f"{family} {ranks} {flags} {variables}: {result.stdout}{result.stderr}")
        with open(self.path("proof", "proof.json")) as file:
            return json.load(file), result.stderr

    def cases_of(self, family, number):
        """Draws ranks and flags; the same ones for the same arguments."""
        dice = random.Random(f"53 {family} {number}")
        has_experts = "experts" in json.dumps(golden_of(family))
        while True:
            ranks, flags = draw_mesh(dice)
            yield ranks, [*flags, *(["--ep_size", "2"] if has_experts and dice.random() < 0.4 else [])]

    def test_no_false_alarm(self):
        """ALL_CASES: every family in 12 meshes; PIECE=2/3 of them: the second third."""
        families = sorted(name.removesuffix(".json.gz") for name in os.listdir(FAMILIES))
        piece, pieces = map(int, os.environ.get("PIECE", "1/1").split("/"))
        drawn = [(family, number) for number in range(12) for family in families] if ALL_CASES else \
            [(family, 0) for family in random.Random(53).sample(families, 4)]
        for family, number in drawn[piece - 1::pieces]:
            for ranks, flags in self.cases_of(family, number):
                result = run("prove", "--model_name_or_path", self.model(family), "--output_dir", self.path("proof"), *flags,
                             ranks=ranks, timeout=300)
                if result.returncode != 78:  # heads that do not divide, an adapter without a layer
                    break
            self.assertEqual(result.returncode, 0, f"{family} {ranks} {flags}: {result.stdout}{result.stderr}")

    def test_seeded_errors(self):
        """Silent errors of layouts, one at a time: each is found, with the tensor that is farthest."""
        for family, ranks, flags, fault, what in ERRORS:
            with self.subTest(family=family, fault=fault, flags=flags):
                proof, said = self.prove(ranks, family, *flags.split(), "--bf16", "false", code=76, RINGSHARD_FAULT=f"prove:{fault}")
                self.assertFalse(proof["holds"])
                wrong = {}
                for check in proof["checks"]:
                    if not check["holds"]:
                        wrong.setdefault(check["what"], check)
                self.assertIn(what, wrong)
                if what == "gradients":
                    self.assertRegex(wrong["gradients"]["tensor"], r"^[a-z_]+\.")
                self.assertIn("this mesh does not compute what one rank computes: fp32, ", said)

    def test_methods(self):
        """Pairs of answers beside a reference, rewards, and labels: they hold, and an error is found."""
        for family, mesh, flags in ((DENSE, "--profile zero2 --cp_size 2", "--method dpo"),
                                    (SINKS, "--profile zero3 --sp_size 2", "--method dpo --loss_type ipo"),
                                    (DENSE, "--profile zero1 --cp_size 2", "--method cpo --loss_type simpo"),
                                    (SINKS, "--profile zero3 --cp_size 2", "--method reward"),
                                    (EXPERTS, "--profile zero2 --ep_size 2", "--method classification --num_labels 5")):
            with self.subTest(flags=flags):
                proof, _ = self.prove(4, family, *mesh.split(), *flags.split())
                self.assertEqual({check["what"] for check in proof["checks"]}, {"loss", "gradients", "norm", "documents"})
                proof, _ = self.prove(4, family, *mesh.split(), *flags.split(), "--bf16", "false", code=76,
                                      RINGSHARD_FAULT="prove:zero:*:drop@1")
                self.assertIn("gradients", {check["what"] for check in proof["checks"] if not check["holds"]})

    def test_in_a_job(self):
        rows, output = self.path("rows.jsonl"), self.path("run")
        with open(rows, "w") as file:
            file.writelines('{"text": "one two three four five"}\n' for _ in range(8))
        flags = ["--model_name_or_path", os.path.join(FAMILIES, "..", "models", "qwen2-tiny"), "--dataset_name", rows, "--bf16", "false",
                 "--profile", "zero2", "--max_steps", "2", "--prove_in_job", "true", "--output_dir", output]
        self.expect(run("train", *flags, ranks=2, RINGSHARD_FAULT="prove:zero:*:drop@1"), 76,
                    "this mesh does not compute what one rank computes: fp32, before a step: ")
        self.assertEqual(os.listdir(output), ["proof.json"])
        proved = run("train", *flags, "--save_steps", "1", ranks=2, RINGSHARD_FAULT="save:copy:2:kill")
        self.assertIn("holds   fp32, before a step: the norm of the gradient differs by", proved.stdout)
        self.expect(run("train", *flags, "--save_steps", "1", ranks=2), 0, "proof.json is of these settings, this mesh and this program")
        with open(os.path.join(output, "run.json")) as file:
            proof = json.load(file)["proof"]
        self.assertEqual((proof["file"], proof["holds"], len(proof["hash"])), ("proof.json", True, 32))
        alone = run("train", *flags, "--output_dir", self.path("alone"))
        self.expect(alone, 0, "note: prove_in_job: one rank has nothing to be compared with")
        with open(self.path("alone", "run.json")) as file:
            self.assertIsNone(json.load(file)["proof"])

    def test_one_rank(self):
        result = run("prove", "--model_name_or_path", self.model("qwen3_moe"), "--profile", "zero3", "--cp_size", "4", ranks=1)
        self.assertEqual(result.returncode, 78, result.stderr)
        self.assertIn("mpirun --oversubscribe -n 8 trainer prove", result.stderr)


if __name__ == "__main__":
    unittest.main()
