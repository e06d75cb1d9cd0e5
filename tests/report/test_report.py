"""trainer report: a page about runs that is well formed, needs nothing beside it, holds their numbers, and fits a window."""

import json
import os
import re
import subprocess
import sys
import unittest

from pages import CHROMIUM, NASTY, ReportTest, TINY, record, setting, step_line
from trainer import run


class OneRun(ReportTest):
    def test_numbers(self):
        page = self.report(self.make_run("first", [step_line(step) for step in range(1, 11)]
                                         + [{"step": 10, "eval_loss": 0.4125}], record()))
        tiles = {tile.findall("span")[0].text: (tile.find("b").text, tile.findall("span")[1].text)
                 for tile in page.root.iter("div") if tile.get("class") == "tile"}
        self.assertEqual(tiles["Steps"], ("10", "of 12, epoch 1"))
        self.assertEqual(tiles["Loss"], ("0.3", "from 3; means of a line's steps"))
        self.assertEqual(tiles["Best eval_loss"], ("0.4125", "at step 10"))
        self.assertEqual(tiles["Tokens/s"], ("40005", "median of the lines, mfu 43.21%"))
        self.assertEqual(tiles["Peak memory"][0], "5.0 GiB")
        self.assertEqual(page.root.find(".//h1").text, "first")
        for key in ("loss", "learning_rate", "grad_norm", "tokens_per_second", "mfu", "peak_memory_bytes"):
            self.assertEqual([len(line) for line in page.lines(key)], [10], key)
        points = page.lines("loss")[0]
        fall = [points[-1][1] - y for _, y in points]
        self.assertAlmostEqual(fall[1] / fall[0], (3 / 2 - 3 / 10) / (3 - 3 / 10), places=2)
        for key in ("compute_s", "comm_wait_s", "data_wait_s"):
            self.assertEqual(len(page.lines(key)), 1, key)
        times = page.rows("Time of a step")
        self.assertEqual(times[0], ["Computing", "10.5 ms", "10.5 ms", "3 (100%)"])
        memory = dict(page.rows("Memory of a rank"))
        self.assertEqual((memory["Weights"], memory["Copy of a save"], memory["Whole process"]), ("256 MiB", "2.0 GiB", "5.0 GiB"))
        self.assertEqual([row[:3] for row in page.rows("Settings")][:3],
                         [["model_name_or_path", "models/tiny", "command line"], ["dataset_name", NASTY, "run.yaml:3"],
                          ["packing", "true", "profile zero3"]])  # the last one folded away, above the defaults
        self.assertIn(["learning_rate", "2e-05", "default"], page.rows("Settings"))

    def test_experts(self):
        """The busiest one and a dead one are named."""
        loads = {"expert_load_max_to_mean": 3.5, "expert_load_max_block": 2, "expert_load_max_expert": 17, "expert_load_min_to_mean": 0,
                 "expert_load_min_block": 1, "expert_load_min_expert": 5, "dead_experts": 4}
        page = self.report(self.make_run("experts", [step_line(1), {**step_line(2), **loads}], record()))
        for words in ("3.5", "of the mean: block 2, expert 17", "of the mean: block 1, expert 5; 4 without a token"):
            self.assertIn(words, page.text)

    def test_generated_texts(self):
        def evaluation(step, text):
            return {"step": step, "eval_loss": 0.5, "eval_samples": [
                {"prompt": NASTY, "text": text, "num_tokens": 7, "has_ended": step == 4},
                {"prompt": "The ", "text": "end\u0001\n", "num_tokens": 24, "has_ended": False}]}

        page = self.report(self.make_run("first", [step_line(1), evaluation(2, "before"), step_line(4), evaluation(4, NASTY)], record()))
        rows = page.rows("Generated texts")
        self.assertEqual(rows[0], [NASTY, NASTY, "7"])
        self.assertEqual([row[1] for row in rows[2:]], ["before ...", rows[1][1]])
        self.assertIn("After step 4.", page.text)

    def test_layout(self):
        page = self.report(self.make_run("first", [step_line(1)], record((2, 2, 2, 3), hosts=3)))
        picture = page.section("Layout")
        ranks = [cell for cell in picture.iter() if cell.get("title", "").startswith("rank ")]
        self.assertEqual([cell.text for cell in ranks], [str(rank) for rank in range(24)])
        self.assertEqual(ranks[8].get("title"), "rank 8: node1, cuda:0")
        tables = list(picture.iter("table"))
        self.assertEqual(len(tables), 4)  # a sequence each
        self.assertEqual([[len(row.findall("td")) for row in table.iter("tr")] for table in tables], [[3, 3]] * 4)
        self.assertIn("24 ranks on 3 hosts: 2 replicas of the model (dp_replicate_size), 2 shards (dp_shard_size), "
                      "rings of 2 (cp_size), Ulysses groups of 3 (sp_size).", page.text)
        large = self.report(self.make_run("large", [step_line(1)], record((4, 16, 16, 8), hosts=1024)))
        shown = [cell for cell in large.section("Layout").iter() if cell.get("title", "").startswith("rank ")]
        self.assertEqual(len(shown), 2 * 4 * 8 * 8)
        for words in ("8192 ranks on 1024 hosts", "and 2 replicas more", "and 12 shards more", "+8 rows"):
            self.assertIn(words, large.text)
        self.assertLess(len(large.source), 200_000)
        wrong = record((2, 2, 2, 2))
        wrong["ranks"].pop()
        self.assertIsNone(self.report(self.make_run("wrong", [step_line(1)], wrong)).section("Layout"))

    def test_events_and_checkpoints(self):
        page = self.report(self.make_eventful_run())
        self.assertIn("complete", page.text)
        self.assertIn("1 h 02 min", page.text)
        self.assertEqual([row[:3] for row in page.rows("Events")], [
            ["1", "0", "began"], ["1", "", "crash of rank 2"], ["1", "", "stopped (75)"],
            ["2", "4", "went on"], ["2", "", "hang of rank 0 and of 1 more"], ["2", "", "loss or gradient not finite"],
            ["3", "6", "rewind: the run went back"], ["3", "11", "1 step skipped"], ["3", "", "complete"]])
        details = {row[2]: row[3] for row in page.rows("Events")}
        self.assertEqual(details["crash of rank 2"], "rank 2 on node0, step 3; cause: SIGSEGV")
        self.assertEqual(details["stopped (75)"], "asked to stop by signal SIGTERM")
        checkpoints = {row[0]: row[1:] for row in page.rows("Checkpoints")}
        self.assertEqual(list(checkpoints), ["checkpoint-12", "checkpoint-8", "checkpoint-6", "checkpoint-4"])
        self.assertEqual(checkpoints["checkpoint-12"], ["whole", "4 B", "3", ""])
        self.assertEqual(checkpoints["checkpoint-8"][0], "superseded")
        self.assertEqual(checkpoints["checkpoint-6"][0::3], ["whole", "weights alone: no run can go on from it"])
        self.assertEqual(checkpoints["checkpoint-4"][0], "damaged")
        self.assertIn("has 4 bytes instead of 5", checkpoints["checkpoint-4"][3])
        self.assertIn("1 save: training stood still for 3 ms in the median", page.text)
        self.assertEqual(len(page.lines("loss")[0]), 12)  # every step once, by the attempt that counts
        marks = [mark.text for mark in page.root.iter("title") if (mark.text or "").startswith("attempt")]
        self.assertEqual(marks, ["attempt 2", "attempt 3"])

    def test_attempts_that_ended_without_a_report(self):
        folder = self.make_run("lost", [step_line(1, 3)], record(), starts=(0, 0, 0))
        for rank in range(6):
            self.write(f"lost/attempt-1/crash-rank{rank}.txt", f"rank {rank}\ncause: it\n")
        for name in ("attempt-1/crash-rankx.txt", "attempt-1/crash-1.txt", "attempt-1/hang-rank.txt", "crash-rank9.txt", "attempt-x/start.json", "checkpoint-3.tmp-1/state.h5"):
            self.write(f"lost/{name}", "{}")
        page = self.report(folder)
        self.assertEqual([row[0::2] for row in page.rows("Events")], [
            ["1", "began"], ["1", "crash of rank 0"], ["1", "crash of rank 1"], ["1", "crash of rank 2 and of 3 more"],
            ["2", "began again"], ["2", "ended without a report"], ["3", "began again"]])
        self.assertIsNone(page.section("Checkpoints"))

    def test_every_byte_of_checkpoints(self):
        page = self.report(self.make_eventful_run(), flags=("--verify_checkpoint", "full"))
        self.assertNotIn("whole", [row[1] for row in page.rows("Checkpoints")])  # "four" is no HDF5 file
        self.assertIn("Every byte was compared", page.text)

    def test_runs_of_which_little_is_known(self):
        alone = self.make_run("alone", [{"step": 3, "loss": 1.0}], starts=())
        page = self.report(os.path.join(alone, "metrics.jsonl"))
        self.assertEqual([section.find("h2").text for section in page.root.iter("section")], ["Curves over steps"])
        begun = self.make_run("begun", None, record())
        self.write("begun/attempt-1/crash-rank0.txt", "rank 0 on node0\ncause: no room\n")
        page = self.report(begun)
        self.assertIn("No step has been logged.", page.text)
        self.assertIn("no room", page.text)
        for damaged in ("", "{", "[]", '{"mesh": 3, "settings": [], "ranks": {}, "versions": null, "num_steps": "many"}',
                        '{"mesh": {"dp_shard": -4, "cp": "x"}, "ranks": [1, null], "settings": {"a": 1}}'):
            self.report(self.make_run("damaged", [step_line(1), {"step": 2, "loss": None}], damaged))

    def test_texts_cannot_leave_their_place(self):
        name = "a <b> & \"c\" 'd'"
        folder = self.make_run(name, [step_line(1), {"step": 2, "loss": NASTY, NASTY: 3}],
                               record(hosts=1, run_name=setting(NASTY, NASTY)))
        self.write(f"{name}/attempt-1/crash-rank0.txt", f"{NASTY}\x01\x02\n]]>-->")
        page = self.report(folder)
        self.assertEqual(page.root.find(".//h1").text, name)
        self.assertEqual(len(list(page.root.iter("script"))), 1)  # our own
        self.assertIn(NASTY, page.text)

    def test_long_runs_stay_small(self):
        folder = self.make_run("long", [step_line(step) for step in range(1, 20001)], record())
        page = self.report(folder)
        self.assertLess(len(page.source), 1_500_000)
        self.assertEqual(len(page.lines("loss")[0]), 190)
        self.assertIn("means of neighbouring steps", page.text)
        # The first of 190 groups of neighbours has 105 steps, of 3 / step: their mean, under their highest.
        chart = next(group for group in page.root.iter("g") if group.get("data-key") == "loss")
        box, (low, high) = (tuple(map(float, chart.get(name).split())) for name in ("data-box", "data-values"))
        value = low + (box[3] - page.lines("loss")[0][0][1]) / (box[3] - box[1]) * (high - low)
        self.assertAlmostEqual(value, sum(3 / step for step in range(1, 106)) / 105, delta=0.01)
        self.assertEqual(len([path for path in chart.iter("path") if path.get("class").startswith("band")]), 1)


class SeveralRuns(ReportTest):
    def test_they_are_compared(self):
        first = self.make_run("first", [step_line(step) for step in range(1, 8)], record())
        second = self.make_run("second", [step_line(step) for step in range(1, 5)],
                               record((1, 4, 1, 1), learning_rate=setting(1e-3, "command line"), seed=setting(3, "RINGSHARD_SEED"), num_processes=setting(8, "profile zero2"),
                                      tpu_use_sudo={**setting(False, "profile zero2"), "has_effect": False}))
        third = self.make_run("deeper/second", [step_line(1)], starts=())
        page = self.report(first, second, third)
        self.assertEqual([len(line) for line in page.lines("loss")], [7, 4])  # the third has a point alone
        table = page.root.find(".//table")
        names = [row.find("td/b").text for row in table.iter("tr") if row.find("td/b") is not None]
        self.assertEqual(names, [first, second, third])  # two have one name: paths tell them apart
        self.assertIn("1×4×1×1", page.text)
        self.assertEqual(page.rows("Settings that differ"), [["learning_rate", "2e-05", "0.001"], ["seed", "", "3"]])
        for key in ("compute_s", "comm_wait_s", "data_wait_s", "peak_memory_bytes", "grad_norm"):
            self.assertEqual([len(line) for line in page.lines(key)], [7, 4], key)
        self.assertEqual(len(list(page.section("Each run").iter("details"))), 3 + 2 + 2)  # and settings of profiles and at defaults
        same = self.report(first, self.make_run("other", [step_line(1)], record()))
        self.assertIn("They have the same settings.", same.text)


class Errors(ReportTest):
    def test_errors(self):
        good = self.make_run("good", [step_line(1)])
        os.makedirs(self.path("bare"))
        page = ("-o", self.path("out.html"))
        for arguments, code, words in (
            ((), 64, "name a run"),
            ((good,), 64, "name the file to write"),
            ((good, "--output", "x.svg"), 64, "output = x.svg: must end in .html"),
            ((good, "--outptu", "x.html"), 64, "there is no --outptu"),
            ((good, "-o"), 64, "-o has no value"),
            ((good, *page, "--verify_checkpoint", "some"), 64, "verify_checkpoint = some: must be full or sizes"),
            (("no/such", *page), 66, "no/such: there is no such run"),
            ((good, self.path("bare"), *page), 65, "bare: has no metrics.jsonl"),
            ((good, "-o", "/proc/out.html"), 74, "/proc/out.html"),
        ):
            with self.subTest(words):
                self.expect_one_message(run("report", *arguments), code, words)
        self.assertFalse(os.path.exists(page[1]))


class RealRun(ReportTest):
    def test_a_run_and_its_page(self):
        model, data = self.path("model"), os.path.join(TINY, "notes.jsonl")
        self.expect(run("init", "--config_json", os.path.join(TINY, "config.json"), "--output_dir", model), 0)
        flags = ("--model_name_or_path", model, "--dataset_name", data, "--max_steps", "6", "--save_steps", "3", "--logging_steps",
                 "1", "--save_total_limit", "5", "--output_dir", self.path("run"), "--disable_tqdm", "true")
        os.makedirs(self.path("run"))
        self.write("run/stop-now", "")
        self.expect(run("train", "--profile", "zero3", "--cp_size", "2", *flags, ranks=2), 75)
        self.expect(run("train", "--profile", "zero3", "--cp_size", "2", *flags, ranks=2), 0)
        page = self.report(self.path("run"), flags=("--verify_checkpoint", "full"))
        with open(self.path("run", "metrics.jsonl")) as file:
            steps = [line for line in map(json.loads, file) if "loss" in line]
        self.assertEqual([len(line) for line in page.lines("loss")], [6])
        memory = dict(page.rows("Memory of a rank"))
        self.assertIn("Optimizer", memory)
        self.assertIn("Steps 6 of 6, epoch", page.text)
        self.assertIn(f"{steps[-1]['loss']:.4g}", page.text)
        self.assertEqual([row[1] for row in page.rows("Checkpoints")], ["whole"] * 3)
        self.assertEqual([row[2] for row in page.rows("Events")], ["began", "stopped (75)", "went on", "complete"])
        self.assertEqual([row[3] for row in page.rows("Events")][2:], ["from step 1", ""])
        self.assertIn("asked to stop after step 1 of 6 by stop-now", page.rows("Events")[1][3])
        self.assertIn(["cp_size", "2", "command line"], page.rows("Settings"))
        self.assertIn("2 ranks on 1 host: rings of 2 (cp_size).", page.text)


@unittest.skipUnless(CHROMIUM, "needs chromium")
class Browser(ReportTest):
    """In a real browser nothing is wider than the window."""

    def browse(self, script, width):
        """What the script returns, in a window of that width: a frame, since a browser has a least width of its own."""
        probe = "<script>addEventListener('load', () => { document.title = JSON.stringify((() => {%s})()); });</script></body>"
        with open(self.path("report.html")) as file:
            source = file.read().replace("</body>", probe % script)
        with open(self.path("probed.html"), "w") as file:
            file.write(source)
        with open(self.path("frame.html"), "w") as file:
            file.write(f"<html><body style='margin:0'><iframe src='probed.html' style='border:0;width:{width}px;height:3000px'>"
                       "</iframe><script>addEventListener('load', () => { document.title = "
                       "document.querySelector('iframe').contentDocument.title; });</script></body></html>")
        result = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                                 f"--user-data-dir={self.path('browser')}", "--virtual-time-budget=3000", "--window-size=1400,3000",
                                 "--dump-dom", "file:" + "//" + self.path("frame.html")],
                                capture_output=True, text=True, timeout=120)
        found = re.search(r"<title>(\[.*?\])</title>", result.stdout)
        self.assertIsNotNone(found, result.stdout[:2000] + result.stderr[-2000:])
        return json.loads(found.group(1))

    def test_nothing_is_wider_than_the_window(self):
        one = self.make_eventful_run()
        self.write("eventful/run.json", record((2, 2, 2, 16), hosts=2, chat_template_path=setting("x" * 400, "command line"),
                                               data_cache_dir=setting("/a/very/long/path" * 9, "command line")))
        others = [self.make_run("a run with a rather long name " + "and-no-blanks" * 8 + str(number), [step_line(step) for step in range(1, 9)],
                                record(seed=setting(number, "command line"))) for number in range(9)]
        for runs in ((one,), (one, *others)):
            self.report(*runs)
            for width in (1280, 420, 320):
                with self.subTest(runs=len(runs), width=width):
                    window, page, out = self.browse(
                        "const root = document.documentElement, out = [];"
                        "for (const e of document.querySelectorAll('body *')) { if (e.closest('.wide, .mesh, svg')) continue;"
                        "const box = e.getBoundingClientRect(); if (box.right > root.clientWidth + 1 || box.left < -1) out.push(e.tagName); }"
                        "return [root.clientWidth, root.scrollWidth, out];", width)
                    self.assertEqual((page, out), (window, []))
                    self.assertIn(width - window, range(16))  # a scrollbar

    def test_values_appear_where_the_pointer_is(self):
        self.report(self.make_run("first", [step_line(step) for step in range(1, 11)], record()))
        found = self.browse("const svg = document.querySelector('svg.chart'), box = svg.getBoundingClientRect();"
                            "const show = share => { svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * share,"
                            "clientY: box.top + 50})); return document.querySelector('.tip').textContent; };"
                            "const texts = [show(0), show(0.5), show(1)];"
                            "svg.dispatchEvent(new PointerEvent('pointerleave'));"
                            "return [...texts, document.querySelector('.tip').hidden];", 1280)
        self.assertEqual(found[0::2], ["step 13", "step 100.3"])
        self.assertRegex(found[1], r"step [56]0\.[56]")
        self.assertIs(found[3], True)


if __name__ == "__main__":
    unittest.main()
