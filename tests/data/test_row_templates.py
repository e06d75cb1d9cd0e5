"""`--row_template` and recipes' own forms of data: the tokens and labels that the builders of NeMo Automodel and axolotl make, computed
here with transformers' tokenizer from their rules; placeholders; system messages; messages of errors."""

import base64
import contextlib
import json
import os
import shutil
import sys
import unittest
import zlib

import builder_rows
from preparing import HERE, MODEL, PrepareTest, run

try:
    with contextlib.redirect_stderr(open(os.devnull, "w")):
        import datasets
        from transformers import AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

TEMPLATES = HERE.parent.parent / "configs" / "row_templates"
TOKENIZER = AutoTokenizer.from_pretrained(MODEL)
CHAT = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
        "{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}<|im_end|>\n{% endfor %}")
TOOL_CHAT = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHAT
CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
          "{% if message.tool_calls %}{{ message.tool_calls | tojson }}{% endif %}<|im_end|>\n{% endfor %}"
          "{% if tools %}{{ tools | tojson }}{% endif %}")


def ids(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def apart(*pieces):
    """Texts that are tokenized apart: (text, learned)."""
    tokens = [ids(text) for text, _ in pieces]
    return sum(tokens, []), sum((some if learned else [-100] * len(some) for some, (_, learned) in zip(tokens, pieces, strict=True)), [])


def joined(prompt, answer):
    tokens = ids(prompt + answer)
    cut = len(ids(prompt))
    return tokens, [-100] * cut + tokens[cut:]


def chat(messages, tools=None):
    """As Automodel masks it: an answer is what its turn adds to the rendering."""
    def of(number):
        return TOKENIZER.apply_chat_template(messages[:number], tools=tools, chat_template=CHATML, tokenize=True, return_dict=True)["input_ids"]
    tokens, before = of(len(messages)), TOKENIZER.apply_chat_template(messages[:-1], tools=None, chat_template=CHATML, tokenize=True,
                                                                      return_dict=True)["input_ids"]
    return tokens, [-100] * len(before) + tokens[len(before):]


class RowTemplates(PrepareTest):
    def check(self, prepared, *expected):
        rows = self.rows(prepared)
        self.assertEqual([(row["input_ids"], row["labels"]) for row in rows], [(list(a), list(b)) for a, b in expected])

    def test_hellaswag(self):
        data = self.write("hellaswag.jsonl", [
            {"ctx": "A man holds a rope. He", "endings": ["sings.", "pulls it up."], "label": "1", "activity_label": "x"},
            {"ctx": "She opens", "endings": ["the door", "a book,"], "label": "0", "activity_label": "y"}])
        self.check(self.prepare("--dataset_name", data, "--row_template", str(TEMPLATES / "hellaswag.json")),
                   apart(("A man holds a rope. He", False), ("pulls it up.", True)), apart(("She opens", False), ("the door", True)))

    def test_squad(self):
        rows = [{"id": "1", "context": "Rome is old.", "question": "What is old?", "answers": {"text": [" Rome "], "answer_start": [0]}}]
        data = self.write("squad.jsonl", rows)
        asked = "Context: Rome is old. Question: What is old? Answer: "
        with_template = ("--chat_template", CHATML, "--assistant_only_loss", "true")
        template = ("--row_template", str(TEMPLATES / "squad.jinja"))
        self.check(self.prepare("--dataset_name", data, *template, *with_template),
                   chat([{"role": "user", "content": asked}, {"role": "assistant", "content": "Rome"}]))

    def test_xlam(self):
        tools = [{"name": "f", "description": "d", "parameters": {"x": {"type": "int", "description": "a"},
                                                                   "y": {"type": "Str", "default": "q"}}}]
        answers = [{"name": "f", "arguments": {"x": 1}}]
        data = self.write("xlam.jsonl", [{"id": 7, "query": "call f", "tools": json.dumps(tools), "answers": json.dumps(answers)}])
        schema = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {
            "type": "object", "properties": {"x": {"type": "integer", "description": "a"},
                                             "y": {"type": "string", "description": "", "default": "q"}}, "required": ["x"]}}}]
        calls = [{"id": "call_7_0", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": 1})}}]
        messages = [{"role": "user", "content": "call f"}, {"role": "assistant", "content": "", "tool_calls": calls}]
        template = CHATML.split("{% if tools %}", maxsplit=1)[0]
        prepared = self.prepare("--dataset_name", data, "--row_template", str(TEMPLATES / "xlam.jinja"), "--assistant_only_loss", "true",
                                "--chat_template", "{% if tools %}{{ tools | tojson }}{% endif %}" + template)
        tokens = TOKENIZER.apply_chat_template(messages, tools=schema, tokenize=True, return_dict=True,
                                               chat_template="{% if tools %}{{ tools | tojson }}{% endif %}" + template)["input_ids"]
        before = TOKENIZER.apply_chat_template(messages[:1], tools=schema, tokenize=True, return_dict=True,
                                               chat_template="{% if tools %}{{ tools | tojson }}{% endif %}" + template)["input_ids"]
        self.check(prepared, (tokens, [-100] * len(before) + tokens[len(before):]))

    def test_alpaca(self):
        data = self.write("alpaca.jsonl", [{"instruction": "Add.", "input": "1, 2", "output": "3"},
                                           {"instruction": "Sing.", "input": "", "output": "La la"}])
        with_input = ("Below is an instruction that describes a task, paired with an input that provides further context. Write a response "
                      "that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1, 2\n\n### Response:\n")
        without = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                   "### Instruction:\nSing.\n\n### Response:\n")
        eos = TOKENIZER.eos_token
        expected = (apart((with_input, False), ("3" + eos, True)), apart((without, False), ("La la" + eos, True)))
        self.check(self.prepare("--dataset_name", data, "--row_template", str(TEMPLATES / "alpaca.json")), *expected)
        recipe = self.folder / "recipe.yaml"
        recipe.write_text(f"base_model: {MODEL}\nlearning_rate: 1e-5\nsequence_len: 1024\ndatasets:\n  - path: {data}\n    type: alpaca\n")
        self.check(self.prepare("--config", str(recipe)), *expected)

    def prepare_without_template(self, *flags):
        model = self.folder / "no-template"
        shutil.copytree(MODEL, model)
        (model / "chat_template.jinja").unlink(missing_ok=True)
        config = json.loads((model / "tokenizer_config.json").read_text())
        config.pop("chat_template", None)
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        return run("prepare", "--model_name_or_path", str(model), "--data_cache_dir", str(self.folder / "cache"), *flags)

    def test_builders(self):
        """200 rows of each data set against checksums of what NeMo Automodel 36044ad and axolotl 0.19.0 made of them, with their own code."""
        golden = json.loads((HERE / "builders.json").read_text())
        answers = ("--assistant_only_loss", "true")
        for name, rows, flags in (
                ("hellaswag", builder_rows.hellaswag, ("--row_template", str(TEMPLATES / "hellaswag.json"))),
                ("squad", builder_rows.squad, ("--row_template", str(TEMPLATES / "squad.jinja"))),
                ("squad_chat", builder_rows.squad, ("--row_template", str(TEMPLATES / "squad.jinja"), *answers, "--chat_template", CHAT)),
                ("xlam", builder_rows.xlam, ("--row_template", str(TEMPLATES / "xlam.jinja"), *answers, "--chat_template", TOOL_CHAT)),
                ("alpaca", builder_rows.alpaca, ("--row_template", str(TEMPLATES / "alpaca.json")))):
            with self.subTest(name):
                prepare = self.prepare_without_template if name == "squad" else self.prepare
                made = self.rows(prepare("--dataset_name", self.write(f"{name}.jsonl", rows(200)), "--max_length", "4096", *flags))
                sums = b"".join(zlib.crc32(json.dumps([row["input_ids"], row["labels"]]).encode()).to_bytes(4, "little") for row in made)
                theirs = base64.b64decode(golden[name])
                theirs = [theirs[at:at + 4] for at in range(0, len(theirs), 4)]
                self.assertEqual(len(theirs), 200)
                # The sum 0 is that of a row without a target, whose answer became one token with the space before it: no row here.
                learned = [i for i in range(200) if theirs[i] != bytes(4)]
                self.assertGreater(len(learned), 180)
                wrong = [i for number, i in enumerate(learned) if sums[4 * number:4 * number + 4] != theirs[i]]
                self.assertEqual((len(made), wrong[:3]), (len(learned), []), name)

    def test_the_examples_are_what_recipes_become(self):
        for name, target in (("hellaswag.json", "hellaswag.HellaSwag"), ("squad.jinja", "squad.make_squad_dataset"),
                             ("xlam.jinja", "xlam.make_xlam_dataset")):
            recipe = self.folder / "automodel.yaml"
            recipe.write_text("recipe: TrainFinetuneRecipeForNextTokenPrediction\nmodel:\n"
                              "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
                              f"  pretrained_model_name_or_path: m\ndataset:\n  _target_: nemo_automodel.components.datasets.llm.{target}\n"
                              "  split: train\n")
            result = run("config", "--json", "--config", str(recipe))
            self.expect(result, 0)
            became = json.loads(result.stdout)["row_template"]["value"]
            example = (TEMPLATES / name).read_text().strip()
            self.assertEqual(became if isinstance(became, str) else json.dumps(became), example if name.endswith(".jinja")
                             else json.dumps(json.loads(example)))

    def test_conversations_of_ms_swift(self):
        data = self.write("swift.jsonl", [
            {"query": "Who are you?", "response": "I am {{NAME}} of {{AUTHOR}}.", "tag": "en"},
            {"messages": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            {"instruction": "i", "input": "j", "output": "k", "system": "s"}])
        script = self.folder / "sft.sh"
        script.write_text(f"swift sft --model {MODEL} --dataset {data} --model_name Bot --model_author Ann --loss_scale all \\\n"
                          "  --system 'Be kind.' --max_length 256\n")
        def turns(*pairs):
            return TOKENIZER.apply_chat_template([{"role": role, "content": content} for role, content in pairs], chat_template=CHATML,
                                                 tokenize=True, return_dict=True)["input_ids"]
        rows = self.rows(self.prepare("--from_shell", str(script), "--chat_template", CHATML))
        self.assertEqual([row["input_ids"] for row in rows],
                         [turns(("system", "Be kind."), ("user", "Who are you?"), ("assistant", "I am Bot of Ann.")),
                          turns(("system", "Be kind."), ("user", "a"), ("assistant", "b")),
                          turns(("system", "s"), ("user", "i\nj"), ("assistant", "k"))])

    def test_class_names_beside_columns(self):
        table = datasets.Dataset.from_dict({"text": ["good", "bad"], "label": [1, 0]},
                                           features=datasets.Features({"text": datasets.Value("string"),
                                                                       "label": datasets.ClassLabel(names=["neg", "pos"])}))
        path = self.folder / "classes.parquet"
        table.to_parquet(str(path))
        template = {"prompt": "{{ text }}: ", "completion": "{{ label_names[label] }}"}
        rows = self.rows(self.prepare("--dataset_name", str(path), "--row_template", json.dumps(template)))
        self.assertEqual([row["text"] for row in rows], ["good: pos" + TOKENIZER.eos_token, "bad: neg" + TOKENIZER.eos_token])

    def test_rows_that_are_too_long_are_dropped(self):
        data = self.write("long.jsonl", [{"input_ids": [1, 2, 3, 4]}, {"input_ids": [5, 6]}, {"input_ids": [7, 8, 9]}])
        for packing in ((), ("--packing", "true", "--packing_strategy", "wrapped")):
            prepared = self.prepare("--dataset_name", data, "--max_length", "3", "--truncation_mode", "drop", *packing)
            self.assertEqual(sum((row["input_ids"] for row in self.rows(prepared)), []), [5, 6, 7, 8, 9])
            self.expect(prepared, 0, "1 documents longer than max_length", stream="stdout")

    def test_a_mixture_of_alignment_handbook(self):
        one, two = ([[i, 0] for i in range(begin, begin + 30)] for begin in (100, 200))
        paths = [self.write(f"{name}.jsonl", [{"input_ids": row} for row in rows]) for name, rows in (("one", one), ("two", two))]
        mixture = {"datasets": [{"id": paths[0], "weight": 0.5}, {"id": paths[1]}], "seed": 3, "test_split_size": 5}
        prepared = self.prepare("--dataset_mixture", json.dumps(mixture))
        half = datasets.Dataset.from_dict({"input_ids": one}).shuffle(seed=3).select(range(15))
        both = datasets.concatenate_datasets([half, datasets.Dataset.from_dict({"input_ids": two})]).shuffle(seed=3)
        split = both.train_test_split(test_size=5, seed=3)
        self.assertEqual(self.first_tokens(prepared), [row[0] for row in split["train"]["input_ids"]])
        self.expect_one_message(self.prepare("--dataset_name", paths[0], "--test_split_size", "30"), 78,
                                "test_split_size = 30: the data has 30 samples")

    def test_what_goes_wrong(self):
        data = self.write("rows.jsonl", [{"q": "a", "a": {"text": "b"}}, {"q": "c", "a": {}}, {"a": {"text": "d"}}])
        for template, words in (({"text": "{{ q }} {{ who }}"}, (f"{data}:1: ", "needs who", "template_variables")),
                                ({"text": "{{ q }}\n{{ a.text }}"}, (f"{data}:2: ", "row_template.text, line 2: ")),
                                ({"text": "{{ a.text | default('') }}{{ q }}"}, (f"{data}:3: ", "needs q"))):
            self.expect_one_message(self.prepare("--dataset_name", data, "--row_template", json.dumps(template)), 65, *words)
        self.expect_one_message(self.prepare("--dataset_name", data, "--row_template", "nowhere.json"), 66, "row_template = nowhere.json")
        self.expect_one_message(self.prepare("--dataset_name", data, "--row_template", '{"text": "{% if %}"}'), 78, "row_template.text, line 1")
        self.expect_one_message(self.prepare("--dataset_name", self.write("text.jsonl", [{"text": "a"}]), "--system_prompt", "s"), 65,
                                "system_prompt is for conversations")

    def test_wrong_templates_are_found_without_data(self):
        broken = self.folder / "broken.jinja"
        broken.write_text("{% for message in messages %}")
        own = json.dumps([{"path": "a", "row_template": {"text": "{{ q"}}])
        for flags, code, words in ((("--row_template", '{"text": "{% if %}"}'), 78, "row_template.text, line 1"),
                                   (("--row_template", "nowhere.json"), 66, "row_template = nowhere.json: there is no such file"),
                                   (("--template_variables", "[1]"), 78, "template_variables = [1]: must be a mapping"),
                                   (("--datasets", own), 78, "row_template.text, line 1"),
                                   (("--chat_template", "{% for %}"), 78, "chat_template, line 1"),
                                   (("--chat_template_path", str(broken)), 78, f"{broken}, line 1"),
                                   (("--chat_template_path", "nowhere.jinja"), 66, "chat_template_path = nowhere.jinja: there is no such file")):
            self.expect_one_message(run("config", *flags), code, words)
        self.expect(run("config", "--row_template", str(TEMPLATES / "squad.jinja"), "--template_variables", '{"NAME": "Ann"}'), 0)


if __name__ == "__main__":
    unittest.main()
