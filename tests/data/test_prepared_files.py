"""The files that `trainer prepare` leaves: found again, of killed runs, altered, cut."""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import time
import unittest

from preparing import DATA, MODEL, PrepareTest
from trainer import TRAINER, clean_environment, run

CHAT = DATA / "text" / "data"


def places_of_arrays(file):
    """Offset and size of each array of a file of prepared data."""
    content = file.read_bytes()
    at, = struct.unpack_from("Q", content, 8)

    def number():
        nonlocal at
        at += 8
        return struct.unpack_from("Q", content, at - 8)[0]

    def text():
        nonlocal at
        length = number()
        at += length
        return content[at - length:at].decode()

    text(), number(), number(), number()
    return {text(): (number(), number())[::-1] for _ in range(number())}


class PreparedFiles(PrepareTest):
    def test_the_second_run_finds_the_rows(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"), "--packing", "--max_length", "64")
        self.expect(self.prepare(*flags), 0, "filled to", stream="stdout")
        cache = self.folder / "cache"
        before = {file.name: file.stat().st_mtime_ns for file in cache.iterdir()}
        self.expect(self.prepare(*flags), 0)
        self.assertEqual({file.name: file.stat().st_mtime_ns for file in cache.iterdir()}, before)
        # Other rows of the same tokens.
        self.expect(self.prepare(*flags, "--packing_scope", "global"), 0)
        self.assertEqual(len([file for file in cache.iterdir() if file.name.startswith("tokens-") and "." not in file.name]), 1)

    def test_a_killed_run_leaves_nothing_half_valid(self):
        rows = self.write("many.jsonl", [{"text": f"row {i} " * 200} for i in range(20000)])
        command = [TRAINER, "prepare", "--model_name_or_path", str(MODEL), "--dataset_name", rows,
                   "--data_cache_dir", str(self.folder / "cache"), "--num_threads", "1"]
        for seconds in (0.4, 0.8, 1.2):
            process = subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(seconds)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        prepared = self.prepare("--dataset_name", rows)
        self.assertEqual(len(self.rows(prepared)), 20000)
        self.assertFalse([file for file in (self.folder / "cache").iterdir() if "making" in file.name])

    def test_what_dead_makers_left_is_removed_though_the_file_is_there(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"))
        self.expect(self.prepare(*flags), 0)
        cache = self.folder / "cache"
        tokens = next(file for file in cache.iterdir() if file.name.startswith("tokens-") and file.suffix != ".lock")
        here = socket.gethostname()
        dead = [cache / f"{tokens.name}.making-{here}-abcdef", cache / "rows-of-data-that-is-gone.making-elsewhere-abcdef"]
        living = [cache / f"tokens-of-another-run.making-{here}-abcdef", cache / "rows-of-data-that-is-gone.making-elsewhere-ghijkl"]
        for folder in (*dead, *living):
            folder.mkdir()
            (folder / "result").write_text("half")
        for path in (dead[1] / "result", dead[1]):
            os.utime(path, (time.time() - 4000,) * 2)
        with open(cache / "tokens-of-another-run.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.expect(self.prepare(*flags), 0)
        self.assertEqual([folder for folder in dead if folder.exists()], [])
        for folder in living:
            self.assertEqual((folder / "result").read_text(), "half")

    def test_altered_data_are_refused_and_made_again(self):
        rows = self.write("rows.jsonl", [{"input_ids": [i % 300, 1, 2], "labels": [7, 8, 9]} for i in range(4000)])
        cache = self.folder / "cache"
        flags = ("--dataset_name", rows, "--model_name_or_path", str(MODEL), "--data_cache_dir", str(cache), "--max_length", "16",
                 "--output_dir", str(self.folder / "run"), "--max_steps", "1", "--use_cpu", "--report_to", "none")

        def made(name):
            return next(file for file in cache.iterdir() if file.name.startswith(name) and file.suffix != ".lock")

        for name, array, place, content in (
            ("tokens-", "tokens", 8192, bytes(4096)),  # an extent that was lost
            ("tokens-", "tokens", 4000, struct.pack("i", 200_000_000)),
            ("tokens-", "labels", 8000, struct.pack("i", 700)),
            ("rows-", "pieces", 16, struct.pack("Q", 1 << 40)),
        ):
            with self.subTest(array=array, content=len(content)):
                self.expect(run("train", *flags, "--dry_run", ranks=2), 0)
                file = made(name)
                offset, size = places_of_arrays(file)[array]
                with open(file, "r+b") as opened:
                    opened.seek(offset + place)
                    self.assertNotEqual(opened.read(len(content)), content)
                    opened.seek(offset + place)
                    opened.write(content)
                chunk = min(size, 1 << 20)
                self.expect_one_message(run("train", *flags, ranks=2), 65,
                                        f"{file}: the {chunk} bytes from byte {offset} on are not those that were written: "
                                        "the file is damaged; remove it, and it is made again")
                self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())
                file.unlink()
        self.expect(run("train", *flags), 0)

    def test_a_cut_store_is_made_again(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"))
        self.expect(self.prepare(*flags), 0)
        for file in (self.folder / "cache").iterdir():
            if not file.name.endswith(".lock"):
                os.truncate(file, file.stat().st_size - 1)
        self.assertEqual(len(self.rows(self.prepare(*flags))), 44)


if __name__ == "__main__":
    unittest.main()
