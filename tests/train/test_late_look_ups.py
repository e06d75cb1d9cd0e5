"""Files that one rank makes and others open next, where a rank's host sees them late, as an NFS client does."""

import gzip
import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_steps, run  # noqa: E402

SHIM = os.environ["FILE_SHIM"]
MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")


class LateLookUps(TrainerTest):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = os.path.join(temporary.name, "shared")
        self.log = os.path.join(temporary.name, "log")
        self.out = os.path.join(self.folder, "out")
        os.mkdir(self.folder)
        for name in ("one", "three", "two"):
            with gzip.open(os.path.join(temporary.name, name + ".jsonl.gz"), "wt") as file:
                file.writelines(json.dumps({"input_ids": [i, 1, 2]}) + "\n" for i in range(20))
        self.data = os.path.join(temporary.name, "*.jsonl.gz")

    def run_late(self, *arguments, expected=0):
        """The names that rank 1 asked for and was told that there are none."""
        result = run(*arguments, ranks=2, LD_PRELOAD=SHIM, FILE_SHIM_FOLDER=self.folder, FILE_SHIM_LOG=self.log,
                     FILE_SHIM_LATE="0.1")
        self.expect(result, expected)
        with open(self.log + ".1") as file:
            late = [line.split(" ", 1)[1].strip() for line in file if line.startswith("late ")]
        os.remove(self.log + ".1")
        return "\n".join(name.removeprefix(self.folder) for name in late)

    def train(self, *flags):
        return self.run_late("train", "--model_name_or_path", MODEL, "--dataset_name", self.data, "--use_cpu", "--bf16", "false",
                             "--data_cache_dir", os.path.join(self.folder, "cache"), "--output_dir", self.out, "--profile", "fsdp2",
                             "--per_device_train_batch_size", "2", "--logging_steps", "1", "--save_steps", "2", *flags)

    def test_a_run(self):
        late = self.train("--max_length", "16", "--max_steps", "3", "--activation_offloading")
        self.assertEqual([line["step"] for line in read_steps(self.out)], [1, 2, 3])
        for name in ("/cache/tokens-", "/result", "/unpacked-2", "/cache/rows-", "/out\n", "/checkpoint-2.tmp-1/state.h5",
                     "/model.safetensors.tmp-"):
            self.assertIn(name, late + "\n")

        self.out += "-of-nodes"
        sharded = ("--max_length", "8", "--fsdp_state_dict_type", "SHARDED_STATE_DICT")
        late = self.train(*sharded, "--max_steps", "2", "--lr_scheduler_type", "constant")
        # Tokens are known, rows are new: nothing in between lists the folder.
        self.assertIn("/cache/rows-", late)
        self.assertIn("/checkpoint-2.tmp-1/state-00001-of-00001.h5", late)
        late = self.train(*sharded, "--max_steps", "3", "--lr_scheduler_type", "constant")
        self.assertIn("/checkpoint-2/state-00001-of-00001.h5", late)
        self.assertEqual([line["step"] for line in read_steps(self.out)], [1, 2, 3])

        late = self.run_late("export", os.path.join(self.out, "checkpoint-2"), "--output_dir", os.path.join(self.folder, "model"))
        self.assertIn("/model/model.safetensors.tmp-", late)

    def test_mpi_io(self):
        late = self.train("--max_length", "16", "--max_steps", "2", "--hdf5_io", "mpio")
        self.assertIn("/checkpoint-2.tmp-1/state.h5", late)


if __name__ == "__main__":
    unittest.main()
