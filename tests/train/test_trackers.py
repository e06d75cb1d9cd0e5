"""The files of trackers as the trackers' own packages read them: every number of metrics.jsonl, once, over all restarts."""

import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import PATIENCE, TRAINER, TrainerTest, clean_environment, read_metrics, run  # noqa: E402

import unittest  # noqa: E402

os.environ.update(MLFLOW_ALLOW_FILE_STORE="true", WANDB_MODE="offline", HF_HUB_OFFLINE="1", TRACKIO_DIR=tempfile.mkdtemp())
try:
    from mlflow import MlflowClient
    from transformers.integrations.integration_utils import rewrite_logs
    from wandb.proto import wandb_internal_pb2
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

DATA = os.path.join(FOLDER, "..", "parity", "data")
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--bf16", "false", "--logging_steps", "1",
          "--dataset_name", os.path.join(DATA, "rows", "chat.jsonl"), "--eval_dataset_name", os.path.join(DATA, "rows", "chat.eval.jsonl"),
          "--eval_strategy", "steps", "--eval_steps", "3", "--max_steps", "9", "--save_steps", "3",
          "--report_to", "wandb,mlflow,trackio", "--run_name", "a run"]
OURS = ("time", "attempt")


def records(file):
    """The records of a log in LevelDB's format, with W&B's head."""
    with open(file, "rb") as opened:
        content = opened.read()
    assert content[:7] == b":W&B\xe1\xbe\x00"
    place, record = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        crc, length, kind = struct.unpack("<IHB", content[place:place + 7])
        part = content[place + 7:place + 7 + length]
        assert crc == zlib.crc32(part, zlib.crc32(bytes([kind])))
        place += 7 + length
        record += part
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


class Trackers(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = os.path.join(self.folder.name, "run")

    def train(self, *flags, **variables):
        return run("train", "--output_dir", self.output, *COMMON, *flags, **variables)

    def numbers(self):
        """[(step, time, {name: number})] of metrics.jsonl."""
        return [(line["step"], line["time"], {name: value for name, value in line.items()
                                              if name not in ("step", *OURS) and isinstance(value, (int, float))})
                for line in read_metrics(self.output)]

    def read_wandb(self):
        files = glob.glob(os.path.join(self.output, "wandb", "offline-run-*", "run-*.wandb"))
        self.assertEqual(len(files), 1, "all attempts are one run")
        read = list(records(files[0]))
        self.assertEqual([record.num for record in read], list(range(1, len(read) + 1)))
        head = next(record.run for record in read if record.HasField("run"))
        self.assertEqual((head.project, head.display_name), ("huggingface", "a run"))
        self.assertEqual(os.path.basename(files[0]), f"run-{head.run_id}.wandb")
        config = {item.key: json.loads(item.value_json) for item in head.config.update}
        self.assertEqual((config["max_steps"], config["run_name"], config["save_steps"]), (9, "a run", 3))
        lines = []
        for record in read:
            if record.HasField("history"):
                items = {item.key: json.loads(item.value_json) for item in record.history.item}
                self.assertEqual(items.pop("_step"), len(lines))
                items.pop("_runtime")
                lines.append((items.pop("train/global_step"), items.pop("_timestamp"), items))
        return lines, read

    def read_mlflow(self):
        client = MlflowClient(f"file://{self.output}/mlruns")
        found = [run for experiment in client.search_experiments() if experiment.name == "huggingface"
                 for run in client.search_runs([experiment.experiment_id])]
        self.assertEqual([run.info.run_name for run in found], ["a run"])
        self.assertEqual(found[0].data.params["max_steps"], "9")
        return {name: [(point.step, point.timestamp, point.value) for point in client.get_metric_history(found[0].info.run_id, name)]
                for name in found[0].data.metrics}, found[0]

    def read_trackio(self):
        """In a process of its own, since Trackio looks for its folder when it is imported."""
        script = ("import json; from trackio.sqlite_storage import SQLiteStorage as s; "
                  "print(json.dumps([s.get_runs('huggingface'), s.get_logs('huggingface', 'a run'), s.get_run_config('huggingface', 'a run')]))")
        result = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, TRACKIO_DIR=os.path.join(self.output, "trackio")),
                                capture_output=True, text=True, check=True)
        return json.loads(result.stdout.splitlines()[-1])

    def check_all(self):
        lines = self.numbers()
        self.assertGreater(len(lines), 9)
        wandb_lines, _ = self.read_wandb()
        self.assertEqual(wandb_lines, [(step, time, rewrite_logs(values)) for step, time, values in lines])
        wanted = {}
        for step, time, values in lines:
            for name, value in values.items():
                wanted.setdefault(name, []).append((step, int(time * 1e3), value))
        self.assertEqual(self.read_mlflow()[0], wanted)
        runs, logs, config = self.read_trackio()
        self.assertEqual(runs, ["a run"])
        self.assertEqual(config["max_steps"], 9)
        self.assertEqual([(log.pop("step"), {name: value for name, value in log.items() if name != "timestamp"}) for log in logs],
                         [(step, rewrite_logs(values)) for step, _, values in lines])

    def test_three_restarts_are_one_run(self):
        self.assertNotEqual(self.train(RINGSHARD_FAULT="step:2:kill").returncode, 0)  # before the first checkpoint
        for fault in ("step:5:kill", "step:4:kill"):
            self.assertNotEqual(self.train(RINGSHARD_FAULT=fault).returncode, 0)
        result = self.train()
        self.expect(result, 0, "done: step 9")
        for command in ("wandb sync ", "mlflow ui --backend-store-uri ", "trackio show --project huggingface"):
            self.assertIn(command, result.stderr)
        self.check_all()
        exits = [record.exit for record in self.read_wandb()[1] if record.HasField("exit")]
        self.assertEqual([record.exit_code for record in exits], [0])
        self.assertEqual(self.read_mlflow()[1].info.status, "FINISHED")

    def test_a_run_that_begins_anew_is_another_one(self):
        self.expect(self.train("--project", "mine", "--report_to", "wandb"), 0, "done")
        self.expect(self.train("--project", "mine", "--report_to", "wandb", "--resume_from_checkpoint", "never"), 0, "done")
        heads = [record.run for file in glob.glob(os.path.join(self.output, "wandb", "*", "*.wandb"))
                 for record in records(file) if record.HasField("run")]
        self.assertEqual([head.project for head in heads], ["mine", "mine"])
        self.assertEqual(len({head.run_id for head in heads}), 2)

    def test_folders_that_cannot_be_written_harm_no_training(self):
        os.makedirs(self.output)
        for name in ("wandb", "mlruns", "trackio"):
            with open(os.path.join(self.output, name), "w"):
                pass
        result = self.train()
        self.expect(result, 0, "done: step 9")
        for name in ("wandb", "mlflow", "trackio"):
            self.assertIn(f"nothing more is written for {name} in this attempt, and metrics.jsonl has all of it", result.stderr)
        for name in ("wandb", "mlruns", "trackio"):
            os.remove(os.path.join(self.output, name))
        self.assertEqual(len(self.numbers()), 9 + 3 + 3 + 1)

    def train_on_small_disks(self, size):
        """Trains with a file system of its own, of that size, for each tracker."""
        folders = [os.path.join(self.output, name) for name in ("wandb", "mlruns", "trackio", "tensorboard")]
        for folder in folders:
            os.makedirs(folder)
        mounts = " && ".join(f"mount -t tmpfs -o size={size} none {folder}" for folder in folders)
        command = [TRAINER, "train", "--output_dir", self.output, *COMMON, "--report_to", "all"]
        return subprocess.run(["unshare", "-m", "sh", "-c", mounts + ' && exec "$@"', "sh", *command], capture_output=True, text=True,
                              timeout=120 * PATIENCE, env=clean_environment(OMPI_MCA_ess_singleton_isolated="1"))

    def test_full_disks_harm_no_training(self):
        probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", self.folder.name], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest(f"no mounts in a namespace of its own here: {probe.stderr.strip()}")
        losses = None
        for size in ("4k", "16k", "64k"):
            with self.subTest(size):
                shutil.rmtree(self.output, ignore_errors=True)
                result = self.train_on_small_disks(size)
                self.expect(result, 0, "done: step 9")
                self.assertEqual(len(self.numbers()), 9 + 3 + 3 + 1)
                loss = [line["loss"] for line in read_metrics(self.output) if "loss" in line]
                self.assertEqual(loss, losses or loss)
                losses = loss
                if size == "4k":
                    for name in ("wandb", "mlflow", "trackio"):
                        self.assertIn(f"nothing more is written for {name} in this attempt, and metrics.jsonl has all of it", result.stderr)

    def test_a_lost_folder_comes_back_with_the_next_start(self):
        self.assertNotEqual(self.train("--report_to", "none", RINGSHARD_FAULT="step:8:kill").returncode, 0)
        self.expect(self.train(), 0, "done: step 9")
        self.check_all()


if __name__ == "__main__":
    unittest.main()
