"""Rows with stored log-probabilities: what the tests of the objectives that read them share."""

import glob
import json
import os
import shutil
import signal
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import FolderTest, read_metrics, read_steps, run  # noqa: E402, F401

import pyarrow.parquet  # noqa: E402
import torch  # noqa: E402

MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
TOP, STEPS = 8, 3
COMMON = ["--bf16", "false", "--learning_rate", "0.002", "--max_length", "48", "--logging_steps", "1", "--max_steps", str(STEPS)]


def random_rows(count, seed):
    random = torch.Generator().manual_seed(seed)
    rows = []
    for number in range(count):
        ids = torch.randint(3, 200, (int(torch.randint(4, 40, (1,), generator=random)),), generator=random).tolist()
        rows.append({"input_ids": ids, "labels": [-100 if i < 2 or (i + number) % 5 == 0 else ids[i] for i in range(len(ids))]})
    return rows


class ScoredRows(FolderTest):
    """A subclass has train(name, *flags, ranks, scores, ...), and KEYS, the numbers of a step that no layout changes."""

    @classmethod
    def write(cls, name, rows):
        with open(cls.path(name), "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return cls.path(name)

    @classmethod
    def make_model(cls, name, source, **fields):
        """source: the fields of a config.json, or the folder of a model that has it."""
        config = source
        if isinstance(source, str):
            with open(os.path.join(source, "config.json")) as file:
                config = json.load(file)
        with open(cls.path(name + ".json"), "w") as file:
            json.dump({**config, **fields}, file)
        result = run("init", "--config_json", cls.path(name + ".json"), "--output_dir", cls.path(name))
        assert result.returncode == 0, result.stderr
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(MODEL, file), cls.path(name))
        return cls.path(name)

    @classmethod
    def score_rows(cls, name, model, file, *flags, ranks=None):
        return run("score", "--model_name_or_path", model, "--dataset_name", file, "--bf16", "false", "--top_k", str(TOP),
                   "--output_dir", cls.path(name), "--data_cache_dir", cls.path("cache"), *flags, ranks=ranks)

    def steps(self, name, *flags, **options):
        self.expect(self.train(name, *flags, **options), 0)
        return read_steps(self.path(name))

    def expect_steps(self, ours, theirs):
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs, strict=True):
            for key in self.KEYS:
                self.assertLessEqual(abs(a[key] - b[key]), 1e-5 * abs(b[key]), (a["step"], key))

    def expect_to_go_on(self, first, second, *flags, meanwhile=lambda: None):
        """A run that is killed in one layout (ranks, flags) ends in another one as if it had not been."""
        flags = [*flags, "--save_steps", "1"]
        whole = self.steps("not-killed", *flags)
        killed = self.train("killed", *flags, *first[1], ranks=first[0], RINGSHARD_FAULT="save:copy:2:kill")
        self.assertEqual(killed.returncode, 128 + signal.SIGKILL, killed.stderr)
        meanwhile()
        self.expect_steps(self.steps("killed", *flags, *second[1], ranks=second[0]), whole)
        attempt, *then = [line["attempt"] for line in read_steps(self.path("killed"))]
        self.assertEqual(attempt, 1)
        self.assertTrue(then[0] == then[1] > attempt, then)

    def changed_scores(self, name, change, source="scores"):
        """Scores whose rows went through `change`."""
        os.makedirs(self.path(name))
        for file in glob.glob(os.path.join(self.path(source), "*.parquet")):
            table = pyarrow.parquet.read_table(file)
            rows = table.to_pylist()
            for row in rows:
                change(row)
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=table.schema), os.path.join(self.path(name), os.path.basename(file)))
        return name

    def losses_of_documents(self, victim):
        """The documents of a step, twice: the second time with the scores of one row, `victim`, in another order."""
        def turn(row):
            if row["input_ids"] == victim:
                row["top_ids"] = [list(reversed(ids)) for ids in row["top_ids"]]

        flags = ["--packing", "--padding_free", "--cp_size", "2", "--sp_size", "2", "--profile", "zero3", "--document_log", "all", "--max_steps", "1"]
        losses = []
        for name in ("scores", self.changed_scores("turned", turn)):
            self.steps("documents-" + name, *flags, ranks=4, scores=name)
            shown = run("inspect", self.path("documents-" + name), "--step", "1", "--json")
            losses.append([json.loads(line) for line in shown.stdout.splitlines()])
        return losses
