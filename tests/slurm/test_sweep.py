"""A sweep as a job array on a real SLURM: how its elements stand while some are killed and fail, and what is done again."""

import json
import os
import signal
import time
import unittest

from cluster import DATA, PATIENCE, SlurmTest, read_steps

SETTINGS = {"model_name_or_path": os.path.join(DATA, "models", "qwen2-tiny"),
            "dataset_name": os.path.join(DATA, "rows", "pretokenized.jsonl"), "bf16": False, "max_steps": 6,
            "max_length": 48, "logging_steps": 1, "save_steps": 3, "save_total_limit": 1}
RUNS, WRONG, KILLED = 8, 6, 3  # three ranks to a sequence, where there is one; long enough to be met


class Sweep(SlurmTest):
    def sweep(self, *words):
        result = self.cluster.run("./trainer", "sweep", *words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def status(self):
        states = {line["index"]: line for line in json.loads(self.sweep("status", "runs/seeds", "--json"))}
        for index, line in states.items():
            folder = os.path.join(self.cluster.root, "runs", "seeds", str(index))
            if line["state"] == "complete":
                self.assertTrue(os.path.exists(os.path.join(folder, "model.safetensors")))
            if line["state"] == "failed":
                self.assertEqual((index, line["exit_code"]), (WRONG, 78))
        return states

    def wait_for(self, is_so, seconds):
        deadline = time.monotonic() + seconds * PATIENCE
        while not is_so(self.status()):
            self.assertLess(time.monotonic(), deadline, self.sweep("status", "runs/seeds"))
            time.sleep(0.5)

    def kill_element(self, job, index):
        """As when the node has no memory left: script and ranks end without a word."""
        wanted = {f"SLURM_ARRAY_JOB_ID={job}".encode(), f"SLURM_ARRAY_TASK_ID={index}".encode()}
        killed = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if wanted <= set(file.read().split(b"\0")):
                        os.kill(int(pid), signal.SIGKILL)
                        killed += 1
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass
        self.assertGreater(killed, 1)

    def test_an_array_with_holes(self):
        runs = [{"seed": seed} for seed in range(RUNS)]
        runs[WRONG]["sp_size"] = 3
        runs[KILLED] |= {"max_steps": 1000, "save_steps": 50}
        file = self.cluster.path("seeds.yaml")
        with open(file, "w") as written:
            json.dump({"settings": SETTINGS, "list": runs}, written)
        flags = ["--run", "--at_a_time", "2", "--", "--output", self.cluster.path("sweep-%a.log")]
        job = self.sweep("submit", file, *flags).split()[-1]
        self.assertIn("nothing to submit", self.cluster.run("./trainer", "sweep", "submit", file, *flags).stderr)

        self.wait_for(lambda states: (states[KILLED]["step"] or 0) > 100, 240)
        self.assertEqual(self.status()[KILLED]["state"], "running")
        self.assertEqual(self.status()[RUNS - 1]["state"], "waiting")
        self.kill_element(job, KILLED)
        self.wait_for(lambda states: {index for index, line in states.items() if line["state"] != "complete"} ==
                      {WRONG, KILLED} and states[KILLED]["state"] == "lost", 300)
        self.assertEqual(self.status()[WRONG]["state"], "failed")

        folder = os.path.join(self.cluster.root, "runs", "seeds")
        attempts = {index: sorted(os.listdir(os.path.join(folder, str(index)))) for index in range(RUNS)}
        line, *_ = self.sweep("submit", file, *flags).splitlines()
        self.assertIn(f"--array={KILLED},{WRONG}%2 ", line)
        self.wait_for(lambda states: states[KILLED]["state"] == "complete" and states[WRONG]["state"] == "failed", 480)
        self.assertEqual([step["step"] for step in read_steps(os.path.join(folder, str(KILLED)))], list(range(1, 1001)))
        for index in set(range(RUNS)) - {WRONG, KILLED}:  # nothing was done twice
            self.assertEqual(sorted(os.listdir(os.path.join(folder, str(index)))), attempts[index])
        best = json.loads(self.sweep("best", "runs/seeds", "--metric", "loss", "--json"))
        self.assertEqual(best["run"], f"runs/seeds/{KILLED}")


if __name__ == "__main__":
    unittest.main()
