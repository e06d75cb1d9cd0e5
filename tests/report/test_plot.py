"""trainer plot: curves as an SVG, numbers as CSV."""

import csv
import json
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def line(step, **more):
    return {"step": step, "loss": 3.0 / step, "learning_rate": 2e-5 / step, "tokens_per_second": 40000.0 + step,
            "peak_memory_bytes": 3 * 2**30, "attempt": 1, **more}


class Plot(TrainerTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make_run(self, name, lines, attempts=()):
        folder = os.path.join(self.folder.name, name)
        os.makedirs(folder)
        with open(os.path.join(folder, "metrics.jsonl"), "w") as file:
            for entry in lines:
                file.write((entry if isinstance(entry, str) else json.dumps(entry)) + "\n")
        for attempt, start in enumerate(attempts, 1):
            os.makedirs(os.path.join(folder, f"attempt-{attempt}"))
            if start is not None:
                with open(os.path.join(folder, f"attempt-{attempt}", "start.json"), "w") as file:
                    json.dump({"step": start}, file)
        return folder

    def plot(self, *arguments, ending=".svg", words=()):
        output = os.path.join(self.folder.name, "out" + ending)
        result = run("plot", *arguments, "-o", output)
        self.expect(result, 0, *words)
        if not words:
            self.assertEqual(result.stderr, "")
        return output

    def draw(self, *arguments, words=()):
        """By key: (points of every stretch of every line, lone dots, eval dots)."""
        root = ElementTree.parse(self.plot(*arguments, words=words)).getroot()
        text = ElementTree.tostring(root, encoding="unicode")
        for word in ("<script", "http://", "https://", "href", "url("):
            self.assertNotIn(word, text.replace("http://www.w3.org/2000/svg", ""))
        width, height = (float(number) for number in root.get("viewBox").split()[2:])
        panels = {}
        for panel in root.iter(SVG + "g"):
            if panel.get("data-key") is None:
                continue
            stretches, lone, dots = [], [], []
            for path in panel.iter(SVG + "path"):
                for stretch in path.get("d").split("M")[1:]:
                    stretches.append([tuple(map(float, point.split())) for point in stretch.split("L")])
            for circle in panel.iter(SVG + "circle"):
                point = (float(circle.get("cx")), float(circle.get("cy")))
                (dots if circle.get("class").startswith("eval") else lone).append(point)
            for x, y in lone + dots + sum(stretches, []):
                self.assertTrue(0 <= x <= width and 0 <= y <= height, (x, y))
            panels[panel.get("data-key")] = (stretches, lone, dots)
        return panels

    def read_csv(self, *arguments):
        with open(self.plot(*arguments, ending=".csv"), newline="") as file:
            return list(csv.reader(file))

    def test_a_run(self):
        run_folder = self.make_run("first", [line(step) for step in range(1, 11)] + [{"step": 10, "eval_loss": 0.4}])
        panels = self.draw(run_folder)
        self.assertEqual(list(panels), ["loss", "learning_rate", "tokens_per_second", "peak_memory_bytes"])
        for key, (stretches, lone, dots) in panels.items():
            self.assertEqual([len(stretch) for stretch in stretches], [10], key)
            self.assertEqual((len(lone), len(dots)), (0, 1 if key == "loss" else 0))
        points = panels["loss"][0][0]
        self.assertEqual([x for x, _ in points], sorted(x for x, _ in points))
        self.assertEqual([y for _, y in points], sorted(y for _, y in points))  # the loss falls, y grows downwards
        # Proportions: 3 / step
        fall = [points[-1][1] - y for _, y in points]
        self.assertAlmostEqual(fall[1] / fall[0], (3 / 2 - 3 / 10) / (3 - 3 / 10), places=2)
        # A logarithmic axis is as wide everywhere: 3/1 to 3/2 as 3/5 to 3/10.
        points = self.draw(run_folder, "--log")["loss"][0][0]
        self.assertAlmostEqual(points[1][1] - points[0][1], points[9][1] - points[4][1], delta=0.1)
        self.assertEqual(self.draw(os.path.join(run_folder, "metrics.jsonl"))["loss"], panels["loss"])

    def test_several_runs_have_a_legend(self):
        runs = [self.make_run(name, [line(step) for step in range(1, length)])
                for name, length in (("a <b> & \"c\"", 5), ("second", 8), ("x" * 90, 3))]
        self.assertEqual([len(stretch) for stretch in self.draw(*runs)["loss"][0]], [4, 7, 2])
        with open(self.plot(*runs)) as file:
            texts = [element.text for element in ElementTree.parse(file).getroot().iter(SVG + "text")]
        for name in ("a <b> & \"c\"", "second", "…" + "x" * 60):
            self.assertIn(name, texts)
        same = self.make_run("deeper/second", [line(1), line(2)])
        with open(self.plot(runs[1], same)) as file:
            self.assertEqual(len(set(re.findall(r"<title>([^<]*second)</title>", file.read()))), 2)

    def test_many_runs(self):
        runs = [self.make_run(f"run-{number}", [line(1), line(2), line(3 + number)]) for number in range(19)]
        self.assertEqual(len(self.draw(*runs)["loss"][0]), 19)
        with open(self.plot(*runs)) as file:
            styles = re.findall(r'<path class="(line c\d)"( stroke-dasharray="[^"]*")? d="M[\d.]+ [\d.]+h26"', file.read())
        self.assertEqual(len(set(styles)), 19)

    def test_numbers_that_are_none(self):
        lines = [line(step) for step in range(1, 13)]
        lines[3]["loss"] = float("nan")
        lines[4]["loss"] = None
        lines[6]["loss"] = float("-inf")
        lines[9]["loss"] = "1.5"
        del lines[11]["loss"]
        panels = self.draw(self.make_run("bad", lines))
        self.assertEqual([len(stretch) for stretch in panels["loss"][0]], [3, 2])
        self.assertEqual(len(panels["loss"][1]), 2)  # steps 6 and 11 stand alone
        self.assertEqual([len(stretch) for stretch in panels["learning_rate"][0]], [12])
        none = self.draw(self.make_run("none", [{"step": 1, "loss": None, "learning_rate": 1.0}]))
        self.assertEqual(list(none), ["learning_rate"])
        self.assertEqual(self.draw(self.make_run("nothing", [{"step": 1}])), {})
        zero = self.draw(self.make_run("zero", [line(1), line(2, loss=0.0), line(3), line(4)]), "--log")
        self.assertEqual([len(stretch) for stretch in zero["loss"][0]], [2])

    def test_one_point_and_constants(self):
        panels = self.draw(self.make_run("one", [line(1)]))
        self.assertEqual([(len(s), len(lone)) for s, lone, _ in panels.values()], [(0, 1)] * 4)
        panels = self.draw(self.make_run("constant", [line(step, loss=2.0, learning_rate=0.0) for step in (1, 2)]))
        self.assertEqual([len(panels[key][0][0]) for key in panels], [2] * 4)

    def test_void_lines_are_left_out(self):
        lines = [line(step) for step in range(1, 7)] + [line(step, attempt=2, loss=9.0) for step in range(4, 6)]
        folder = self.make_run("void", lines, attempts=(0, 3, None))
        table = self.read_csv(folder)
        self.assertEqual([row[0] for row in table], ["step", "1", "2", "3", "4", "5"])
        self.assertEqual([row[1] for row in table[4:]], ["9.0", "9.0"])
        self.assertEqual([len(stretch) for stretch in self.draw(folder)["loss"][0]], [5])

    def test_unreadable_lines_are_named(self):
        folder = self.make_run("unreadable", [line(1), '{"step": 2, "lo', "[1]", "", '{"tool": "mine"}', line(3)])
        output = self.plot(folder, ending=".csv", words=("metrics.jsonl:2: is left out", "metrics.jsonl:3: is left out: is no JSON object"))
        with open(output) as file:
            self.assertEqual(len(file.readlines()), 3)

    def test_csv(self):
        first = self.make_run("first", [line(1), {"step": 1, "eval_loss": 0.5, "note": 'a "b", c'}, line(2)])
        table = self.read_csv(first)
        self.assertEqual(table[0], ["step", "loss", "learning_rate", "tokens_per_second", "peak_memory_bytes", "attempt",
                                    "eval_loss", "note"])
        self.assertEqual(table[1:], [["1", "3.0", "2e-05", "40001.0", "3221225472", "1", "0.5", 'a "b", c'],
                                     ["2", "1.5", "1e-05", "40002.0", "3221225472", "1", "", ""]])
        second = self.make_run("sec,ond", [{"step": 5, "other": None}])
        table = self.read_csv(first, second)
        self.assertEqual(table[0][0], "run")
        self.assertEqual([row[0] for row in table[1:]], ["first", "first", "sec,ond"])
        self.assertEqual(table[3][1:], ["5"] + [""] * 8)

    def test_json(self):
        first = self.make_run("first", [line(1), {"step": 1, "eval_loss": 0.5, "note": 'a "b"\n'}, '{"step": 2, "loss": NaN}'])
        second = self.make_run("sec \"ond\"", [{"step": 5, "other": None}])
        with open(self.plot(first, second, ending=".json")) as file:
            read = json.load(file)
        self.assertEqual(read, {"runs": [
            {"name": "first", "steps": [{**line(1), "eval_loss": 0.5, "note": 'a "b"\n'}, {"step": 2, "loss": None}]},
            {"name": 'sec "ond"', "steps": [{"step": 5, "other": None}]}]})

    def test_errors(self):
        good = self.make_run("good", [line(1)])
        empty = self.make_run("empty", [])
        os.makedirs(os.path.join(self.folder.name, "bare"))
        svg = ("-o", os.path.join(self.folder.name, "out.svg"))
        for arguments, code, words in (
            ((), 64, "name a run"),
            ((good,), 64, "name the file to write"),
            ((good, "--output", "x.png"), 64, "output = x.png: must end in .svg, .csv or .json"),
            ((good, "--outptu", "x.svg"), 64, "there is no --outptu"),
            ((good, "-o"), 64, "-o has no value"),
            (("no/such", *svg), 66, "no/such: there is no such run"),
            ((good, os.path.join(self.folder.name, "bare"), *svg), 65, "bare: has no metrics.jsonl"),
            ((empty, *svg), 65, "metrics.jsonl: holds no step"),
            ((good, "-o", "/proc/out.svg"), 74, "/proc/out.svg"),
        ):
            with self.subTest(words):
                self.expect_one_message(run("plot", *arguments), code, words)
        self.assertFalse(os.path.exists(svg[1]))
        self.expect(run("--help"), 0, "plot", stream="stdout")


if __name__ == "__main__":
    unittest.main()
