"""`trainer score`: log-probabilities of transformers, in every layout, every row once and in its order."""

import glob
import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

import pyarrow.parquet  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODEL = os.path.join(DATA, "models", "qwen2-tiny")
TOP = 4
LAYOUTS = [(None, []), (3, ["--profile", "zero3"]), (4, ["--profile", "zero3", "--cp_size", "2", "--sp_size", "2"]),
           (4, ["--profile", "multi_gpu", "--cp_size", "2"])]


class Scores(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "rows.jsonl")
        random = torch.Generator().manual_seed(3)
        cls.rows = []
        for number in range(23):
            length = int(torch.randint(1, 70, (1,), generator=random))
            ids = torch.randint(3, 200, (length,), generator=random).tolist()
            # Some are learned in part, one not at all, one is several documents.
            labels = [-100 if (i + number) % 3 == 0 or number == 5 else token for i, token in enumerate(ids)]
            row = {"input_ids": ids, "labels": labels}
            row["seq_lengths"] = [length // 2, length - length // 2] if number == 7 and length > 3 else [length]
            cls.rows.append(row)
        with open(cls.file, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in cls.rows)
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
        cls.expected = []
        with torch.no_grad():
            for row in cls.rows:
                begin, numbers, top = 0, [], []
                for length in row["seq_lengths"]:
                    ids = torch.tensor([row["input_ids"][begin:begin + length]])
                    log_p = torch.log_softmax(model(ids).logits[0].double(), -1) if length else torch.zeros(0, 1)
                    numbers += [None] * min(1, length) + [log_p[i, ids[0, i + 1]].item() for i in range(length - 1)]
                    top += [[]] * min(1, length) + [log_p[i].topk(TOP) for i in range(length - 1)]
                    begin += length
                cls.expected.append((numbers, top))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def score(self, *flags, ranks=None, output="scores", fails=0, says=()):
        output = os.path.join(self.folder.name, output)
        result = run("score", "--model_name_or_path", MODEL, "--dataset_name", self.file, "--bf16", "false", "--output_dir", output,
                     "--data_cache_dir", os.path.join(self.folder.name, "cache"), "--per_device_eval_batch_size", "4", *flags, ranks=ranks)
        self.expect(result, fails, *says)
        self.said = result
        return sorted(glob.glob(os.path.join(output, "*")))

    def check(self, files, num_files, top_k):
        self.assertEqual([os.path.basename(file) for file in files],
                         [f"part-{i:05}-of-{num_files:05}.parquet" for i in range(num_files)])
        found = [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]
        self.assertEqual([row["row"] for row in found], list(range(len(self.rows))))
        for row, given, (numbers, top) in zip(found, self.rows, self.expected, strict=True):
            self.assertEqual(row["input_ids"], given["input_ids"])
            self.assertEqual(row["learned"], [number is not None and label != -100
                                              for number, label in zip(numbers, given["labels"], strict=True)])
            for place, (ours, theirs) in enumerate(zip(row["logprobs"], numbers, strict=True)):
                if theirs is None:
                    self.assertIsNone(ours)
                    continue
                self.assertAlmostEqual(ours, theirs, delta=1e-5 * max(1, abs(theirs)))
                if top_k:
                    self.assertEqual(row["top_ids"][place], top[place].indices.tolist())
                    for a, b in zip(row["top_logprobs"][place], top[place].values.tolist(), strict=True):
                        self.assertAlmostEqual(a, b, delta=1e-5 * max(1, abs(b)))
            if top_k:
                self.assertEqual([len(ids) for ids in row["top_ids"]], [0 if n is None else TOP for n in numbers])

    def test_every_layout(self):
        for number, (ranks, flags) in enumerate(LAYOUTS):
            data_ranks = {None: 1, 3: 3}.get(ranks, 2 if "multi_gpu" in flags else 1)
            top_k = TOP if number in (0, 2) else 0
            with self.subTest(flags=flags):
                files = self.score(*flags, "--top_k", str(top_k), ranks=ranks, output=f"layout-{number}")
                self.check(files, data_ranks, top_k)
                self.assertIn(f"scored {len(self.rows)} rows, ", self.said.stdout)

    def test_rows_are_scored_whole(self):
        files = self.score("--max_length", "8", "--packing", "true", "--min_length", "1000", "--dataset_exact_deduplication", "true",
                           output="whole", says=[f"note: {name} has no effect on scores" for name in
                                                 ("max_length", "packing", "min_length", "dataset_exact_deduplication")])
        self.check(files, 1, 0)

    def test_more_ranks_than_rows(self):
        with open(self.file) as file:
            first = file.readline()
        short = os.path.join(self.folder.name, "one.jsonl")
        with open(short, "w") as file:
            file.write(first)
        files = self.score("--dataset_name", short, ranks=3, output="one")
        self.assertEqual([len(pyarrow.parquet.read_table(file)) for file in files], [1, 0, 0])

    def test_what_is_refused(self):
        files = self.score(output="twice")
        self.assertEqual(self.score(output="twice", fails=78, says=["holds part-00000-of-00001.parquet already"]), files)
        self.expect(run("score", "--model_name_or_path", MODEL, "--dataset_name", self.file), 78, "output_dir is not set")
        blocked = os.path.join(self.folder.name, "a-file")
        open(blocked, "w").close()
        self.score(output="a-file", fails=74, says=["output_dir"])
        self.score("--top_k", "-1", fails=78, says=["top_k"])
        self.score("--top_k", "600", fails=78, says=["top_k = 600: the model's vocabulary has only 512 tokens"], output="many")


if __name__ == "__main__":
    unittest.main()
