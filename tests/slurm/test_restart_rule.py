"""How often slurm/job.sh has SLURM start a failing job again: the script alone, with a scontrol that only notes what it is asked."""

import os
import subprocess
import tempfile
import unittest

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRAINER = r'''#!/bin/bash
printf '{\n  "output_dir": {\n    "value": "%s",\n  }\n}\n' "$(printf %s "$OUT" | sed 's/["\\]/\\&/g')"
'''
SCONTROL = '''#!/bin/bash
case $1 in
    show) echo "JobId=$SLURM_JOB_ID JobState=RUNNING Restarts=0 RunTime=00:00:10 TimeLimit=01:00:00" ;;
    requeue) echo "$2" >>"$OUT/requeued"; exit 1 ;;
esac
'''


class RestartRule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.out = os.path.join(self.root, "out")
        os.makedirs(self.out)
        os.symlink(os.path.join(REPOSITORY, "slurm"), os.path.join(self.root, "slurm"))
        for name, text in (("trainer", TRAINER), ("scontrol", SCONTROL)):
            path = os.path.join(self.root, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)

    def attempt(self, code, saves=False, job="7", **variables):
        """One run of a batch script whose trainer ends with this code; True if SLURM was asked for another."""
        save = 'echo checkpoint-4 >"$OUT/latest.new"; mv "$OUT/latest.new" "$OUT/latest"' if saves else ":"
        before = self.requeued()
        result = subprocess.run(
            ["bash", "-c", f'. slurm/job.sh; begin_attempt; {save}; (exit {code}) & wait_for $!; end_attempt $?'],
            cwd=self.root, capture_output=True, text=True,
            env={"PATH": self.root + ":" + os.environ["PATH"], "OUT": self.out, "RINGSHARD_ROOT": self.root, "SLURM_JOB_ID": job,
                 "SLURM_CPUS_ON_NODE": "1", "SLURM_JOB_NUM_NODES": "1", **variables})
        self.assertEqual(result.returncode, code, result.stderr)
        self.said = result.stderr
        return len(self.requeued()) > len(before)

    def requeued(self):
        try:
            with open(os.path.join(self.out, "requeued")) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def test_an_output_folder_with_characters_that_json_escapes(self):
        self.out = os.path.join(self.root, 'a "quoted" \\back\\\\slash')
        os.makedirs(self.out)
        with open(os.path.join(self.out, "latest"), "w") as file:
            file.write("checkpoint-4")
        self.attempt(0)
        self.assertIn(f"in {self.out}, after checkpoint-4", self.said)

    def test_three_restarts_without_a_checkpoint(self):
        for _ in range(3):
            self.assertTrue(self.attempt(137), self.said)
        self.assertFalse(self.attempt(77), self.said)
        self.assertIn("ended with 77, after 3 restarts without a new checkpoint (MAX_RESTARTS_WITHOUT_PROGRESS): not started again",
                      self.said)
        self.assertTrue(self.attempt(77, job="8"), self.said)  # counts for itself
        self.assertEqual(self.requeued(), ["7"] * 3 + ["8"])

    def test_a_checkpoint_begins_the_count_anew(self):
        for saves in (False, False, True, False, False):
            self.assertTrue(self.attempt(137, saves), self.said)
        self.assertFalse(self.attempt(137), self.said)
        self.assertTrue(self.attempt(137, saves=True), self.said)

    def test_the_limits_are_settings(self):
        self.assertFalse(self.attempt(137, MAX_RESTARTS_WITHOUT_PROGRESS="0"), self.said)
        self.assertTrue(self.attempt(137, saves=True, MAX_RESTARTS="1"), self.said)
        self.assertFalse(self.attempt(137, saves=True, MAX_RESTARTS="1"), self.said)
        self.assertIn("after 1 restarts (MAX_RESTARTS): not started again", self.said)

    def test_what_a_restart_would_meet_again_ends_the_run(self):
        for code in (0, 65, 74, 78, 79):
            self.assertFalse(self.attempt(code, saves=True), self.said)


if __name__ == "__main__":
    unittest.main()
