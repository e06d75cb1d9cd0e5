"""What a rank asks of file systems and MPI does not grow with the number of ranks; and a run of eight ranks that is killed goes on."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "support" / "counting"))
import counting  # noqa: E402

TRAINER = pathlib.Path(os.environ["TRAINER"])
LIBRARY = pathlib.Path(os.environ["COUNTING_LIBRARY"])
MODEL = FOLDER.parent / "parity" / "data" / "models" / "qwen2-tiny"
SMALL, LARGE = 8, 16
STEPS = ("--max_steps", "4", "--save_steps", "2")

# Requests (open, stat, list, mkdir, rename, remove, flush) to a folder: of rank 0, and at most of any other rank. A start has its
# tokens in the cache; `rest` is 4 steps with 2 saves and the end of the run, `resume` a start from a checkpoint.
BOUNDS = {
    ("start", "output"): (60, 0), ("start", "model"): (30, 2), ("start", "cache"): (10, 4), ("start", "dataset"): (12, 0),
    ("rest", "output"): (420, 9), ("rest", "model"): (20, 0), ("rest", "cache"): (0, 0), ("rest", "dataset"): (0, 0),
    ("resume", "output"): (120, 2), ("resume", "model"): (30, 2), ("resume", "cache"): (10, 4), ("resume", "dataset"): (12, 0),
}
# Rank 0 looks every ten seconds whether a newer attempt has begun, so slow machines count some more.
BY_THE_CLOCK = 30
# What a rank receives through collectives for each rank more: a few numbers of each rank, and on rank 0 a line about its host.
BYTES_PER_RANK = {"start": (160, 64), "rest": (4096, 512), "resume": (4096, 512)}


def requests(counters, folder):
    return sum(counters.get(f"{folder} {op}", (0, 0))[0] for op in (*counting.LOOKS, *counting.CHANGES))


def calls(counters, names):
    return sum(counters.get(name, (0, 0))[0] for name in names)


def received(counters):
    return sum(counters.get(name, (0, 0))[1] for name in counting.COLLECTIVES)


def losses(output):
    lines = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: (line["attempt"], line["loss"]) for line in lines if "loss" in line}


class Scale(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.beds = {world: counting.Bed(world, pathlib.Path(cls.folder.name) / str(world), TRAINER, LIBRARY, MODEL, timeout=240)
                    for world in (SMALL, LARGE)}
        cls.phases = {world: cls.run_phases(bed) for world, bed in cls.beds.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_phases(cls, bed):
        bed.prepare()
        whole, start, _ = bed.whole_run(*STEPS, stalls=True)
        bed.losses = losses(bed.folder / "out")
        _, resume, _ = bed.whole_run("--max_steps", "5", "--save_strategy", "no", stalls=True)
        return {"start": start, "rest": counting.minus(whole, start), "resume": resume}

    def each(self):
        for phase in ("start", "rest", "resume"):
            yield phase, self.phases[SMALL][phase], self.phases[LARGE][phase]

    def test_every_rank_was_counted(self):
        for world, phases in self.phases.items():
            for phase, ranks in phases.items():
                self.assertEqual(sorted(ranks), list(range(world)), phase)
                self.assertTrue(all(calls(counters, counting.COLLECTIVES) > 0 for counters in ranks.values()), phase)
        self.assertGreater(requests(self.phases[SMALL]["start"][0], "output"), 10)
        self.assertGreater(requests(self.phases[SMALL]["rest"][1], "output"), 0)

    def test_requests_to_file_systems_stay_within_their_bounds(self):
        for (phase, folder), (of_root, of_other) in BOUNDS.items():
            for world, phases in self.phases.items():
                for rank, counters in phases[phase].items():
                    with self.subTest(phase=phase, folder=folder, world=world, rank=rank):
                        self.assertLessEqual(requests(counters, folder), of_root if rank == 0 else of_other)

    def test_requests_to_file_systems_do_not_grow_with_the_world(self):
        for phase, small, large in self.each():
            for folder in counting.FOLDERS:
                with self.subTest(phase=phase, folder=folder):
                    more = requests(large[0], folder) - requests(small[0], folder)
                    self.assertLessEqual(more, BY_THE_CLOCK if folder == "output" else 0)
                    self.assertLessEqual(max(requests(large[rank], folder) for rank in range(1, LARGE)),
                                         max(requests(small[rank], folder) for rank in range(1, SMALL)))

    def test_collectives_do_not_grow_with_the_world(self):
        for phase, small, large in self.each():
            with self.subTest(phase=phase):
                for names in (counting.COLLECTIVES, counting.COMMUNICATORS):
                    self.assertEqual(calls(large[1], names), calls(small[1], names))
                for rank, bound in enumerate(BYTES_PER_RANK[phase]):
                    self.assertLessEqual(received(large[rank]) - received(small[rank]), bound * (LARGE - SMALL), f"rank {rank}")

    def test_a_killed_run_goes_on_with_the_same_losses(self):
        bed = self.beds[SMALL]
        bed.clear("out")
        bed.whole_run(*STEPS, expect=137, RINGSHARD_FAULT=f"step:4:kill@{SMALL // 2}")
        bed.whole_run(*STEPS)
        after = losses(bed.folder / "out")
        self.assertEqual([attempt for attempt, _ in after.values()], [1, 1, 2, 2])
        self.assertEqual([loss for _, loss in after.values()], [loss for _, loss in bed.losses.values()])
        self.assertEqual((bed.folder / "out" / "latest").read_text().strip(), "checkpoint-4")


if __name__ == "__main__":
    unittest.main()
