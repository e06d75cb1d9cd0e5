"""Runs the commands of README.md and docs/*.md, page by page, in a folder that holds what they name.

A block that opens with ```sh is run by bash, one with ```python by Python, both in the order of the page; each must end with 0. `sh gpu`,
`sh site` and `sh setup` need GPUs, the SLURM of a site, or a network: they are looked at by eye. A block without a word is output,
settings or a picture, and on a page of docs/ it may hold no command.
In the folder: ./trainer, scripts, slurm, configs; MODEL, a very small model with random weights and its tokenizer; DATA, a folder with a
file of conversations; and, in the cache of the Hugging Face hub, the config.json of Qwen/Qwen3-8B, which `plan` reads.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from trainer import TRAINER, clean_environment  # noqa: E402

KINDS = {"", "sh", "sh gpu", "sh site", "sh setup", "python", "yaml", "json", "cpp", "mermaid"}
COMMAND = re.compile(r"^ *(?:(?:\./)?trainer|srun|sbatch|mpirun|scripts/\w+|cmake|ctest|python3|export|cd|\.) ", re.MULTILINE)
CHAT_TEMPLATE = """\
{%- for message in messages %}{% if message['role'] == 'assistant' %}A: {% generation %}{{ message['content'] }}<|end|>{% endgeneration %}
{% else %}Q: {{ message['content'] }}
{% endif %}{% endfor %}{% if add_generation_prompt %}A: {% endif %}"""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    """Kind, text and line of each fenced block."""
    found, kind, lines, begin = [], None, [], 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.lstrip().startswith("```"):
            lines.append(line)
            continue
        if kind is None:
            kind, begin = line.strip().removeprefix("```").strip(), number
        else:
            found.append((kind, "\n".join(lines) + "\n", begin))
            kind = None
        lines = []
    assert kind is None, f"{page.name}: the block of line {begin} has no end"
    return found


def conversation(number):
    turns = [("user", f"How many windows are in house {number}?"), ("assistant", f"There are {number % 9} windows."),
             ("user", "And doors?"), ("assistant", "One.")]
    return {"messages": [{"role": role, "content": text} for role, text in turns[:2 + 2 * (number % 2)]]}


class Docs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="docs-")
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)
        (self.at / "trainer").symlink_to(TRAINER)
        for name in ("scripts", "slurm", "configs", "docs", "tests"):
            (self.at / name).symlink_to(ROOT / name)
        (self.at / "DATA").mkdir()
        (self.at / "DATA" / "chat.jsonl").write_text(
            "".join(json.dumps(conversation(number)) + "\n" for number in range(48)))
        (self.at / "PAIRS").mkdir()
        (self.at / "PAIRS" / "pairs.jsonl").write_text("".join(
            json.dumps({"prompt": f"House {number} has ", "chosen": f"{number % 9} windows.", "rejected": "a door."}) + "\n"
            for number in range(48)))
        (self.at / "JUDGED").mkdir()
        (self.at / "JUDGED" / "answers.jsonl").write_text("".join(
            json.dumps({"prompt": f"House {number} has ", "completion": f"{number % 9} windows.", "label": number % 3 == 0}) + "\n"
            for number in range(48)))
        (self.at / "TEXTS").mkdir()
        (self.at / "TEXTS" / "texts.jsonl").write_text("".join(
            json.dumps({"anchor": f"House {number}?", "positive": f"{number % 9} windows.", "negative": "a door."}) + "\n"
            for number in range(48)))
        (self.at / "LABELLED").mkdir()
        (self.at / "LABELLED" / "labels.jsonl").write_text("".join(
            json.dumps({"text": f"House {number} has {number % 9} windows.", "label": ("bad", "good")[number % 2]}) + "\n"
            for number in range(48)))
        self.do([str(self.at / "trainer"), "init", "--config_json", "configs/examples/tiny/config.json", "--output_dir", "MODEL"])
        self.cache_config("Qwen/Qwen3-8B")
        (self.at / "MODEL" / "chat_template.jinja").write_text(CHAT_TEMPLATE)

    def cache_config(self, name):
        spec = importlib.util.spec_from_file_location("plan_published", ROOT / "scripts" / "plan_published.py")
        published = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(published)
        cached = self.at / "hf" / "hub" / f"models--{name.replace('/', '--')}"
        (cached / "refs").mkdir(parents=True)
        (cached / "refs" / "main").write_text("0" * 40)
        (cached / "snapshots" / ("0" * 40)).mkdir(parents=True)
        (cached / "snapshots" / ("0" * 40) / "config.json").write_text(json.dumps(published.MODELS[name.split("/")[1]]))

    def do(self, command):
        environment = clean_environment(OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                                        HF_HOME=str(self.at / "hf"), PYTHONDONTWRITEBYTECODE="1")
        environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environment["PATH"]])
        result = subprocess.run(command, cwd=self.at, env=environment, capture_output=True, text=True, timeout=120,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr[-4000:])

    def test_every_block_says_what_it_is(self):
        for page in PAGES:
            for kind, text, line in blocks(page):
                self.assertIn(kind, KINDS, f"{page.name}:{line}")
                if kind == "" and page.name != "README.md":
                    self.assertNotRegex(text, COMMAND, f"{page.name}:{line}: a command in a block that nobody runs")


def runs(page):
    def test(self):
        for kind, text, line in blocks(page):
            if kind not in ("sh", "python"):
                continue
            begin = time.monotonic()
            with self.subTest(f"{page.name}:{line}"):
                self.do(["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text])
            print(f"{page.name}:{line}: {time.monotonic() - begin:.1f} s", flush=True)
    return test


for page in PAGES:
    if any(kind in ("sh", "python") for kind, _, _ in blocks(page)):
        setattr(Docs, "test_" + re.sub(r"\W", "_", page.stem.lower()), runs(page))

if __name__ == "__main__":
    unittest.main()
