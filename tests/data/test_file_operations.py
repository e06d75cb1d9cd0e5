"""How often the ranks that prepare a dataset open, list and read its files: counted by a preloaded library."""

import collections
import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from trainer import TrainerTest, run  # noqa: E402

SHIM = os.environ["FILE_SHIM"]
MODEL = HERE.parent / "parity" / "data" / "models" / "qwen2-tiny"


class FileOperations(TrainerTest):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = pathlib.Path(temporary.name)
        self.folder = self.top / "data"
        self.folder.mkdir()
        self.cache = self.top / "cache"

    def prepare(self, name, ranks, *flags):
        """Of all ranks: opens and lists by path, bytes read by path."""
        log = self.top / "log"
        self.expect(run("prepare", "--model_name_or_path", str(MODEL), "--data_cache_dir", str(self.cache),
                        "--dataset_name", str(self.folder / name), *flags, ranks=ranks,
                        LD_PRELOAD=SHIM, FILE_SHIM_FOLDER=str(self.folder), FILE_SHIM_LOG=str(log)), 0)
        counts = {"open": collections.Counter(), "list": collections.Counter(), "read": collections.Counter()}
        for file in self.top.glob("log.*"):
            for line in file.read_text().splitlines():
                what, path = line.split(" ", 1)
                if what == "read":
                    size, path = path.split(" ", 1)
                    counts["read"][path] += int(size)
                elif what in counts:
                    counts[what][path] += 1
            file.unlink()
        return counts

    def test_a_rank_opens_the_files_of_its_share(self):
        for i in range(40):
            with gzip.open(self.folder / f"{i:02}.jsonl.gz", "wt") as file:
                file.write(json.dumps({"input_ids": [i, 1]}) + "\n")
        opened = self.prepare("*.gz", 4)["open"]
        self.assertEqual(len(opened), 40)
        self.assertLessEqual(max(opened.values()), 3)  # what it begins with, for whom, and its bytes

    def test_unpacking_leaves_room_on_the_disk(self):
        with gzip.open(self.folder / "rows.jsonl.gz", "wt") as file:
            file.write(json.dumps({"input_ids": [1, 2]}) + "\n")
        result = run("prepare", "--model_name_or_path", str(MODEL), "--data_cache_dir", str(self.cache), "--dataset_name",
                     str(self.folder / "rows.jsonl.gz"), LD_PRELOAD=SHIM, FILE_SHIM_FREE=str(8 << 20))
        self.expect_one_message(result, 74, "the disk has 8.0 MiB left", "make room, or name another data_cache_dir")

    def test_a_pattern_lists_what_its_parts_say(self):
        for i in range(30):
            (self.folder / f"run-{i}" / "checkpoint").mkdir(parents=True)
            (self.folder / f"run-{i}" / "checkpoint" / "state.json").write_text("{}")
        (self.folder / "rows.jsonl").write_text(json.dumps({"input_ids": [1, 2]}) + "\n")
        self.assertEqual(self.prepare("*.jsonl", None)["list"], {str(self.folder): 1})

    def test_tokens_that_are_evaluated_too_are_opened_once(self):
        with open(self.folder / "rows.jsonl", "w") as file:
            file.writelines(json.dumps({"input_ids": [i % 100, 1]}) + "\n" for i in range(2000))
        self.cache = self.folder / "cache"
        evaluation = ("--eval_dataset_name", str(self.folder / "rows.jsonl"), "--eval_strategy", "epoch")
        self.prepare("rows.jsonl", 2, *evaluation)

        def opens_of_tokens(*flags):
            opened = self.prepare("rows.jsonl", 2, *flags)["open"]
            return sum(count for path, count in opened.items() if pathlib.Path(path).name.startswith("tokens-"))

        once = opens_of_tokens()
        self.assertGreaterEqual(once, 2)
        self.assertEqual(opens_of_tokens(*evaluation), once)

    def test_bad_rows_cost_no_reading(self):
        path = self.folder / "rows.jsonl"
        for name, bad in (("good", 0), ("bad", 300)):
            with open(path, "w") as file:
                for line in range(60_000):
                    good = {"input_ids": [1] * 10, "name": name, "x": "y" * 20}
                    file.write("{}\n" if line > 60_000 - bad else json.dumps(good) + "\n")
            # Once for the tokens, and its first megabyte to see what it is.
            read = self.prepare("rows.jsonl", 2, "--skip_bad_rows", "1000")["read"][str(path)]
            self.assertLess(read, path.stat().st_size + 1.5 * 2**20, name)

    def test_a_list_is_looked_through_once(self):
        path = self.folder / "rows.json"
        path.write_text(json.dumps([{"input_ids": [1] * 10, "x": "y" * 100}] * 50_000))
        read = self.prepare("rows.json", 4)["read"][str(path)]
        self.assertLess(read, 2 * path.stat().st_size + 1.5 * 2**20)  # its blocks are found, and read

    def test_a_row_group_is_read_once(self):
        import pyarrow
        import pyarrow.parquet

        path = self.folder / "rows.parquet"
        rows = [os.urandom(200).hex() for _ in range(40_000)]
        pyarrow.parquet.write_table(pyarrow.table({"text": rows}), path, row_group_size=40_000, compression="none")
        flags = ("--max_length", "16", "--num_threads")
        for threads in ("1", "3"):
            read = self.prepare("rows.parquet", None, *flags, threads)["read"][str(path)]
            os.utime(path, (0, int(threads)))
            # All of it, and a page or two to see what it is; a thread that comes too late may read some of it again.
            self.assertLess(read, (1.2 if threads == "1" else 2.5) * path.stat().st_size, threads)


if __name__ == "__main__":
    unittest.main()
