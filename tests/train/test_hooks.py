"""Commands that run beside training: what they get, and that one that fails, hangs or is slow harms nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TRAINER, TrainerTest, clean_environment, read_metrics, run  # noqa: E402

import unittest  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
COMMON = ["--model_name_or_path", os.path.join(DATA, "models", "qwen2-tiny"), "--bf16", "false", "--logging_steps", "1",
          "--dataset_name", os.path.join(DATA, "rows", "chat.jsonl"), "--eval_dataset_name", os.path.join(DATA, "rows", "chat.eval.jsonl"),
          "--eval_strategy", "steps", "--eval_steps", "2", "--max_steps", "6", "--save_steps", "3"]


class Hooks(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = os.path.join(self.folder.name, "run")
        self.seen = os.path.join(self.folder.name, "seen")

    def train(self, *flags, **options):
        return run("train", "--output_dir", self.output, *COMMON, *flags, **options)

    def script(self, text):
        file = os.path.join(self.folder.name, "hook.sh")
        with open(file, "w") as opened:
            opened.write("#!/bin/sh\n" + text)
        os.chmod(file, 0o755)
        return file

    def objects(self):
        with open(self.seen) as file:
            return [json.loads(line) for line in file]

    def test_events_come_once_with_the_numbers_of_their_line(self):
        hook = self.script(f"cat >> {self.seen}; test -z \"$OMPI_COMM_WORLD_SIZE\" || exit 3\n")
        flags = [word for event in ("log", "save", "evaluate", "end") for word in (f"--on_{event}", hook)]
        result = self.train(*flags, ranks=2)
        self.expect(result, 0, "done: step 6")
        self.assertNotIn("warning: on_", result.stderr)
        lines = read_metrics(self.output)
        seen = self.objects()
        self.assertTrue(all(entry["output_dir"] == os.path.realpath(self.output) or entry["output_dir"] == self.output for entry in seen))
        by_event = {}
        for entry in seen:
            by_event.setdefault(entry.pop("event"), []).append({key: value for key, value in entry.items() if key != "output_dir"})
        def named(key):
            return [{name: value for name, value in line.items() if name not in ("attempt", "eval_samples")} for line in lines if key in line]
        self.assertEqual(by_event["evaluate"], named("eval_loss"))
        self.assertEqual(by_event["save"], named("save_step"))
        self.assertEqual(by_event["log"], named("loss"))
        self.assertEqual(by_event["end"], [{"step": 6, "exit_code": 0}])
        self.expect(self.train(*flags, ranks=2), 0, "this run is complete")
        self.assertEqual(len(self.objects()), len(seen), "a complete run has no events")

    def test_evaluations_of_sets_with_names(self):
        """Each line of a set is an evaluation, and no step."""
        rows = os.path.join(DATA, "rows", "chat.eval.jsonl")
        taken = os.path.join(self.folder.name, "taken")
        hook = f"cat >> {taken}"
        result = self.train("--eval_dataset_name", json.dumps({"easy": rows, "hard": rows}), "--max_steps", "2", "--on_evaluate", hook,
                            "--on_log", f"cat >> {taken}-steps")
        self.expect(result, 0)
        events = {name: [json.loads(line) for line in open(file)] for name, file in (("sets", taken), ("steps", taken + "-steps"))}
        self.assertEqual([name for event in events["sets"] for name in ("eval_easy_loss", "eval_hard_loss") if name in event],
                         ["eval_easy_loss", "eval_hard_loss"])
        self.assertEqual([event["step"] for event in events["steps"]], [1, 2])

    def test_one_that_fails_is_a_warning(self):
        result = self.train("--on_log", "exit 4", "--on_end", "kill -9 $$")
        self.expect(result, 0, "done: step 6")
        self.assertIn("warning: on_log = exit 4 ended with code 4; training is not affected", result.stderr)
        self.assertIn("warning: on_end = kill -9 $$ was ended by signal 9; training is not affected", result.stderr)

    def test_one_that_hangs_is_ended_with_its_children(self):
        pid = os.path.join(self.folder.name, "pid")
        hook = self.script(f"sleep 1000 &\necho $! > {pid}\nwait\n")
        begin = time.time()
        result = self.train("--on_end", hook, "--hook_timeout_s", "1")
        self.expect(result, 0, "done: step 6")
        self.assertIn("ran longer than hook_timeout_s = 1 and was ended; training is not affected", result.stderr)
        self.assertLess(time.time() - begin, 100)
        with open(pid) as file:
            child = int(file.read())
        self.assertFalse(os.path.exists(f"/proc/{child}") and "sleep" in open(f"/proc/{child}/cmdline").read())

    def test_a_run_that_is_stopped_runs_on_end(self):
        hook = self.script(f"cat >> {self.seen}\n")
        process = subprocess.Popen([TRAINER, "train", "--output_dir", self.output, *COMMON, "--max_steps", "100000", "--on_end", hook],
                                   env=clean_environment(), stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step 3/"):
                process.send_signal(signal.SIGTERM)
                break
        process.stderr.read()
        self.assertEqual(process.wait(), 75)
        self.assertEqual([entry["exit_code"] for entry in self.objects()], [75])

    def test_commands_that_cannot_be_started_are_refused(self):
        file = os.path.join(self.folder.name, "plain")
        with open(file, "w"):
            pass
        self.expect(self.train("--on_save", file), 78, f"on_save = {file} [command line]: {file} is not executable; run chmod +x on it")
        self.expect(self.train("--on_log", file + ".none"), 78, f"there is no file {file}.none")
        self.expect(self.train("--on_end", "nosuchprogram --now"), 78, "no program nosuchprogram is in PATH")
        self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
    unittest.main()
