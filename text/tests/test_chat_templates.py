"""Chat templates against transformers: the templates that trl and transformers carry, on random conversations,
rendered by transformers' own function and by template_tool; and the same templates broken in many ways."""

import ast
import datetime
import importlib.util
import json
import logging
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest

try:
    import transformers
    import transformers.utils.chat_template_utils as theirs
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

TRL = importlib.util.find_spec("trl")  # only its templates are wanted
if TRL is None:
    print("skipped: trl is not installed; scripts/setup --oracles installs it")
    sys.exit(77)

SEED = int(os.environ.get("TEST_SEED", "1"))
CONVERSATIONS = int(os.environ.get("TEST_CONVERSATIONS", "2000"))
MUTATIONS = int(os.environ.get("TEST_MUTATIONS", "2000"))
NOW = [2024, 3, 5, 7, 8, 9]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
logging.getLogger("transformers").setLevel(logging.ERROR)


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(*NOW)


theirs.datetime = FixedClock


def templates_of_trl():
    folder = pathlib.Path(TRL.submodule_search_locations[0]) / "chat_templates"
    return {file.name: file.read_text() for file in sorted(folder.glob("*.jinja"))}


def templates_of_transformers():
    """Text constants of the package that look like chat templates."""
    found = {}
    for file in sorted(pathlib.Path(transformers.__file__).parent.rglob("*.py")):
        source = file.read_text(errors="replace")
        if "in messages" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.search(r"{%-?\s*for \w+ in messages", node.value):
                    found[f"{file.name}:{node.lineno}"] = node.value
    return found


WORDS = ["Hello", "wörld", "日本語", "<b>&", "x\ny", "  padded  ", "", "😀", "'quoted' \"text\"", "{{ not }}", "\\n",
         "<think>\nhm\n</think>\n\nanswer", "<tool_response>ok</tool_response>", "<|im_end|>", "a" * 50, "\t", "ß ŉ İ"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        return self.random.choice([" ", "\n", ""]).join(self.random.choices(WORDS, k=self.random.randint(1, 3)))

    def value(self, depth=0):
        kind = self.random.randrange(9 if depth < 3 else 6)
        if kind == 0:
            return self.random.choice([None, True, False])
        if kind == 1:
            return self.random.randint(-10**6, 10**6)
        if kind == 2:
            return self.random.choice([0.0, -0.5, 1e-7, 1e16, 123456.789, 1e22, 3.0])
        if kind <= 5:
            return self.text()
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        return {self.random.choice(["a", "b", "key", "items", "é"]): self.value(depth + 1)
                for _ in range(self.random.randrange(3))}

    def arguments(self):
        made = {name: self.value() for name in self.random.sample(["place", "days", "deep", "q"], 2)}
        return json.dumps(made) if self.random.random() < 0.25 else made

    def tool_calls(self):
        calls = []
        for number in range(self.random.randint(1, 3)):
            function = {"name": self.random.choice(["weather", "add"]), "arguments": self.arguments()}
            call = {"type": "function", "function": function} if self.random.random() < 0.8 else function
            if self.random.random() < 0.5:
                call["id"] = f"call{number:05}"
            calls.append(call)
        return calls

    def parts(self):
        made = []
        for _ in range(self.random.randrange(3)):
            kind = self.random.choice(["text", "text", "text", "image", "audio", "video"])
            made.append({"type": kind, kind: self.text()} if kind == "text" or self.random.random() < 0.5
                        else {"type": kind})
        return made

    def content(self):
        chance = self.random.random()
        if chance < 0.75:
            return self.text()
        if chance < 0.9:
            return self.parts()
        return self.random.choice([None, "", 5, {"a": 1}]) if chance > 0.97 else None

    def message(self, role):
        made = {"role": role}
        if self.random.random() < 0.95:
            made["content"] = self.content()
        if role == "assistant":
            if self.random.random() < 0.3:
                made["tool_calls"] = self.tool_calls()
            if self.random.random() < 0.3:
                made[self.random.choice(["reasoning_content", "thinking", "reasoning"])] = self.random.choice(
                    [self.text(), None])
        if role == "tool" and self.random.random() < 0.7:
            made["name"] = self.random.choice(["weather", "add"])
            made["tool_call_id"] = "call00000"
        return made

    def messages(self):
        made = [self.message(self.random.choice(["system", "developer"]))] if self.random.random() < 0.4 else []
        if self.random.random() < 0.2:
            roles = ["user", "assistant", "tool", "system", "stranger"]
            return made + [self.message(self.random.choice(roles)) for _ in range(self.random.randint(0, 5))]
        for _ in range(self.random.randint(1, 4)):
            made.append(self.message("user"))
            if self.random.random() < 0.9:
                made.append(self.message("assistant"))
                while "tool_calls" in made[-1] and self.random.random() < 0.6:
                    made.append(self.message("tool"))
                    if self.random.random() < 0.5:
                        made.append(self.message("assistant"))
        return made

    def tool(self):
        parameters = {"type": "object", "properties": {
            "place": {"type": "string", "description": self.text()},
            "days": {"type": self.random.choice(["integer", ["integer", "null"]]), "default": 1},
            "deep": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}}, "required": ["place"]}
        made = {"type": "function", "function": {
            "name": self.random.choice(["weather", "add"]), "description": self.text(), "parameters": parameters}}
        if self.random.random() < 0.2:
            made["function"]["return"] = {"type": "string", "description": "what"}
        return made if self.random.random() < 0.9 else made["function"]

    def row(self, template):
        tools = self.random.choice([None, None, [], [self.tool()], [self.tool(), self.tool()]])
        chosen = {"enable_thinking": self.random.random() < 0.5, "thinking": self.random.random() < 0.5,
                  "reasoning_effort": self.random.choice(["low", "high"]), "date_string": "1 Jan 2025",
                  "tools_in_user_message": False, "preserve_thinking": True, "keep_past_thinking": True,
                  "custom_tools": None, "builtin_tools": ["browser"], "model_identity": "I am", "add_vision_id": True}
        kwargs = {name: chosen[name] for name in self.random.sample(sorted(chosen), self.random.choice([0, 0, 1, 2]))}
        row = {"template": template, "messages": self.messages(), "tools": tools, "documents": None,
               "kwargs": {**TOKENS, **kwargs}, "add_generation_prompt": self.random.random() < 0.3,
               "continue_final_message": False, "now": NOW}
        if self.random.random() < 0.1:
            row["documents"] = [{"title": self.text(), "text": self.text()}]
        if not row["add_generation_prompt"] and self.random.random() < 0.15:
            row["continue_final_message"] = self.random.choice([True, True, "reasoning_content"])
        return row


def render_theirs(row):
    """What apply_chat_template does before it hands over."""
    try:
        messages = json.loads(json.dumps(row["messages"]))
        if not messages:
            raise IndexError("empty")
        messages = [{k: v for k, v in m.items() if v is not None} for m in messages]
        continues = row["continue_final_message"]
        texts, spans = theirs.render_jinja_template(
            conversations=[messages], tools=row["tools"], documents=row["documents"], chat_template=row["template"],
            return_assistant_tokens_mask=not continues, continue_final_message=continues,
            add_generation_prompt=row["add_generation_prompt"], **row["kwargs"])
        return {"text": texts[0], "spans": [list(span) for span in spans[0]] if not continues else []}
    except RecursionError:
        raise
    except Exception as error:  # any failure of a template counts, whatever its kind
        return {"error": f"{type(error).__name__}: {error}"}


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["TEMPLATE_TOOL"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, row):
        self.process.stdin.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError(f"template_tool ended with {self.process.wait()} on {json.dumps(row)}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def differs(theirs_, ours):
    if "error" in theirs_ or "error" in ours:
        return ("error" in theirs_) != ("error" in ours)
    return theirs_ != ours


class ChatTemplates(unittest.TestCase):
    def setUp(self):
        self.tool = Tool()

    def tearDown(self):
        self.assertEqual(self.tool.close(), 0)

    def compare(self, rows):
        different, rendered = [], 0
        for name, row in rows:
            expected, given = render_theirs(row), self.tool.ask(row)
            rendered += "text" in expected
            if differs(expected, given):
                different.append((name, {k: v for k, v in row.items() if k != "template"}, expected, given))
        shown = "\n".join(f"{n}\n  row: {json.dumps(r)[:1500]}\n  theirs: {str(e)[:1500]}\n  ours:   {str(g)[:1500]}"
                          for n, r, e, g in different[:5])
        print(f"{len(rows)} renderings, {rendered} of them with a text, {len(different)} different", file=sys.stderr)
        self.assertFalse(different, f"{len(different)} of {len(rows)} differ (seed {SEED}):\n{shown}")

    def test_templates_of_trl(self):
        maker, rows = Maker(SEED), []
        templates = templates_of_trl()
        for number in range(CONVERSATIONS):
            name = sorted(templates)[number % len(templates)]
            rows.append((name, maker.row(templates[name])))
        self.compare(rows)

    def test_training_templates_of_trl(self):
        """Stock templates that TRL has a training template for: ours, made of the stock one, renders and marks the same."""
        templates = templates_of_trl()
        names = sorted(name.removesuffix("_training.jinja") for name in templates if name.endswith("_training.jinja"))
        maker, different, marked = Maker(SEED + 3), [], 0
        for number in range(CONVERSATIONS):
            name = names[number % len(names)]
            row = maker.row(templates[f"{name}_training.jinja"])
            row["continue_final_message"] = False
            if name in ("idefics3", "llava_next", "smolvlm") or number % 16 == 0:
                for message in row["messages"]:
                    if isinstance(message.get("content"), str):
                        message["content"] = [{"type": "text", "text": message["content"]}]
            expected = render_theirs(row)
            given = self.tool.ask({**row, "template": templates[f"{name}.jinja"], "training": True})
            marked += bool(expected.get("spans"))
            if differs(expected, given):
                different.append((name, {k: v for k, v in row.items() if k != "template"}, expected, given))
        shown = "\n".join(str(each)[:3000] for each in different[:5])
        self.assertGreater(marked, CONVERSATIONS // 4)
        self.assertFalse(different, f"{len(different)} of {CONVERSATIONS} differ (seed {SEED}):\n{shown}")

    def test_templates_of_transformers(self):
        maker, rows = Maker(SEED + 1), []
        templates = templates_of_transformers()
        self.assertGreater(len(templates), 0)
        for number in range(CONVERSATIONS // 2):
            name = sorted(templates)[number % len(templates)]
            rows.append((name, maker.row(templates[name])))
        self.compare(rows)

    def test_broken_templates_end_with_an_answer(self):
        maker = Maker(SEED + 2)
        pick = maker.random
        sources = sorted(templates_of_trl().values())
        pieces = ["{%", "%}", "{{", "}}", "{#", "#}", "(", ")", "[", "]", "|", "'", "\"", ".", "-", "~", " if ", " else ",
                  " for x in y ", "{% endif %}", "{% endfor %}", "{% set x = x + [x] %}", "9" * 25, "{% generation %}",
                  "| tojson", "[::-1]", " * 99999999", "range(99999) ", "**", "\\x", "%"]
        for _ in range(MUTATIONS):
            text = pick.choice(sources)
            for _ in range(pick.randint(1, 4)):
                at = pick.randrange(len(text) + 1)
                cut = pick.choice([0, 0, 1, 5, 40])
                text = text[:at] + pick.choice(pieces + [text[(b := pick.randrange(len(text))):b + 30]]) + text[at + cut:]
            answer = self.tool.ask(maker.row(text))
            self.assertTrue("text" in answer or "error" in answer)


if __name__ == "__main__":
    unittest.main()
