"""Rows of layouts that people have beside TRL's (Alpaca, Dolly, ShareGPT, columns by other names): this program maps them
as `datasets`' map() was told to, and gets the tokens and labels that SFTTrainer makes of the mapped rows."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TRAINER = os.environ["TRAINER"]
DATA = pathlib.Path(__file__).parent / "data"
QWEN = DATA / "models" / "qwen2-tiny"


class Layouts(unittest.TestCase):
    maxDiff = 1000

    def run_trainer(self, *flags):
        result = subprocess.run([TRAINER, *flags], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def test_every_layout(self):
        cases = json.loads((DATA / "layouts" / "cases.json").read_text())
        self.assertGreaterEqual(len(cases), 9)
        with tempfile.TemporaryDirectory() as folder:
            plain = pathlib.Path(folder) / "plain"
            plain.mkdir()
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(QWEN / name, plain)
            for case in cases:
                with self.subTest(case["name"]):
                    entry = {"path": str(DATA / "layouts" / case["file"]), **case["settings"]}
                    tokenizer = plain if case["tokenizer"] == "plain" else DATA / case["tokenizer"]
                    prepared = self.run_trainer("prepare", "--datasets", json.dumps([entry]), "--model_name_or_path", str(tokenizer),
                                                "--data_cache_dir", folder, "--max_length", "512")
                    plan = prepared.stdout.splitlines()[0].split(": ", 1)[1]
                    shown = self.run_trainer("inspect", plan, "--rows", "1000", "--json").stdout.splitlines()
                    rows = [json.loads(line) for line in shown]
                    self.assertEqual([{name: row[name] for name in ("input_ids", "labels")} for row in rows], case["rows"])


if __name__ == "__main__":
    unittest.main()
