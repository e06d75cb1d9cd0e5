"""trainer verify: an export that is what it was, and those that are broken, each found and named."""

import array
import http.server
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import threading
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "..", "cli"), os.path.join(FOLDER, "..", "parity")]
from family_models import write_model  # noqa: E402
from trainer import TrainerTest, read_json, run, some_of  # noqa: E402

DATA = os.path.join(FOLDER, "..", "parity", "data")
MODELS = os.path.join(DATA, "models")
TIED = os.path.join(MODELS, "qwen2-tiny")
FAMILIES = ("gemma2", "gpt_oss", "deepseek_v3", "qwen3_next", "falcon_h1", "qwen3_vl")
TARGETS = ["--use_peft", "true", "--lora_target_modules", "q_proj,down_proj", "--lora_r", "4", "--lora_alpha", "64"]


def train(model, output, *flags, ranks=None, **variables):
    rows = os.path.join(os.path.dirname(output), "rows.jsonl")
    with open(rows, "w") as file:
        for row in range(4):
            file.write(json.dumps({"input_ids": [(7 * row + 3 * i) % 60 for i in range(24)]}) + "\n")
    result = run("train", "--model_name_or_path", model, "--dataset_name", rows, "--bf16", "false", "--learning_rate", "0.01",
                 "--max_steps", "2", "--save_steps", "2", "--per_device_train_batch_size", "2", "--output_dir", output, *flags, ranks=ranks,
                 **variables)
    assert result.returncode == 0, result.stderr
    return result


def export(source, folder, *flags, ranks=None):
    result = run("export", source, "--output_dir", folder, *flags, ranks=ranks)
    assert result.returncode == 0, result.stderr


def write_json(value, *path):
    with open(os.path.join(*path), "w") as file:
        json.dump(value, file)


class Weights:
    """The tensors of a model.safetensors in fp32."""
    def __init__(self, folder):
        self.file = os.path.join(folder, "model.safetensors")
        with open(self.file, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            self.header = json.loads(file.read(size))
            self.data = bytearray(file.read())
        self.header.pop("__metadata__", None)

    def __getitem__(self, name):
        begin, end = self.header[name]["data_offsets"]
        return array.array("f", bytes(self.data[begin:end]))

    def __setitem__(self, name, numbers):
        begin, end = self.header[name]["data_offsets"]
        self.data[begin:end] = numbers.tobytes()

    def add(self, name, shape, numbers):
        self.header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(self.data), len(self.data) + 4 * len(numbers)]}
        self.data += numbers.tobytes()

    def save(self):
        header = json.dumps({"__metadata__": {"format": "pt"}, **self.header}).encode()
        header += b" " * (-len(header) % 8)
        with open(self.file, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + self.data)


class Server(http.server.BaseHTTPRequestHandler):
    """The completions protocol, with the numbers of a verify.json; `likely` and `form` belong to the class of each test."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, value, status=200):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        if self.form == "llama.cpp":  # in chunks
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (body[:7], body[7:]):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def do_GET(self):
        if self.form == "no server":
            self.answer(b"<html>", 404)
        else:
            self.answer({"object": "list", "data": [{"id": "served"}]} if self.path == "/v1/models" else {})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["model"] == "served" and asked["max_tokens"] == 1 and asked["temperature"] == 0
        likely = self.likely[json.dumps(asked["messages"] if self.path == "/v1/chat/completions" else asked["prompt"])]
        if self.form == "no probabilities":
            logprobs = None
        elif self.form == "llama.cpp" or "chat" in self.path:
            logprobs = {"content": [{"id": likely[0][0], "top_logprobs": [{"id": token, "token": "?", "logprob": number}
                                                                          for token, number in likely]}]}
        else:
            logprobs = {"tokens": ["?"], "top_logprobs": [{f"token_id:{token}": number for token, number in likely}]}
        self.answer({"choices": [{"text": "?", "logprobs": logprobs}]})


class Verify(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.trained, cls.exported = (os.path.join(cls.made.name, name) for name in ("trained", "exported"))
        train(TIED, cls.trained)
        export(cls.trained, cls.exported)
        cls.lora, cls.merged = (os.path.join(cls.made.name, name) for name in ("lora", "merged"))
        train(TIED, cls.lora, *TARGETS, "--learning_rate", "0.05")
        export(cls.lora, cls.merged, "--merge", "true")

    def broken(self, source):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return shutil.copytree(source, os.path.join(folder.name, "model"))

    def verify(self, folder, *flags, **options):
        return run("verify", folder, *flags, **options)

    def test_what_was_exported_is_that(self):
        rows = read_json(self.exported, "verify.json")["rows"]
        self.assertEqual(len(rows), 16)
        self.assertTrue(any("messages" in row for row in rows) and any("text" in row for row in rows))
        self.assertTrue(all(len(of_place) == 8 for row in rows for of_place in row["likely"]))
        self.assertLess(os.path.getsize(os.path.join(self.exported, "verify.json")), 100_000)
        self.expect(self.verify(self.exported), 0, "tokenizer and chat template: as exported", "weights: as exported", stream="stdout")
        self.expect(self.verify(self.merged, ranks=2), 0, "weights: as exported", stream="stdout")

    def test_a_transposed_matrix(self):
        folder = self.broken(self.exported)
        weights = Weights(folder)
        name = "model.layers.1.self_attn.o_proj.weight"
        size, then = weights.header[name]["shape"][0], weights[name]
        weights[name] = array.array("f", [then[column * size + row] for row in range(size) for column in range(size)])
        weights.save()
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: weights;")
        self.assertIn("weights: log-probabilities differ by up to", result.stdout)
        self.assertIn("tokenizer and chat template: as exported", result.stdout)

    def test_a_tied_head_that_is_lost(self):
        folder = self.broken(self.exported)
        write_json({**read_json(folder, "config.json"), "tie_word_embeddings": False}, folder, "config.json")
        self.expect(self.verify(folder), 65, "weights: ", "lm_head.weight")
        weights = Weights(folder)
        head = array.array("f", reversed(weights["model.embed_tokens.weight"]))
        weights.add("lm_head.weight", weights.header["model.embed_tokens.weight"]["shape"], head)
        weights.save()
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: weights;")
        self.assertIn("the output layer was the embedding in the export, and is a matrix of its own now", result.stdout)

    def test_fewer_rows_for_tokens(self):
        folder = self.broken(self.exported)
        references = read_json(folder, "verify.json")
        references["rows"][0]["ids"][0] = 100000
        write_json(references, folder, "verify.json")
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: ", "weights;")
        self.assertIn("verify.json has the token 100000", result.stdout)
        for field, value in (("vocab_size", 10**14), ("vocab_size", -1)):
            write_json({**references, field: value}, folder, "verify.json")
            self.expect(self.verify(folder), 65, "verify.json: is not what trainer export writes")

    def test_another_chat_template(self):
        folder = self.broken(self.exported)
        with open(os.path.join(folder, "chat_template.jinja")) as file:
            template = file.read()
        with open(os.path.join(folder, "chat_template.jinja"), "w") as file:
            file.write(template.replace("assistant", "model"))
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: chat template;")
        self.assertIn("weights: as exported", result.stdout)
        os.remove(os.path.join(folder, "chat_template.jinja"))
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: chat template;")
        self.assertIn("the folder has no chat template, the export had one", result.stdout)

    def test_an_adapter_merged_twice_and_not_at_all(self):
        before, merged = Weights(TIED), Weights(self.merged)
        for factor, words in ((2, "the adapter is added to the weights twice"), (0, "the adapter is not in the weights")):
            folder = self.broken(self.merged)
            weights = Weights(folder)
            for name in weights.header:
                weights[name] = array.array("f", [a + factor * (b - a) for a, b in zip(before[name], merged[name])])
            weights.save()
            result = self.verify(folder)
            self.expect(result, 65, "is not what was exported: weights;")
            self.assertIn(words, result.stdout)

    def test_a_token_that_moved(self):
        folder = self.broken(self.exported)
        tokenizer = read_json(folder, "tokenizer.json")
        vocabulary = tokenizer["model"]["vocab"]
        by_id = {number: token for token, number in vocabulary.items()}
        first, second = by_id[300], by_id[301]
        vocabulary[first], vocabulary[second] = 301, 300
        write_json(tokenizer, folder, "tokenizer.json")
        result = self.verify(folder)
        self.expect(result, 65, "is not what was exported: tokenizer;")
        self.assertIn("other tokens than in the export have ids among 296 to 303", result.stdout)
        self.assertIn("weights: as exported", result.stdout)

    def test_no_false_alarm_over_families(self):
        for family in some_of(("llama3-tiny", "phi3-tiny", *FAMILIES)):
            with tempfile.TemporaryDirectory() as folder:
                model, output = os.path.join(MODELS, family), os.path.join(folder, "run")
                if family in FAMILIES:
                    model = os.path.join(folder, "model")
                    os.makedirs(model)
                    write_model(read_json(DATA, "families", family + ".json.gz"), model)
                train(model, output)
                for dtype in ("float32", "bfloat16"):
                    with self.subTest(family=family, dtype=dtype):
                        exported = os.path.join(folder, dtype)
                        export(output, exported, "--dtype", dtype)
                        self.expect(self.verify(exported), 0, "weights: as exported", stream="stdout")

    def test_rounding_is_no_other_model(self):
        """The same weights, rounded by another program."""
        folder = self.broken(self.exported)
        exact = read_json(folder, "verify.json")
        export(self.trained, os.path.join(folder, "rounded"), "--dtype", "bfloat16")
        rounded = os.path.join(folder, "rounded")
        write_json(exact, rounded, "verify.json")
        self.expect(self.verify(rounded), 0, "rounding: log-probabilities differ by at most", stream="stdout")

    def test_an_adapter_beside_its_model(self):
        folder = os.path.join(self.made.name, "adapter")
        export(self.lora, folder)
        self.expect(self.verify(folder), 0, "weights: as exported", stream="stdout")
        config = read_json(folder, "adapter_config.json")
        write_json({**config, "lora_alpha": 2 * config["lora_alpha"]}, folder, "adapter_config.json")
        self.expect(self.verify(folder), 65, "is not what was exported: weights;")
        merged = os.path.join(self.made.name, "merged-later")
        write_json(config, folder, "adapter_config.json")
        export(folder, merged, "--merge", "true", "--dtype", "bfloat16")
        self.expect(self.verify(merged), 0, "weights: as exported", stream="stdout")

    def test_the_result_of_a_run(self):
        self.expect(self.verify(self.trained), 0, "weights: as exported", stream="stdout")
        self.expect(self.verify(self.lora), 0, "weights: as exported", stream="stdout")
        split = os.path.join(self.made.name, "split")
        train(TIED, split, "--cp_size", "2", "--bf16", "true", "--dtype", "bfloat16", ranks=2)
        self.expect(self.verify(split), 0, "log-probabilities differ by at most", stream="stdout")

    def test_checkpoints(self):
        for run_folder in (self.trained, self.lora):
            checkpoint = os.path.join(run_folder, "checkpoint-2")
            self.assertEqual(read_json(checkpoint, "verify.json")["rows"][0]["ids"], read_json(run_folder, "verify.json")["rows"][0]["ids"])
            self.expect(self.verify(checkpoint, ranks=2), 0, "tokenizer and chat template: as exported", "weights: as exported", stream="stdout")
        rounded = os.path.join(self.made.name, "rounded")
        train(TIED, rounded, "--cp_size", "2", "--bf16", "true", "--save_only_model", "true", "--max_steps", "4", ranks=2)
        self.expect(self.verify(os.path.join(rounded, "checkpoint-2")), 0, "log-probabilities differ by at most", stream="stdout")
        self.assertNotEqual(read_json(rounded, "checkpoint-2", "verify.json"), read_json(rounded, "checkpoint-4", "verify.json"))
        other = os.path.join(self.made.name, "other")
        shutil.copytree(os.path.join(self.trained, "checkpoint-2"), os.path.join(other, "checkpoint-2"))
        with open(os.path.join(other, "checkpoint-2", "verify.json"), "r+") as file:
            numbers = re.sub(r"-(\d)\.", lambda number: f"-{(int(number[1]) + 3) % 10}.", file.read())
            file.seek(0)
            file.write(numbers)  # of the same size, which the checkpoint has noted
        self.expect(self.verify(os.path.join(other, "checkpoint-2")), 65, "verify.json: is not what was written: it has the hash")

    def test_rows_need_a_folder_and_a_run_does_not(self):
        """Rows are made of files in TMPDIR, which a job may not have: the run goes on, and says what is missing."""
        output = os.path.join(self.made.name, "without-rows")
        said = train(TIED, output, TMPDIR=os.path.join(self.made.name, "nowhere"))
        self.assertEqual(said.stderr.count("no folder for temporary files can be made"), 1, said.stderr)
        self.assertIn("set TMPDIR to one that can be written; verify.json is left out", said.stderr)
        for folder in (output, os.path.join(output, "checkpoint-2")):
            self.assertTrue(os.path.exists(os.path.join(folder, "config.json")))
            self.assertFalse(os.path.exists(os.path.join(folder, "verify.json")))

    def test_the_numbers_are_those_of_several_ranks(self):
        one, two = read_json(self.exported, "verify.json"), os.path.join(self.made.name, "two")
        export(self.trained, two, ranks=2)
        for ours, theirs in zip(read_json(two, "verify.json")["rows"], one["rows"]):
            self.assertEqual(ours["ids"], theirs["ids"])
            for a, b in zip(ours["likely"], theirs["likely"]):
                for (_, first), (_, second) in zip(a, b):
                    self.assertAlmostEqual(first, second, delta=1e-4)

    def serve(self, form, change=lambda kind, likely: likely):
        """Serves the export; `change` makes other numbers of those for ids, texts and messages."""
        known = {}
        for row in read_json(self.exported, "verify.json")["rows"]:
            for place, likely in zip(row["positions"], row["likely"]):
                known[json.dumps(row["ids"][:place + 1])] = change("ids", likely)
            for kind in ("text", "messages"):
                if kind in row:
                    known[json.dumps(row[kind])] = change(kind, row["likely"][-1])
        handler = type("Handler", (Server,), {"likely": known, "form": form})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def test_a_server(self):
        for form in ("vLLM", "llama.cpp"):
            with self.subTest(form=form):
                self.expect(self.verify(self.exported, "--url", self.serve(form)), 0, "serves served as exported", stream="stdout")
        rounded = self.serve("vLLM", lambda kind, likely: [[token, number + 0.1] for token, number in likely])
        self.expect(self.verify(self.exported, "--url", rounded), 0, "differ by at most 0.1", stream="stdout")
        self.expect(self.verify(self.exported, "--url=" + rounded + "/v1/", "--tolerance", "0.05"), 65, "exported", ": weights;")

    def test_a_server_that_answers_otherwise(self):
        for kind, cause in (("ids", "weights"), ("text", "tokenizer"), ("messages", "chat template")):
            with self.subTest(cause=cause):
                url = self.serve("vLLM", lambda of, likely: [[token, number - (of == kind)] for token, number in likely])
                result = self.verify(self.exported, "--url", url)
                self.expect(result, 65, f"does not serve what was exported to {self.exported}: {cause};")
                self.assertIn(cause + ": row ", result.stdout)
        for form, words in (("no server", "/models answers with status 404: <html>; it must offer the completions protocol"),
                            ("no probabilities", "/completions answers without the 8 most likely tokens")):
            self.expect(self.verify(self.exported, "--url", self.serve(form)), 65, words)

    def test_no_server(self):
        self.expect(self.verify(self.exported, "--url", "http://127.0.0.1:1"), 66, "Connection refused; start the server there before")
        self.expect(self.verify(self.exported, "--url", "https://example.org"), 78, "https is not served")
        self.expect(self.verify(self.exported, "--url", "localhost:8000"), 78, "must begin with http://")
        self.expect(self.verify(self.exported, "--url", "http://:8000"), 78, "must name a host and a port")
        self.expect(self.verify(self.exported, "--url"), 64, "--url has no value")
        self.expect(self.verify(self.exported, "--tolerance", "0.5"), 64, "--tolerance is that of a server: name --url")
        self.expect(self.verify("--url", "http://localhost"), 64, "name the folder of the model that is served")
        self.expect(self.verify(TIED, "--url", "http://localhost"), 66, "verify.json: there is no such file")

    def test_what_cannot_be(self):
        self.expect(run("verify"), 64, "name the folder of a model: trainer verify FOLDER")
        self.expect(self.verify(TIED), 66, "verify.json: there is no such file")
        folder = self.broken(self.exported)
        write_json({"rows": []}, folder, "verify.json")
        self.expect(self.verify(folder), 65, "is not what trainer export writes; export the model again")


if __name__ == "__main__":
    unittest.main()
