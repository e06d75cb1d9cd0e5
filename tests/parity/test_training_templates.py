"""assistant_only_loss under the stock templates of models: `trainer prepare` against the rows and masks of SFTTrainer
(generator/training_templates.py). The templates are those that the package trl carries."""

import gzip
import importlib
import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import zlib

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "cli"))
from trainer import TrainerTest, run  # noqa: E402

TRL = importlib.util.find_spec("trl")  # only its templates are wanted
if TRL is None:
    print("skipped: trl is not installed; scripts/setup --oracles installs it")
    sys.exit(77)
TEMPLATES = pathlib.Path(TRL.submodule_search_locations[0]) / "chat_templates"
DATA = FOLDER / "data"
NEED_PARTS = ("idefics3", "llava_next", "smolvlm")  # templates that take lists of parts alone


def in_parts(messages):
    return [dict(m, content=[{"type": "text", "text": m["content"]}]) if isinstance(m["content"], str) else m for m in messages]


def row_of(row, name):
    if name not in NEED_PARTS:
        return row
    return {key: value if key == "tools" else in_parts(value) for key, value in row.items()}


def learned_ranges(labels):
    found = []
    for i, label in enumerate(labels):
        if label == -100:
            continue
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return found


def learned_today(name):
    """As the goldens were made, for a template that says the date."""
    sys.path.insert(0, str(FOLDER / "generator"))
    return importlib.import_module("training_templates").learned_of_rows(DATA / "text" / "data", name)


class TrainingTemplates(TrainerTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def model(self, template):
        made = self.folder / "model"
        shutil.copytree(DATA / "text" / "data" / "tokenizers" / "chatml", made, dirs_exist_ok=True)
        (made / "chat_template.jinja").write_bytes(template.encode())
        return str(made)

    def prepare(self, template, rows, *flags, fails=0):
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with tempfile.TemporaryDirectory() as cache:
            result = run("prepare", "--model_name_or_path", self.model(template), "--dataset_name", str(file), "--max_length", "null",
                         "--data_cache_dir", cache, "--assistant_only_loss", "true", "--output_dir", str(self.folder / "out"), *flags)
            self.expect(result, fails)
            self.stderr = result.stderr
            if fails:
                return None
            plan = result.stdout.splitlines()[0].split(": ", 1)[1]
            shown = run("inspect", plan, "--rows", "1000", "--json")
            self.expect(shown, 0)
            return [json.loads(line) for line in shown.stdout.splitlines()]

    def test_rows_and_masks_are_those_of_trl(self):
        rows = [json.loads(line) for line in (DATA / "training_templates" / "rows.jsonl").read_text().splitlines()]
        with gzip.open(DATA / "training_templates" / "learned.json.gz") as file:
            expected = json.load(file)
        self.assertEqual(len(expected), 31)
        for name, of_rows in expected.items():
            stock = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
            if "strftime_now" in stock:
                of_rows = json.loads(json.dumps(learned_today(name)))
            for column in ("messages", "prompt"):
                wanted = [(row_of(row, name), each) for row, each in zip(rows, of_rows, strict=True) if each and column in row]
                if not wanted:
                    continue
                with self.subTest(template=name, rows=column):
                    made = self.prepare(stock, [row for row, _ in wanted])
                    self.assertIn("is that of ", self.stderr)
                    for row, (row_in, (ids, ranges)) in zip(made, wanted, strict=True):
                        self.assertEqual(zlib.crc32(json.dumps(row["input_ids"]).encode()), ids, (name, row_in, row["text"]))
                        self.assertEqual(learned_ranges(row["labels"]), ranges, (name, row_in, row["text"]))

    def test_rows_that_trl_refuses_are_refused(self):
        rows = [json.loads(line) for line in (DATA / "training_templates" / "rows.jsonl").read_text().splitlines()]
        with gzip.open(DATA / "training_templates" / "learned.json.gz") as file:
            expected = json.load(file)
        for name in ("qwen3_6", "gemma3", "phi3", "cohere2"):
            stock = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
            refused = [row for row, each in zip(rows, expected[name], strict=True) if each is None and "messages" in row]
            self.assertTrue(refused)
            for row in refused:
                with self.subTest(template=name, row=row):
                    self.prepare(stock, [row], fails=65)

    def test_the_model_keeps_its_template(self):
        stock = (TEMPLATES / "qwen3.jinja").read_text(encoding="utf-8")
        says = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
        model = self.model(stock)
        rows = self.prepare(stock, [{"messages": says}])
        self.assertEqual(rows[0]["text"].count("<think>"), 2)
        with tempfile.TemporaryDirectory() as cache:  # without the setting the template itself is used
            file = self.folder / "rows.jsonl"
            result = run("prepare", "--model_name_or_path", model, "--dataset_name", str(file), "--max_length", "null",
                         "--data_cache_dir", cache, "--output_dir", str(self.folder / "out"))
            self.expect(result, 0)
            self.assertNotIn("is that of ", result.stderr)
            shown = run("inspect", result.stdout.splitlines()[0].split(": ", 1)[1], "--rows", "10", "--json")
            self.assertEqual(json.loads(shown.stdout.splitlines()[0])["text"].count("<think>"), 1)

    def test_templates_that_no_family_ships(self):
        stock = (TEMPLATES / "qwen3.jinja").read_text(encoding="utf-8")
        says = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
        self.prepare(stock + "{# changed #}", [{"messages": says}], fails=65)
        for words in ("the assistant's message 1 cannot be found in the rendering", "it is rendered differently when other messages follow",
                      "put {% generation %} ... {% endgeneration %} around what the assistant says in a copy of the template, and name "
                      "that file with chat_template_path"):
            self.assertIn(words, self.stderr)
        marked = stock + "{% if false %}{% generation %}{% endgeneration %}{% endif %}"
        self.prepare(marked, [{"messages": says}], fails=65)  # marks of its own count, as in TRL
        self.assertIn("no token of this conversation is the assistant's", self.stderr)


if __name__ == "__main__":
    unittest.main()
