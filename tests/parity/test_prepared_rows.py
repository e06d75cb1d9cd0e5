"""Rows as TRL prepares them: `trainer prepare`, shown by `trainer inspect --json`, against what
SFTTrainer made of the same files."""

import gzip
import json
import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "cli"))
from trainer import run  # noqa: E402

DATA = FOLDER / "data" / "text" / "data"

# TRL refuses what has no generation marks; this program finds the assistant's turns by rendering prefixes.
OTHERWISE = {"chat_assistant_only_no_markers"}


def has_target(row):
    """TRL keeps rows that teach nothing, as those of one token; this program drops them unless it packs. The first token is no target."""
    return "seq_lengths" in row or any(label != -100 for label in row["labels"][1:])


def flags(case):
    given = {
        "dataset_name": str(DATA / case["data"]),
        "model_name_or_path": str(DATA / "tokenizers" / case["tokenizer"]),
    }
    given.update(case["config"])
    for name, value in given.items():
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        yield f"--{name}={text}"


class PreparedRows(unittest.TestCase):
    maxDiff = 1000

    def prepare(self, case, cache, ranks=None):
        return run("prepare", *flags(case), f"--data_cache_dir={cache}", ranks=ranks)

    def rows(self, prepared):
        plan = prepared.stdout.splitlines()[0].split(": ", 1)[1]
        shown = run("inspect", plan, "--rows", "100000", "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def test_every_case(self):
        cases = json.loads((DATA / "prepared" / "cases.json").read_text())
        for case in cases if isinstance(cases, list) else cases["cases"]:
            with self.subTest(case["name"]), tempfile.TemporaryDirectory() as cache:
                prepared = self.prepare(case, cache)
                if case["name"] in OTHERWISE:
                    self.assertEqual(prepared.returncode, 0, prepared.stderr)
                    self.assertIn("does not mark the assistant's turns", prepared.stderr)
                    continue
                if "error" in case:
                    self.assertEqual(prepared.returncode, 65, case["error"] + prepared.stderr)
                    continue
                self.assertEqual(prepared.returncode, 0, prepared.stderr)
                name = case.get("same_rows_as", case["name"])
                expected = [json.loads(line)
                            for line in gzip.open(DATA / "prepared" / f"{name}.jsonl.gz")]
                expected = [row for row in expected if has_target(row)]
                rows = self.rows(prepared)
                self.assertEqual(len(rows), len(expected))
                for row, want in zip(rows, expected):
                    self.assertEqual(row["input_ids"], want["input_ids"])
                    self.assertEqual(row["labels"], want["labels"])
                    if "seq_lengths" in want:
                        self.assertEqual(row["seq_lengths"], want["seq_lengths"])

    def test_the_same_bytes_at_any_number_of_ranks_and_threads(self):
        case = {"data": "chat_small.jsonl", "tokenizer": "generation",
                "config": {"max_length": 128, "assistant_only_loss": True, "packing": True}}
        made = []
        for ranks, threads in ((None, 1), (None, 3), (2, 1), (3, 2)):
            with tempfile.TemporaryDirectory() as cache:
                case["config"]["num_threads"] = threads
                prepared = self.prepare(case, cache, ranks)
                self.assertEqual(prepared.returncode, 0, prepared.stderr)
                # A lock names the process that holds it.
                made.append({file.name: file.read_bytes() for file in pathlib.Path(cache).iterdir() if file.suffix != ".lock"})
                self.assertEqual(len(made[-1]), 2)
        for files in made[1:]:
            self.assertEqual(files, made[0])


if __name__ == "__main__":
    unittest.main()
