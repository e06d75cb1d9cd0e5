"""The older vectors of the `tokenizers` package, which have the offsets of every token: data/offsets."""

import gzip
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

TOOL = os.environ["TOKENIZER_TOOL"]
FOLDER = pathlib.Path(__file__).parent / "data" / "offsets"


class Offsets(unittest.TestCase):
    def test_every_kind(self):
        kinds = sorted(FOLDER.glob("*.tokenizer.json.gz"))
        self.assertEqual(len(kinds), 9)
        for packed in kinds:
            kind = packed.name.removesuffix(".tokenizer.json.gz")
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                tokenizer = pathlib.Path(folder) / "tokenizer.json"
                tokenizer.write_bytes(gzip.decompress(packed.read_bytes()))
                rows = [json.loads(line) for line in gzip.open(FOLDER / f"{kind}.jsonl.gz")]
                self.assertGreater(len(rows), 50)
                requests = "".join(json.dumps({"text": row["text"]}) + "\n" for row in rows)
                output = subprocess.run([TOOL, tokenizer], input=requests, capture_output=True, text=True, check=True)
                answers = output.stdout.rstrip("\n").split("\n")[1:]  # the first line is the size of the vocabulary
                for row, line in zip(rows, answers, strict=True):
                    self.check(row, json.loads(line))

    def check(self, row, answer):
        self.assertEqual(answer["ids"], row["ids"], row["text"])
        self.assertEqual(answer["ids_no_special"], row["ids_no_special"], row["text"])
        self.assertEqual(answer["decoded"], row["decoded"])
        self.assertEqual(answer["decoded_skip_special"], row["decoded_skip"])
        # The post-processors of these kinds add in front only.
        added = len(row["ids"]) - len(row["ids_no_special"])
        self.assertEqual(answer["offsets"][added:], row["offsets_no_special"], row["text"])


if __name__ == "__main__":
    unittest.main()
