"""The bundle in a job, as docs/slurm.md has it: sbcast brings it to every node's own disk (here /dev/shm), and nothing else
of this program is needed there."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from cluster import FOUR_RANKS, REPOSITORY, TINY, TRAINER, SlurmTest, read_steps

BUILD = pathlib.Path(TRAINER).resolve().parents[1]
TORCH = re.search(r"RINGSHARD_TORCH_DIR:PATH=(.*)", (BUILD / "CMakeCache.txt").read_text())[1]
SCRIPT = """\
#!/bin/bash
sbcast "$ARCHIVE" /dev/shm/ringshard.tar.gz || exit
srun --ntasks "$SLURM_JOB_NUM_NODES" --ntasks-per-node 1 tar xzf /dev/shm/ringshard.tar.gz -C /dev/shm || exit
srun --mpi=pmix /dev/shm/ringshard/bin/trainer "$@" || exit
/dev/shm/ringshard/bin/mpirun --allow-run-as-root -n 4 sh -c 'echo "started by $(readlink /proc/$PPID/exe)"'
/dev/shm/ringshard/bin/mpirun --allow-run-as-root -n 4 /dev/shm/ringshard/bin/trainer doctor
"""


class BundleJob(SlurmTest):
    def test_a_bundle_that_sbcast_brings(self):
        archive, out = self.cluster.path("ringshard.tar.gz"), self.cluster.path("bundle")
        subprocess.run([sys.executable, os.path.join(REPOSITORY, "scripts", "bundle"), BUILD, "-o", archive], check=True)
        script, log = self.cluster.path("bundle.sh"), self.cluster.path("bundle.log")
        with open(script, "w") as file:
            file.write(SCRIPT)
        self.cluster.run("sbatch", "--wait", "--nodes", "2", "--ntasks-per-node", "2", "--output", log, script, *TINY,
                         *FOUR_RANKS, "--max_steps", "2", "--output_dir", out, ARCHIVE=archive, RINGSHARD_TORCH_DIR=TORCH)
        with open(log) as file:
            story = file.read()
        self.assertEqual(len(read_steps(out)), 2, story)
        # Ranks of the first node are mpirun's own, those of the second its daemon's.
        for program in ("mpirun", "orted"):
            self.assertEqual(story.count(f"started by /dev/shm/ringshard/openmpi/bin/{program}\n"), 2, story)
        self.assertEqual(story.count("4 ranks on 2 hosts"), 2, story)
        self.assertIn("numbers exchanged by all groups: right", story)


if __name__ == "__main__":
    if shutil.which("patchelf") is None:
        print("skipped: patchelf is missing (scripts/setup installs it)")
        sys.exit(77)
    unittest.main()
