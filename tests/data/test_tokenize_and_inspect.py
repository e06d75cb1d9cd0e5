"""`trainer tokenize` and `trainer inspect` as people use them."""

import gzip
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from trainer import TrainerTest, run  # noqa: E402

DATA = HERE.parent / "parity" / "data"
MODEL = DATA / "models" / "qwen2-tiny"
APPLY = HERE.parent.parent / "text" / "tests" / "data" / "chat" / "apply"


class Tokenize(TrainerTest):
    def answers(self, tokenizer, lines, *flags):
        result = run("tokenize", "--model_name_or_path", str(tokenizer), *flags,
                     stdin="".join(json.dumps(line) + "\n" for line in lines))
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    def test_conversations(self):
        lines = [json.loads(line) for line in gzip.open(APPLY / "chatml_generation.jsonl.gz")]
        template = APPLY / "templates" / "chatml_generation.jinja"
        _, answers = self.answers(MODEL, lines, "--chat_template_path", str(template))
        self.assertEqual(len(answers), len(lines))
        for line, answer in zip(lines, answers):
            if "error" in line:
                self.assertIn("error", answer)
                continue
            self.assertEqual(answer["rendered"], line["text"])
            self.assertEqual(answer["ids"], line["ids"])
            self.assertEqual(answer.get("assistant_masks"), line["assistant_masks"])

    def test_documents_reach_the_template(self):
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder) / "documents.jinja"
            template.write_text("{% for d in documents %}[{{ d.title }}: {{ d.text }}]{% endfor %}{{ messages[0].content }}{{ other }}")
            line = {"messages": [{"role": "user", "content": "a"}]}
            some = {"documents": [{"title": "One", "text": "ring"}, {"title": "Two", "text": "rings"}], "other": "b"}
            _, answers = self.answers(MODEL, [{**line, "chat_template_kwargs": some}, {**line, "chat_template_kwargs": {"documents": None}},
                                              {**line, "chat_template_kwargs": {"documents": ["x"]}}], "--chat_template_path", str(template))
            self.assertEqual(answers[0]["rendered"], "[One: ring][Two: rings]ab")
            self.assertIn("'documents' holds text, but it is a list of objects", answers[2]["error"])

    def test_text_there_and_back(self):
        code, answers = self.answers(MODEL, [{"text": "Zwölf Boxkämpfer <|im_end|>\n"}, {"ids": [1, 2, 3]}, {"other": 1}])
        self.assertEqual(code, 65)
        self.assertEqual(answers[0]["decoded"], "Zwölf Boxkämpfer <|im_end|>\n")
        self.assertIn("decoded", answers[1])
        self.assertIn("error", answers[2])


class Inspect(TrainerTest):
    def test_long_rows_are_shown_by_their_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "long.jsonl")
            with open(data, "w") as file:
                file.write(json.dumps({"input_ids": list(range(100, 400))}) + "\n")
            prepared = run("prepare", "--model_name_or_path", str(MODEL), "--dataset_name", data, "--data_cache_dir", folder)
            self.expect(prepared, 0)
            rows = next(line.split(": ", 1)[1] for line in prepared.stdout.splitlines() if " data: " in line)
            short = run("inspect", rows)
            self.expect(short, 0, "ids     100 101 102 103 104 105 106 107 ... (284 more, --full) ... 392 393", stream="stdout")
            self.expect(run("inspect", rows, "--full"), 0, " ".join(map(str, range(100, 400))), stream="stdout")
            self.assertLess(sum(map(len, (line for line in short.stdout.splitlines() if line.startswith(("    ids", "    labels"))))), 300)

    def test_what_is_no_data_is_refused(self):
        self.expect(run("inspect", "no/such"), 66)
        self.expect(run("inspect"), 64)
        self.expect(run("inspect", __file__), 65)
        self.expect(run("inspect", str(MODEL)), 0, "hidden_size", stream="stdout")


if __name__ == "__main__":
    unittest.main()
