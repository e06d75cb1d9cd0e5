"""What a run looks at of its other checkpoints: counted by the kernel."""

import ctypes
import os
import shutil
import struct
import tempfile
import unittest

from saves import COMMON, DATA, SavesTest, checkpoints, read_saves, run

OLDER = 10
FLAGS = [*COMMON, "--lr_scheduler_type", "constant"]


class Opens:
    """The files of some folders that processes open, by folder."""

    def __init__(self, folders):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.events = self.libc.inotify_init1(os.O_NONBLOCK)
        self.folders = {self.libc.inotify_add_watch(self.events, os.fsencode(folder), 0x20): os.path.basename(folder)  # IN_OPEN
                        for folder in folders}
        assert min(self.folders) > 0

    def names(self):
        names = {folder: [] for folder in self.folders.values()}
        while True:
            try:
                content = os.read(self.events, 1 << 16)
            except BlockingIOError:
                return names
            while content:
                watch, _, _, length = struct.unpack_from("iIII", content)
                if name := content[16:16 + length].rstrip(b"\0").decode():  # else the folder itself
                    names[self.folders[watch]].append(name)
                content = content[16 + length:]

    def close(self):
        os.close(self.events)


class BesideOlderCheckpoints(SavesTest):
    """A run whose older checkpoints are all good and kept: what a save reads of them does not grow with them."""

    @classmethod
    def setUpClass(cls):
        cls.before = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.before.cleanup)
        first = run("train", *FLAGS, "--max_steps", str(OLDER), "--save_steps", "1", "--output_dir",
                    os.path.join(cls.before.name, "run"))
        assert first.returncode == 0, first.stderr

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(self.before.name, "run"), self.output, symlinks=True)
        self.assertEqual(checkpoints(self.output), list(range(1, OLDER + 1)))
        self.newest = f"checkpoint-{OLDER}"
        self.opens = Opens([os.path.join(self.output, f"checkpoint-{step}") for step in range(1, OLDER + 1)])
        self.addCleanup(self.opens.close)

    def go_on(self, saves, *flags):
        """How often the files of each older checkpoint are opened, beside those of the one that is loaded."""
        result = run("train", *FLAGS, "--max_steps", str(OLDER + saves), "--save_steps", "1", "--output_dir", self.output, *flags)
        self.expect(result, 0, "resuming from " + os.path.join(self.output, self.newest))
        self.assertEqual([line["failed_saves"] for line in read_saves(self.output)][-saves:], [0] * saves)
        names = self.opens.names()
        self.assertIn("manifest.json", names.pop(self.newest))
        return names

    def test_no_save_looks_at_them(self):
        names = self.go_on(4)
        self.assertEqual(checkpoints(self.output), list(range(1, OLDER + 5)))
        self.assertEqual(names, {f"checkpoint-{step}": ["checkpoint.json"] for step in range(1, OLDER)})  # the start alone

    def test_a_limit_and_the_best_read_their_small_files(self):
        rows = os.path.join(DATA, "rows", "pretokenized.jsonl")
        names = self.go_on(4, "--eval_dataset_name", rows, "--eval_strategy", "steps", "--eval_steps", "1",
                           "--load_best_model_at_end", "--save_total_limit", str(2 * OLDER))
        for folder, files in names.items():
            self.assertEqual(set(files), {"checkpoint.json"}, folder)
            at_the_ends = 3  # to go on, to load the best one and to name it
            self.assertLessEqual(len(files), 2 * 4 + at_the_ends, folder)

    def test_a_run_that_begins_again_sets_each_aside(self):
        result = run("train", *FLAGS, "--max_steps", "4", "--save_steps", "2", "--resume_from_checkpoint", "never", "--output_dir",
                     self.output)
        self.expect(result, 0)
        self.assertEqual(checkpoints(self.output), [2, 4])
        self.assertEqual(self.opens.names(), {f"checkpoint-{step}": ["checkpoint.json"] for step in range(1, OLDER + 1)})

    def test_one_without_a_small_file_is_known_by_its_manifest(self):
        os.remove(os.path.join(self.output, "checkpoint-3", "checkpoint.json"))
        names = self.go_on(1)
        self.assertEqual(names.pop("checkpoint-3"), ["manifest.json"])
        self.assertEqual(set(map(tuple, names.values())), {("checkpoint.json",)})


if __name__ == "__main__":
    unittest.main()
