"""Event files as TensorBoard itself reads them."""

import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from transformers.integrations.integration_utils import rewrite_logs
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

TOOL = os.environ["TENSORBOARD_TOOL"]


def write(folder, steps, first_step=1):
    """steps: (step, time, {key: value})."""
    lines = [f"{step} {time!r} " + " ".join(f"{key}={value!r}" for key, value in values.items())
             for step, time, values in steps]
    return subprocess.run([TOOL, folder, str(first_step)], input="\n".join(lines), capture_output=True, text=True)


def as_fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class TensorBoard(unittest.TestCase):
    def read(self, folder):
        events = EventAccumulator(folder, size_guidance={"scalars": 0}, purge_orphaned_data=True)
        events.Reload()
        return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}

    def test_values_steps_and_tags(self):
        steps = [(step, 1700000000.5 + step, {"loss": 2.5 / step, "grad_norm": 1e-3 * step, "learning_rate": 2e-5,
                                              "tokens_per_second": 123456.7 * step, "peak_memory_bytes": 12345678901})
                 for step in (1, 2, 127, 128, 300, 2**31 + 5)]
        steps.append((301, 1700000500.0, {"eval_loss": 1.25, "test_loss": 0.5, "eval_x_loss": float("nan"),
                                          "evaluated": -3.0, "train_loss": float("inf")}))
        steps.append((302, 1700000501.0, {}))
        with tempfile.TemporaryDirectory() as folder:
            result = write(os.path.join(folder, "deep", "er"), steps)
            self.assertEqual(result.returncode, 0, result.stderr)
            path = result.stdout.strip()
            self.assertRegex(os.path.basename(path), r"^events\.out\.tfevents\.1700000000\.a-host\.\d+$")
            read = self.read(os.path.dirname(path))
            wanted = {}
            for step, time, values in steps:
                for tag, value in rewrite_logs(values).items():
                    wanted.setdefault(tag, []).append((step, time, as_fp32(value)))
            self.assertEqual(set(read), set(wanted))
            for tag, points in wanted.items():
                self.assertEqual([(p.step, p.wall_time) for p in read[tag]], [(s, t) for s, t, _ in points], tag)
                for found, (_, _, value) in zip(read[tag], points):
                    self.assertTrue(found.value == value or math.isnan(found.value) and math.isnan(value), tag)
            # Every record was read: the sums of all of them are right.
            self.assertEqual(sum(1 for _ in RawEventFileLoader(path).Load()), len(steps) + 2)

    def test_steps_that_are_done_again_replace_the_old_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            first = write(folder, [(step, 1700000000.0 + step, {"loss": 1.0}) for step in range(1, 9)])
            os.rename(first.stdout.strip(), os.path.join(folder, "events.out.tfevents.1600000000.a-host.1"))
            write(folder, [(step, 1700001000.0 + step, {"loss": 2.0}) for step in range(6, 11)], first_step=6)
            points = self.read(folder)["train/loss"]
            self.assertEqual([(p.step, p.value) for p in points],
                             [(step, 1.0) for step in range(1, 6)] + [(step, 2.0) for step in range(6, 11)])

    def test_a_folder_that_cannot_be_made(self):
        result = write("/proc/no/folder", [])
        self.assertEqual(result.returncode, 74)
        self.assertIn("/proc/no/folder cannot be made", result.stderr)


if __name__ == "__main__":
    unittest.main()
