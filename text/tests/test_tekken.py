"""tekken.json, Mistral's file of a tokenizer, against mistral_common: tokens of texts and of conversations.

The file is made here, in the true form; data/tekken.json.gz holds texts and conversations with the tokens that mistral_common 1.13.1 makes
of them. `test_tekken.py --make`, with that package, writes them anew.
"""

import base64
import collections
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

DATA = pathlib.Path(__file__).parent / "data" / "tekken.json.gz"
PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
           r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
           r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
FIRST = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
         "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
         "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
LATER = ["[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]
VERSIONS = ["v3", "v7", "v11", "v13"]
CORPUS = """the of and to in is that for it as was with be on not he by are this at from have or an they which one you had all were when
there can more if out so said what its about than into could time two first then some these may do weather tool city Paris degrees sunny
temperature get_weather location unit celsius name arguments content description parameters type object properties string required
naïve café über straße привет мир слово 日本語 中文字符 한국어 नमस्ते def return self value None import class aaaa aaa aaaaaa abab ababab
""".split()


def merged_tokens(count):
    """Tokens as byte-pair encoding finds them in the words of CORPUS; some can be made of several pairs."""
    words = [[bytes([b]) for b in (" " + word).encode()] for word in CORPUS] + [[bytes([b]) for b in word.encode()] for word in CORPUS]
    tokens = []
    while len(tokens) < count:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        (left, right), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        if left + right not in tokens:
            tokens.append(left + right)
        for word in words:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == (left, right):
                    word[at:at + 2] = [left + right]
                at += 1
    return tokens


def tekken(version, merges=600):
    """A tekken.json. v3's lists no special tokens, as that of the first model; the others' leave some ids to fillers."""
    tokens = [bytes([b]) for b in range(256)] + merged_tokens(merges)
    vocab = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode("utf-8", "ignore") or None}
             for i, t in enumerate(tokens)]
    names = FIRST if version == "v3" else FIRST + LATER
    special = 40
    file = {"config": {"pattern": PATTERN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + special - 5,
                       "default_num_special_tokens": special, "version": version},
            "vocab": vocab, "version": 1, "type": "Tekken"}
    if version != "v3":
        file["special_tokens"] = [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(names)]
    return file


def texts():
    rng = random.Random(11)
    spaces = [" ", "  ", "\n", "\r\n\n", "\t", " \n ", "\u3000", ""]
    odd = ["3.14159", "2024-03-05", "x1==y2;", "HTTPServer", "ǅ", "e\u0301", "😀", "http://a.b/c?d=e", "...\n/", "don't"]
    made = ["", " ", "aaaaaaaaaaa", "abababababaabab" * 9, "\n\n\n x"]
    while len(made) < 30:
        made.append("".join(rng.choice(CORPUS + odd) + rng.choice(spaces) for _ in range(rng.randrange(1, 25))))
    return made


def conversations():
    rng = random.Random(7)

    def say(n=12):
        return " ".join(rng.choice(CORPUS) for _ in range(rng.randrange(1, n)))

    tool = {"type": "function", "function": {
        "name": "get_weather", "description": "Gets the \"weather\" of a city, naïve",
        "parameters": {"type": "object", "required": ["city"],
                       "properties": {"city": {"type": "string"}, "days": {"type": "integer", "description": "how many"}}}}}
    bare = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    made = []
    for number in range(30):
        messages = []
        if number % 3 == 0:
            messages.append({"role": "system", "content": say()})
        for turn in range(1 + number % 4):
            messages.append({"role": "user", "content": say() + (" " if number % 5 == 0 else "")})
            if number % 2 == 1 and turn == 0:
                ids = ["".join(rng.choice("abcXYZ019") for _ in range(9)) for _ in range(1 + number % 3 % 2)]
                messages.append({"role": "assistant", "content": "", "tool_calls": [
                    {"id": one, "type": "function", "function": {
                        "name": "get_weather", "arguments": {"city": "Paris é", "days": 2 + turn, "flag": True, "none": None}}}
                    for one in ids]})
                for one in ids:
                    messages.append({"role": "tool", "name": "get_weather", "tool_call_id": one,
                                     "content": rng.choice(['{"temperature": 22.5}', "22", "sunny, \"warm\"", "[1, 2]", "3.5", "true"])})
            messages.append({"role": "assistant", "content": say() + (" \n " if number % 7 == 0 else "  " if number % 4 == 0 else "")})
        made.append({"messages": messages, "tools": [tool, bare][:1 + number % 4 // 2] if number % 2 else None})
    return made


def thinking():
    return {"messages": [
        {"role": "system", "content": [{"type": "text", "text": "the city"}, {"type": "thinking", "thinking": "of Paris", "closed": True},
                                       {"type": "text", "text": "and so"}]},
        {"role": "user", "content": [{"type": "text", "text": "time"}, {"type": "text", "text": "more"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "the value is", "closed": True},
                                          {"type": "text", "text": " about two"}]}], "tools": None}


def make():
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import ValidationMode
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    golden = {"conversations": {}}
    with tempfile.TemporaryDirectory() as folder:
        for version in VERSIONS:
            path = pathlib.Path(folder) / "tekken.json"
            path.write_text(json.dumps(tekken(version)))
            theirs = MistralTokenizer.from_file(str(path), mode=ValidationMode.finetuning)
            golden["texts"] = [[text, theirs.instruct_tokenizer.tokenizer.encode(text, False, False)] for text in texts()]
            golden["conversations"][version] = [
                theirs.encode_chat_completion(ChatCompletionRequest(**json.loads(json.dumps(one)))).tokens
                for one in conversations() + ([thinking()] if version == "v13" else [])]
    with open(DATA, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).encode())


def ask(tool, requests, *arguments):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    answer = subprocess.run([os.environ[tool], *arguments], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in answer.stdout.split("\n") if line]


class Tekken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.golden = json.loads(gzip.decompress(DATA.read_bytes()))

    def folder(self, version, **changes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = tekken(version) | changes
        (pathlib.Path(folder.name) / "tekken.json").write_text(json.dumps(file))
        return pathlib.Path(folder.name)

    def test_texts(self):
        for version in VERSIONS:
            head, *answers = ask("TOKENIZER_TOOL", [{"text": text} for text, _ in self.golden["texts"]], str(self.folder(version)))
            self.assertEqual(head["vocab_size"], 256 + len(merged_tokens(600)) + 35)
            self.assertEqual([name[:2] for name in head["special_tokens"]],
                             [["bos_token", "<s>"], ["eos_token", "</s>"], ["unk_token", "<unk>"], ["pad_token", "<pad>"]])
            self.assertEqual([name[2] for name in head["special_tokens"]], [1, 2, 0, 11])
            for (text, ids), answer in zip(self.golden["texts"], answers):
                self.assertEqual(answer["ids"], ids, (version, text))
                self.assertEqual(answer["decoded"], text, version)

    def test_special_tokens_of_a_text(self):
        _, known, filler = ask("TOKENIZER_TOOL", [{"text": "[INST]the[/INST]"}, {"decode": [24, 39]}], str(self.folder("v7")))
        self.assertEqual([known["ids"][0], known["ids"][-1]], [3, 4])
        self.assertEqual(filler["decoded"], "<SPECIAL_24><SPECIAL_39>")
        self.assertEqual(filler["decoded_skip_special"], "")

    def test_conversations(self):
        for version in VERSIONS:
            folder = self.folder(version)
            head, = ask("TOKENIZER_TOOL", [], str(folder))
            rows = conversations() + ([thinking()] if version == "v13" else [])
            rendered = ask("TEMPLATE_TOOL", [
                {"template": head["chat_templates"]["default"], "messages": row["messages"], "tools": row["tools"],
                 "kwargs": {"bos_token": "<s>", "eos_token": "</s>"}} for row in rows])
            for one in rendered:
                self.assertIn("text", one, version)
            _, *answers = ask("TOKENIZER_TOOL", [{"text": one["text"]} for one in rendered], str(folder))
            for row, one, answer, wanted in zip(rows, rendered, answers, self.golden["conversations"][version]):
                self.assertEqual(answer["ids_no_special"], wanted, (version, one["text"]))
                self.assertTrue(one["spans"], version)
                for begin, end in one["spans"]:
                    self.assertTrue(one["text"][:end].endswith("</s>"), version)
                    self.assertIn(one["text"][:begin][-7:], ("[/INST]", "RESULTS]"[-7:]), version)

    def test_what_the_template_refuses(self):
        head, = ask("TOKENIZER_TOOL", [], str(self.folder("v3")))
        twice = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
        call = [{"role": "user", "content": "a"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "short", "function": {"name": "f", "arguments": {}}}]}]
        answers = ask("TEMPLATE_TOOL", [{"template": head["chat_templates"]["default"], "messages": messages,
                                         "kwargs": {"bos_token": "<s>", "eos_token": "</s>"}} for messages in (twice, call)])
        self.assertIn("two messages of the role user follow each other", answers[0]["error"])
        self.assertIn("an id of 9 letters and digits", answers[1]["error"])

    def test_a_template_beside_it_and_other_versions(self):
        folder = self.folder("v13")
        (folder / "chat_template.jinja").write_text("{{ messages }}")
        self.assertEqual(ask("TOKENIZER_TOOL", [], str(folder))[0]["chat_templates"], {"default": "{{ messages }}"})
        config = tekken("v13")["config"] | {"version": "v15"}
        self.assertEqual(ask("TOKENIZER_TOOL", [], str(self.folder("v13", config=config)))[0]["chat_templates"], {})

    def test_broken_files(self):
        good = tekken("v13")
        vocab = good["vocab"]
        for changes, message in (
                ({"config": good["config"] | {"version": "v99"}}, '"version" v99 is not known'),
                ({"config": good["config"] | {"default_vocab_size": 100000}}, '"vocab" has'),
                ({"vocab": [vocab[1], vocab[0], *vocab[2:]]}, 'entry 0 of "vocab" has another rank'),
                ({"vocab": [vocab[0] | {"token_bytes": "!!"}, *vocab[1:]]}, "is not base64"),
                ({"vocab": [vocab[0] | {"token_bytes": "QQ=="}, *vocab[1:]]}, "is not the byte 0"),
                ({"special_tokens": None}, '"special_tokens" is missing'),
                ({"special_tokens": good["special_tokens"] + good["special_tokens"][:1]}, "where each of the 40 ranks comes once"),
                ({"special_tokens": good["special_tokens"][:3] + good["special_tokens"][4:]}, "leave a number out")):
            refused = ask("TOKENIZER_TOOL", [], str(self.folder("v13", **changes)))[0]
            self.assertIn("tekken.json: ", refused.get("refused", ""), changes)
            self.assertIn(message, refused["refused"])
        folder = self.folder("v13")
        (folder / "tekken.json").write_text("{")
        self.assertIn("is not JSON", ask("TOKENIZER_TOOL", [], str(folder))[0]["refused"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--make"]:
        make()
    else:
        unittest.main()
