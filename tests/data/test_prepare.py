"""`trainer prepare` as people use it: tables and text, columns, and what is wrong with data."""

import gzip
import json
import unittest

from preparing import PrepareTest


class Prepare(PrepareTest):
    def test_what_is_not_text_is_refused_or_left_aside(self):
        plain = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
        part = {"messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "Hi"}]},
                             {"role": "assistant", "content": "Ho"}]}
        for name, rows, words in (
            ("column.jsonl", [{**plain, "images": []}, {**plain, "images": ["a.png"]}], "the column images is filled, and text alone is learned; text_only = true"),
            ("audio.jsonl", [{**plain, "audio": None}, {**plain, "audio": {"path": "a.wav"}}], "the column audio is filled"),
            ("part.jsonl", [plain, part], "message 1 holds a part of the type image"),
        ):
            with self.subTest(name):
                path = self.write(name, rows)
                self.expect_one_message(self.prepare("--dataset_name", path), 65, f"{path}:2: {words}")
                taken = self.prepare("--dataset_name", path, "--text_only")
                self.expect(taken, 0, "gave its text alone (text_only = true), without: ", "(1 row)")
                texts = [row["text"] for row in self.rows(taken)]
                self.assertEqual(texts[0], texts[1])

    def test_what_nothing_uses_is_counted(self):
        rows = [{"messages": [{"role": "user", "content": "Hi", "name": "Ann", "mood": "good"}, {"role": "assistant", "content": "Ho", "mood": None}],
                 "text": "left", "id": i} for i in range(5)]
        path = self.write("more.jsonl", rows)
        template = self.folder / "names.jinja"
        template.write_text("{% for m in messages %}{{ m.name }}: {{ m.content }}{% endfor %}")
        for _ in range(2):  # made, then from the cache
            self.expect(self.prepare("--dataset_name", path, "--chat_template_path", str(template), ranks=2), 0,
                        f"dataset_name = {path} has columns that are not used: id (5 rows), text (5 rows)",
                        f"dataset_name = {path} has keys of messages that the chat template does not read: mood (5 messages)")
        chosen = self.prepare("--datasets", json.dumps([{"path": path, "columns": ["text"]}]))
        self.assertNotIn("not used", chosen.stderr)

    def test_tables_and_text(self):
        (self.folder / "a.csv").write_text('text,n\n"one, ""1""\nmore",1\n\ntwo,2\n')
        (self.folder / "a.tsv").write_text("text\tn\none, 1\t1\n")
        (self.folder / "notes.txt").write_text("first line\n\nthird line\n")
        with gzip.open(self.folder / "packed.csv.gz", "wt") as file:
            file.write("text\npacked\n")

        def texts(*flags):
            return [row["text"].replace("<|im_end|>", "") for row in self.rows(self.prepare(*flags))]

        def name(file):
            return ("--dataset_name", str(self.folder / file))

        self.assertEqual(texts(*name("a.csv")), ['one, "1"\nmore', "two"])
        self.assertEqual(texts(*name("a.tsv")), ["one, 1"])
        self.assertEqual(texts(*name("packed.csv.gz")), ["packed"])
        self.assertEqual(texts(*name("notes.txt"), "--dataset_train_split", "train[1:]"), ["third line"])  # an empty line teaches nothing
        self.assertEqual(texts(*name("notes.txt"), "--sample_by", "document"), ["first line\n\nthird line\n"])
        self.assertEqual(texts("--datasets", json.dumps([{"path": "text", "data_files": str(self.folder / "a.tsv")}])), ["text\tn", "one, 1\t1"])
        self.expect_one_message(self.prepare(*name("a.csv"), "--dataset_text_field", "body"), 65, "a.csv, row 1: there is no column body")
        (self.folder / "gap.csv").write_text("text,n\na,1\n,2\n")
        self.expect_one_message(self.prepare(*name("gap.csv")), 65, "gap.csv, row 2: text is null, where text is needed")
        # Ranks share a table, whose blocks begin within quotes or not.
        with open(self.folder / "large.csv", "w") as file:
            file.write("text,other\n" + "".join(f'"{i}\n{chr(97 + i % 26) * 900}\n","a, ""{i}"""\n' for i in range(2500)))
        of_one, of_three = (self.rows(self.prepare(*name("large.csv"), "--dataset_train_split", "train[1000:]", "--data_cache_dir",
                                                   str(self.folder / f"cache-{ranks}"), ranks=ranks)) for ranks in (None, 3))
        self.assertEqual(len(of_one), 1500)
        self.assertEqual([row["text"].split()[0] for row in of_one], [str(i) for i in range(1000, 2500)])
        self.assertEqual(of_one, of_three)
        # A text beside data describes them.
        self.write("set/rows.jsonl", [{"text": "of the data"}])
        (self.folder / "set" / "README.txt").write_text("about")
        prepared = self.prepare(*name("set"))
        self.expect(prepared, 0, "README.txt left out beside rows.jsonl")
        self.assertEqual(len(self.rows(prepared)), 1)

    def test_bad_rows_are_told_or_left_out(self):
        path = self.folder / "bad.jsonl"
        path.write_text('{"text": "a"}\n{"text": 1}\n\n{"text": "b"}\n{"text"\n{"text": "c"}\n')
        flags = ("--dataset_name", str(path))
        self.expect_one_message(self.prepare(*flags), 65, f"{path}:2: text is a number")
        self.expect_one_message(self.prepare(*flags, "--skip_bad_rows", "1"), 65, "more than skip_bad_rows = 1")
        left_out = self.prepare(*flags, "--skip_bad_rows", "2", ranks=2)
        self.assertEqual(len(self.rows(left_out)), 3)
        self.expect(left_out, 0, f"left out: {path}:2: text", f"left out: {path}:5: is no JSON")
        # Who tolerates none is not served what another run has left out.
        self.expect_one_message(self.prepare(*flags), 65, f"{path}:2: text is a number")
        # What was left out is told again when the rows come from the cache.
        self.expect(self.prepare(*flags, "--skip_bad_rows", "2"), 0, f"left out: {path}:2: text")

    def test_bad_rows_have_the_numbers_of_their_lines_anywhere(self):
        """In a file of several blocks, on several ranks, at most a hundred of them, and where a run ends at once."""
        path = self.folder / "long.jsonl"
        bad = [7, *range(30_000, 30_150), 59_998]
        with open(path, "w") as file:
            for line in range(1, 60_001):
                file.write('{"input_ids": 1}\n' if line in bad else json.dumps({"input_ids": [1] * 20, "x": "y" * 20}) + "\n")
        flags = ("--dataset_name", str(path), "--skip_bad_rows")
        left_out = self.prepare(*flags, "1000", ranks=3)
        self.expect(left_out, 0, "left out: 52 more rows")
        told = [line.split(": left out: ", 1)[-1] for line in left_out.stderr.splitlines() if f"{path}:" in line]
        self.assertEqual([int(line.split(f"{path}:")[1].split(":")[0]) for line in told], bad[:100])
        alone = [line if number != 59_998 else '{"input_ids": 1}' for number, line in
                 enumerate(['{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}'] * 60_000, 1)]
        path.write_text("\n".join(alone))
        self.expect_one_message(self.prepare("--dataset_name", str(path), ranks=3), 65, f"{path}:59998: input_ids")

    def test_empty_messages_are_named_with_their_row(self):
        path = self.write("empty.jsonl", [{"messages": []}])
        self.expect_one_message(self.prepare("--dataset_name", path), 65, f"{path}:1: messages is empty")

    def test_settings_out_of_bounds_are_refused(self):
        rows = self.write("rows.jsonl", [{"input_ids": [1, 2, 3]}] * 4)
        (self.folder / "file").write_text("")
        for code, words, *flags in (
            (78, "max_length = 4294967297 [command line]: must be at most", "--max_length", "4294967297"),
            (78, "test_split_size = 1.5 [command line]: must be a share of the data below 1, or a whole number of rows",
             "--test_split_size", "1.5"),
            (78, "skip_bad_rows = -1 [command line]: must be at least 0", "--skip_bad_rows", "-1"),
            (78, "datasets: is empty", "--datasets", "[]"),
            (74, "data_cache_dir: ", "--data_cache_dir", str(self.folder / "file")),
            (78, "split 'train[:x]': 'x' is no whole number", "--dataset_train_split", "train[:x]"),
            (78, "split 'train[:120%]': '120%' is beyond 100%", "--dataset_train_split", "train[:120%]"),
            (65, "split 'train[4:9]': train[4:9] holds no row: train has 4 rows", "--dataset_train_split", "train[4:9]"),
            (78, "pct1_dropremainder takes whole percents of the rows, and 4 rows have none", "--dataset_train_split",
             "train[:50%](pct1_dropremainder)"),
            (66, "has no split 'dev'", "--dataset_train_split", "train[:1]+dev[:1]"),
            (78, "column_map: no row is made of a column promt", "--column_map", '{"promt": "a"}'),
            (65, "has no column question, which column_map takes as prompt; the columns are input_ids", "--column_map", '{"prompt": "question"}'),
            (78, "mixture_temperature = 2: gives the datasets of a mixture weights", "--mixture_temperature", "2"),
            (78, "mixture_stopping_strategy = all_exhausted: says when a mixture with weights ends", "--mixture_stopping_strategy", "all_exhausted"),
            (66, "has no split 'test'; it has train: to evaluate, dataset_test_split names one of these, test_split_size",
             "--eval_strategy", "epoch"),
        ):
            with self.subTest(words):
                self.expect_one_message(self.prepare("--dataset_name", rows, *flags), code, words)
        text = self.write("text.jsonl", [{"text": "a"}])
        self.expect_one_message(self.prepare("--dataset_name", text, "--eos_token", "<nowhere>"), 78, "eos_token = <nowhere>")
        chat = self.write("chat.jsonl", [{"messages": [{"role": "user", "content": "a"}]}])
        self.expect_one_message(self.prepare("--dataset_name", chat, "--chat_template_path", "no/such.jinja"), 66,
                                "chat_template_path = no/such.jinja: there is no such file")
        # A long limit costs nothing.
        packed = self.prepare("--dataset_name", rows, "--packing", "--max_length", str(2**30))
        self.assertEqual([row["seq_lengths"] for row in self.rows(packed)], [[3, 3, 3, 3]])

    def test_what_surprises_is_said(self):
        masked = self.write("masked.jsonl", [{"input_ids": [1, 2], "completion_mask": [0, 1]}])
        self.expect(self.prepare("--dataset_name", masked), 0, "completion_mask, which is not used")
        self.assertNotIn("warning", self.prepare("--dataset_name", masked, "--completion_only_loss").stderr)
        share_gpt = self.write("share_gpt.jsonl", [{"conversations": [{"from": "user", "value": "a"}]}])
        self.expect(self.prepare("--dataset_name", share_gpt), 0, "human and gpt are not user and assistant",
                    "--role_key from --content_key value --roles '{\"user\": \"human\", \"assistant\": \"gpt\"}'")

        mixture = json.dumps([{"path": masked}])
        self.expect(self.prepare("--dataset_name", "nowhere.jsonl", "--datasets", mixture), 0, "dataset_name: not used")

    def test_names_of_roles_and_keys(self):
        theirs = self.write("gpt.jsonl", [{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}])
        ours = self.write("chat.jsonl", [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}])
        names = ("--role_key", "from", "--content_key", "value", "--roles", '{"user": ["human", "person"], "assistant": "gpt"}')
        named = self.prepare("--dataset_name", theirs, *names)
        self.assertEqual([row["input_ids"] for row in self.rows(named)], [row["input_ids"] for row in self.rows(self.prepare("--dataset_name", ours))])
        self.assertNotIn("human and gpt", named.stderr)
        for value, words in (('["human"]', "roles is a list, where {\"user\": \"NAME IN THE DATA\", ...} is needed"), ('{"user": 3}', "roles: user is a number"),
                             ("{", "must be JSON")):
            self.expect_one_message(self.prepare("--dataset_name", theirs, "--roles", value), 78, words)
        mixture = json.dumps([{"path": theirs, "roles": {"user": "human", "assistant": "gpt"}}])  # its own names, and those of the settings
        self.expect(self.prepare("--datasets", mixture, "--role_key", "from", "--content_key", "value"), 0)

    def test_templates_that_take_too_long_are_named_with_the_row(self):
        chat = self.write("chat.jsonl", [{"messages": [{"role": "user", "content": "a"}]}])
        template = self.folder / "slow.jinja"
        loops = "".join("{% for x in range(1000) %}" for _ in range(3)) + "{% endfor %}" * 3
        for source, words in ((loops, "the template takes more than 100000000 steps"),
                              ("{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
                               "the template holds more than 64.0 MiB at a time")):
            template.write_text(source)
            self.expect_one_message(self.prepare("--dataset_name", chat, "--chat_template_path", str(template)), 65,
                                    f"{chat}:1: {template}, line 1: {words}")

    def test_names_with_control_characters(self):
        name = "x\nlicense: evil \x1b[31m.jsonl"
        path = self.write(name, [{"text": "a", "left\x1b[2J": 1}])
        result = self.prepare("--dataset_name", path)
        self.expect(result, 0, "x\\nlicense: evil \\x1b[31m.jsonl has columns that are not used: left\\x1b[2J")
        self.assertNotIn("\x1b", result.stderr)
        missing = self.prepare("--dataset_name", "no\x1b[31m.jsonl")
        self.expect(missing, 66, "no\\x1b[31m.jsonl")
        self.assertNotIn("\x1b", missing.stderr)

    def test_which_column_and_which_mask_counts(self):
        """As TRL: what rows were tokenized from still decides, and a text comes before conversations with role and content."""
        tokens = {"input_ids": [1, 2, 3, 4], "completion_mask": [0, 0, 1, 1]}
        for name, source, learned in (("alone", {}, [1, 2, 3, 4]), ("beside", {"prompt": "a", "completion": "b"}, [-100, -100, 3, 4])):
            row = self.rows(self.prepare("--dataset_name", self.write(name + ".jsonl", [{**tokens, **source}])))[0]
            self.assertEqual(row["labels"], learned, name)
        chat = [{"role": "user", "content": "of the chat"}]
        for name, row, said in (("role.jsonl", {"conversations": chat, "text": "of the text"}, "of the text"),
                                ("chat.jsonl", {"messages": chat, "text": "of the text"}, "of the chat"),
                                ("only.jsonl", {"conversations": chat}, "of the chat")):
            self.assertIn(said, self.rows(self.prepare("--dataset_name", self.write(name, [row])))[0]["text"], name)

    def test_rows_that_are_left_as_they_are(self):
        rows = [{"input_ids": list(range(length))} for length in (30, 3, 50, 4)]
        prepared = self.prepare("--dataset_name", self.write("rows.jsonl", rows), "--skip_prepare_dataset", "--max_length", "16",
                                "--packing", "--shuffle_dataset")
        self.assertEqual([row["input_ids"] for row in self.rows(prepared)], [row["input_ids"] for row in rows])

    def test_why_no_row_can_be_read(self):
        path = self.folder / "wide.jsonl"
        path.write_bytes('{"text": "a"}\n'.encode("utf-16"))
        self.expect_one_message(self.prepare("--dataset_name", str(path)), 65, f"{path}:1: is no JSON")
        path.write_bytes(b"")
        self.expect_one_message(self.prepare("--dataset_name", str(path)), 65, "is empty: it has no row")

    def test_a_template_that_raises_is_told_with_the_row(self):
        template = self.folder / "strict.jinja"
        template.write_text("{{ raise_exception('roles must alternate') if messages|length > 1 }}{{ messages[0].content }}")
        rows = self.write("chat.jsonl", [{"messages": [{"role": "user", "content": "x"}] * n} for n in (1, 2)])
        self.expect_one_message(self.prepare("--dataset_name", rows, "--chat_template_path", str(template)), 65,
                                "chat.jsonl:2: ", "roles must alternate")


if __name__ == "__main__":
    unittest.main()
