"""Sweeps without SLURM: which runs there are, what is submitted, how they stand, which is the best."""

import json
import os
import stat
import tempfile
import time
import unittest

from trainer import TrainerTest, run

FOLDER = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(FOLDER, "..", "parity", "data")
SETTINGS = {"model_name_or_path": os.path.join(DATA, "models", "qwen2-tiny"),
            "dataset_name": os.path.join(DATA, "rows", "pretokenized.jsonl"), "bf16": False, "max_steps": 3,
            "max_length": 48, "logging_steps": 1, "save_strategy": "no"}


class Sweep(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.runs = os.path.join(self.folder, "runs", "rates")

    def write(self, **content):
        path = os.path.join(self.folder, "rates.yaml")
        with open(path, "w") as file:
            json.dump({"settings": SETTINGS} | content, file)
        return path

    def sweep(self, *words, **variables):
        return run("sweep", *words, cwd=self.folder, **variables)

    def submit(self, file, *words, **variables):
        result = self.sweep("submit", file, *words, **variables)
        self.expect(result, 0)
        return result.stdout.strip()

    def states(self, **variables):
        result = self.sweep("status", self.runs, "--json", **variables)
        self.expect(result, 0)
        return {line["index"]: line for line in json.loads(result.stdout)}

    def train(self, index):
        self.expect(run("--config", os.path.join(self.runs, str(index), "settings.yaml"), cwd=self.folder), 0)

    def test_from_a_file_to_the_best_run(self):
        file = self.write(grid={"learning_rate": [1e-4, 1e-2], "seed": [1, 2]})
        self.expect(self.sweep("expand", file), 0, "0  learning_rate=0.0001 seed=1\n", "3  learning_rate=0.01 seed=2\n",
                    stream="stdout")
        one = self.sweep("expand", file, "--index", "2").stdout
        self.assertIn("learning_rate: 0.01\nseed: 1\noutput_dir: \"runs/rates/2\"\n", one)
        self.assertFalse(os.path.exists(self.runs))  # to look is not to begin

        self.assertEqual(self.submit(file, "--at_a_time", "2", "--", "--time", "1:00:00"),
                         "sbatch --parsable --time 1:00:00 --array=0-3%2 slurm/sweep.sh runs/rates")
        with open(os.path.join(self.runs, "2", "settings.yaml")) as written:
            self.assertEqual(written.read(), one)
        self.assertEqual({line["state"] for line in self.states().values()}, {"missing"})
        self.expect(self.sweep("submit", file), 0, "nothing is submitted: give --run, or run the line above")
        self.expect(self.sweep("status", self.runs), 0, "no job was submitted from here: `trainer sweep submit FILE --run`")

        self.train(0)
        self.train(2)
        states = self.states()
        self.assertEqual([states[i]["state"] for i in range(4)], ["complete", "missing", "complete", "missing"])
        self.assertEqual((states[2]["step"], states[2]["num_steps"], states[2]["seconds_left"]), (3, 3, 0))
        self.assertIn("--array=1,3 ", self.submit(file))  # complete ones are not repeated
        self.expect(self.sweep("status", self.runs), 0, "    0  complete              3/3", stream="stdout")
        best = json.loads(self.sweep("best", self.runs, "--metric", "loss", "--json").stdout)
        self.assertEqual(best["run"], os.path.join(self.runs, "2"))  # the higher rate learns faster
        worst = json.loads(self.sweep("best", self.runs, "--metric", "loss", "--greater_is_better", "--json").stdout)
        self.assertGreater(worst["value"], best["value"])

    def test_one_job(self):
        """The runs are adapters of one job, each with metrics of its own."""
        job = {"use_peft": True, "lora_r": 4}
        file = self.write(one_job=True, settings=SETTINGS | job, grid={"learning_rate": [1e-4, 1e-2], "lora_target_modules": ["q_proj,v_proj", "all-linear"]})
        self.expect(self.sweep("expand", file), 0, "0  one job of 4 adapters: learning_rate=0.0001 lora_target_modules=q_proj,v_proj; ",
                    stream="stdout")
        self.assertIn("--array=0 ", self.submit(file))
        self.train(0)
        self.assertEqual([line["state"] for line in self.states().values()], ["complete"])
        best = json.loads(self.sweep("best", self.runs, "--metric", "loss", "--json").stdout)
        self.assertEqual(best["run"], os.path.join(self.runs, "0", "3"))
        for number in range(4):
            self.assertTrue(os.path.exists(os.path.join(self.runs, "0", str(number), "adapter_model.safetensors")))
        # The same file names the adapters of a run.
        self.write(one_job=True, settings={"learning_rate": 1e-3}, list=[{"lora_r": 2}, {"name": "wide", "lora_r": 8}])
        given = [word for key, value in SETTINGS.items() for word in ("--" + key, str(value))]
        output = os.path.join(self.folder, "out")
        self.expect(run("train", *given, "--adapters", file, "--output_dir", output), 0)
        self.assertTrue(os.path.exists(os.path.join(output, "wide", "adapter_model.safetensors")))
        for content, words in (({"one_job": "perhaps", "list": [{}]}, ("one_job: must be true or false",)),
                               ({"one_job": True, "list": [{"max_length": 64}]}, ("max_length = 64", "adapters that train together share it")),
                               ({"one_job": True, "list": [{"output_dir": "here"}]}, ("output_dir = here",))):
            self.expect_one_message(self.sweep("expand", self.write(**content)), 78, *words)

    def set_age(self, path, seconds):
        then = time.time() - seconds
        os.utime(path, (then, then))

    def test_every_state(self):
        file = self.write(list=[{"seed": seed} for seed in range(7)])
        self.submit(file)

        def touch(index, name, content="", age=0):
            path = os.path.join(self.runs, str(index), name)
            with open(path, "w") as made:
                made.write(content)
            self.set_age(path, age)
        self.train(0)
        touch(0, "exit-code", "0\n")
        touch(1, "alive")
        touch(2, "alive", age=120)
        touch(3, "exit-code", "75\n")
        touch(4, "exit-code", "137\n")
        touch(5, "alive", age=120)
        step = {"step": 2, "loss": 2.5, "tokens_per_second": 100.0, "step_time_s": 2.0, "attempt": 1}
        touch(5, "metrics.jsonl", json.dumps(step) + "\n" + '{"step": 3, "lo')
        touch(5, "run.json", '{"num_steps": 10}')
        states = self.states()
        self.assertEqual([states[i]["state"] for i in range(7)],
                         ["complete", "running", "lost", "stopped", "failed", "running", "missing"])
        self.assertEqual(states[4]["exit_code"], 137)
        self.assertEqual((states[5]["step"], states[5]["loss"], states[5]["seconds_left"]), (2, 2.5, 16))
        self.assertIn("--array=2-4,6 ", self.submit(file))
        self.set_age(os.path.join(self.runs, "5", "metrics.jsonl"), 120)
        self.assertEqual(self.states()[5]["state"], "lost")

    def fake(self, name, lines):
        path = os.path.join(self.folder, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("#!/bin/bash\n" + lines + "\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IEXEC)
        return os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]

    def test_what_waits_in_the_queue_is_not_submitted_again(self):
        file = self.write(list=[{"seed": seed} for seed in range(4)])
        self.fake("squeue", "echo 1; echo 3")
        path = self.fake("sbatch", f"echo \"$@\" >>{self.folder}/asked; echo '17;here'")
        self.assertTrue(self.submit(file, "--run", PATH=path).endswith("job 17"))
        self.assertIn("--array=0,2 ", self.submit(file, PATH=path))
        self.assertEqual([self.states(PATH=path)[i]["state"] for i in range(4)], ["missing", "waiting"] * 2)
        with open(os.path.join(self.folder, "asked")) as asked:
            self.assertEqual(asked.read(), "--parsable --array=0-3 slurm/sweep.sh runs/rates\n")
        installed = self.submit(file, PATH=path, RINGSHARD_ROOT="/opt/ringshard/share")
        self.assertIn(" /opt/ringshard/share/slurm/sweep.sh ", installed)
        changed = self.write(list=[{"seed": seed} for seed in (0, 10, 2, 3)])
        self.expect_one_message(self.sweep("submit", changed, PATH=path), 78, "waits in the queue with other settings")
        self.write(list=[{"seed": seed} for seed in range(4)])
        self.fake("sbatch", "echo 'no partition' >&2; exit 1")
        self.expect(self.sweep("submit", file, "--run", PATH=path), 74, "no partition", "sbatch refused the job")

    def test_a_run_that_has_begun_keeps_its_settings(self):
        file = self.write(list=[{"seed": 1}, {"seed": 2}])
        self.submit(file)
        self.train(0)
        self.submit(self.write(list=[{"seed": 1}, {"seed": 3}]))  # had not begun
        changed = self.write(list=[{"seed": 1}, {"seed": 4}, {"seed": 5}])
        self.train(1)
        self.expect_one_message(self.sweep("submit", changed), 78, "has begun with other settings")
        self.assertFalse(os.path.exists(os.path.join(self.runs, "2")))  # nothing was written

    def test_refused_before_anything_is_submitted(self):
        path = self.fake("sbatch", f"touch {self.folder}/submitted")
        for words, content in ((["run 1", "learning_rat", "did you mean learning_rate?"],
                                {"list": [{"seed": 1}, {"learning_rat": 1}]}),
                               (["run 0", "seed = x"], {"grid": {"seed": ["x", 1]}}),
                               (["seed: has no value"], {"grid": {"seed": []}}),
                               (["output_dir = x", "leave it out"], {"list": [{"output_dir": "x"}]})):
            with self.subTest(words):
                self.expect_one_message(self.sweep("submit", self.write(**content), "--run", PATH=path), 78, *words)
        self.assertEqual([os.path.exists(os.path.join(self.folder, name)) for name in ("submitted", "runs")], [False] * 2)
        file = self.write(list=[{"seed": 1}])
        self.expect_one_message(self.sweep("expand", file, "--index", "1"), 78, "has the runs 0 to 0")
        self.expect_one_message(self.sweep("expand", "missing.yaml"), 66, "missing.yaml")
        self.expect_one_message(self.sweep("status", "missing"), 66, "missing")
        self.expect_one_message(self.sweep("status", self.folder), 65, "is not the folder of a sweep")
        self.expect_one_message(self.sweep("best", self.runs), 64, "--metric")
        self.expect_one_message(self.sweep("expand"), 64, "trainer sweep expand FILE")
        self.expect_one_message(self.sweep("shrink", file), 64, "there is no sweep shrink")


if __name__ == "__main__":
    unittest.main()
