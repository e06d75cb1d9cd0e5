"""Runs made up for `trainer report`, and its page, taken apart."""

import html.parser
import json
import os
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

TINY = os.path.join(FOLDER, "..", "..", "configs", "examples", "tiny")
CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")) if path), None)
NASTY = "<script>alert('x')</script> & \"quotes\" \u00e9"


def step_line(step, attempt=1, **more):
    times = {f"{kind}{part}": 0.01 * (1 + number) + 1e-4 * step
             for number, kind in enumerate(("compute", "comm_wait", "data_wait")) for part in ("_s", "_median_s", "_min_s")}
    memory = {f"memory_{kind}_bytes": (1 + number) << 28 for number, kind in enumerate(
        ("weights", "gathered", "gradients", "optimizer", "activations", "communication", "staging", "save_copy"))}
    return {"step": step, "loss": 3.0 / step, "grad_norm": 1.5 / step, "learning_rate": 2e-5 / step, "epoch": step / 10,
            "mean_token_accuracy": 0.5, "mfu": 0.4321, "tokens_per_second": 40000.0 + step, "peak_memory_bytes": 5 << 30,
            "peak_memory_rank": 1, "compute_rank": 3, "comm_wait_rank": 1, "data_wait_rank": 0, **times, **memory,
            "attempt": attempt, **more}


def setting(value, origin="default"):
    return {"value": value, "origin": origin, "given": origin != "default"}


def record(mesh=(1, 2, 2, 2), hosts=2, **settings):
    world = mesh[0] * mesh[1] * mesh[2] * mesh[3]
    settings = {"model_name_or_path": setting("models/tiny", "command line"), "dataset_name": setting(NASTY, "run.yaml:3"),
                "learning_rate": setting(2e-5), "packing": setting(True, "profile zero3"), "chat_template_path": setting(None),
                **settings}
    return {"attempt": 1, "versions": {"Ringshard": "0.1.0"},
            "mesh": dict(zip(("dp_replicate", "dp_shard", "cp", "sp"), mesh), cuts="optimizer state is sharded"),
            "effective_batch": 16, "num_steps": 12,
            "ranks": [{"host": f"node{rank * hosts // world}", "device": f"cuda:{rank % 4}"} for rank in range(world)],
            "settings": settings}


class Page:
    """A page, read as XML (its elements are all closed) and as HTML."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.root = ElementTree.fromstring(self.source)
        for element in list(self.root.iter()):
            if element.tag in ("style", "script"):
                element.text = ""
        self.text = " ".join(" ".join(self.root.itertext()).split())

    def section(self, title):
        for section in self.root.iter("section"):
            if section.find("h2").text == title:
                return section
        return None

    def rows(self, title):
        return [[" ".join("".join(cell.itertext()).split()) for cell in row.findall("td")]
                for row in self.section(title).iter("tr") if row.findall("td")]

    def lines(self, key):
        """The points of every line of a chart, gaps left out."""
        for group in self.root.iter("g"):
            if group.get("data-key") == key:
                return [[tuple(map(float, point.split())) for point in re.split("[ML]", path.get("d"))[1:]]
                        for path in group.iter("path") if path.get("class").startswith("line")]
        return None


class Balance(html.parser.HTMLParser):
    """Every element that is opened is closed, in order, as HTML has it."""

    VOID = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.references, self.problems = [], [], []

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in ("src", "href", "srcset", "action", "data")]
        self.problems += [name for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)


class ReportTest(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    def make_run(self, name, lines, run_json=None, starts=(0,)):
        os.makedirs(self.path(name), exist_ok=True)
        if lines is not None:
            self.write(f"{name}/metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        if run_json is not None:
            self.write(f"{name}/run.json", run_json)
        for attempt, start in enumerate(starts, 1):
            self.write(f"{name}/attempt-{attempt}/start.json", {"step": start})
        return self.path(name)

    def report(self, *runs, flags=(), words=()):
        output = self.path("report.html")
        result = run("report", *runs, "-o", output, *flags)
        self.expect(result, 0, *words)
        if not words:
            self.assertEqual(result.stderr, "")
        page = Page(output)
        parser = Balance()
        parser.feed(page.source)
        parser.close()
        self.assertEqual((parser.open, parser.problems, parser.references), ([], [], []))
        for word in ("http:", "https:", "//", "url(", "@import", "<link", "<img", "<iframe"):
            self.assertNotIn(word, page.source)
        return page

    def make_eventful_run(self):
        """Three attempts: one that stopped, one that went back from bad numbers, one that is complete."""
        lines = [step_line(step) for step in range(1, 6)]
        lines += [step_line(step, 2) for step in range(5, 9)]
        lines += [{"step": 8, "save_step": 8, "save_stall_s": 0.25, "save_s": 2.5, "save_bytes": 100, "failed_saves": 2,
                   "attempt": 2}]
        lines += [step_line(step, 3) for step in range(7, 13)]
        lines += [{"step": 9, "eval_loss": 0.7, "attempt": 3}, {"step": 12, "eval_loss": 0.8, "attempt": 3},
                  {"step": 11, "skipped_steps": 1, "attempt": 3}, {"step": 12, "save_step": 12, "save_stall_s": 0.003,
                  "save_s": 1.5, "save_bytes": 100, "failed_saves": 0, "attempt": 3},
                  {"step": 12, "train_runtime": 3725.0, "train_loss": 1.0, "attempt": 3}]
        folder = self.make_run("eventful", lines, record(), starts=(0, 4, 6))
        self.write("eventful/attempt-1/end.json", {"ended": "failure", "code": 75, "message": "asked to stop by signal SIGTERM"})
        self.write("eventful/attempt-2/end.json", {"ended": "rewind"})
        self.write("eventful/attempt-3/end.json", {"ended": "complete"})
        self.write("eventful/attempt-1/crash-rank2.txt", "rank 2 on node0, step 3\ncause: SIGSEGV\nbacktrace")
        for rank in range(2):
            self.write(f"eventful/attempt-2/hang-rank{rank}.txt", "rank 1 keeps the others waiting\nat: the step\n")
        for step, attempt, size in ((12, 3, 4), (6, 2, 4), (8, 2, 4), (4, 1, 5)):
            self.write(f"eventful/checkpoint-{step}/state.h5", "four")
            self.write(f"eventful/checkpoint-{step}/manifest.json",
                       {"format": "ringshard checkpoint", "version": 2, "step": step, "attempt": attempt,
                        "files": {"state.h5": size}, "frames": {}, "ranges": [], "moments": step != 6})
        return folder
