"""`trainer prepare`, `tokenize` and `inspect` as people use them: mixtures, splits, what is wrong with data,
runs that are killed, the cache."""

import fcntl
import gzip
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from trainer import TRAINER, TrainerTest, clean_environment, run  # noqa: E402

DATA = HERE.parent / "parity" / "data"
MODEL = DATA / "models" / "qwen2-tiny"
CHAT = DATA / "text" / "data"
APPLY = HERE.parent.parent / "text" / "tests" / "data" / "chat" / "apply"


def places_of_arrays(file):
    """Offset and size of each array of a file of prepared data."""
    content = file.read_bytes()
    at, = struct.unpack_from("Q", content, 8)

    def number():
        nonlocal at
        at += 8
        return struct.unpack_from("Q", content, at - 8)[0]

    def text():
        nonlocal at
        length = number()
        at += length
        return content[at - length:at].decode()

    text(), number(), number(), number()
    return {text(): (number(), number())[::-1] for _ in range(number())}


class Prepare(TrainerTest):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def write(self, name, rows):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def prepare(self, *flags, ranks=None):
        return run("prepare", "--model_name_or_path", str(MODEL), "--data_cache_dir", str(self.folder / "cache"),
                   *flags, ranks=ranks)

    def rows(self, prepared, line=0):
        self.expect(prepared, 0)
        plans = [out.split(": ", 1)[1] for out in prepared.stdout.splitlines() if " data: " in out]
        shown = run("inspect", plans[line], "--rows", "100000", "--json")
        self.expect(shown, 0)
        return [json.loads(row) for row in shown.stdout.splitlines()]

    def first_tokens(self, prepared, line=0):
        return [row["input_ids"][0] for row in self.rows(prepared, line)]

    def test_a_mixture_takes_its_shares(self):
        one = self.write("one.jsonl", [{"input_ids": [i, 0]} for i in range(100, 130)])
        two = self.write("two.jsonl", [{"input_ids": [i, 0]} for i in range(200, 210)])

        def mixture(*entries):
            return ("--datasets", json.dumps(list(entries)))

        all_rows = self.prepare(*mixture({"path": one}, {"path": two}))
        self.assertEqual(self.first_tokens(all_rows), [*range(100, 130), *range(200, 210)])
        halves = self.prepare(*mixture({"path": one, "fraction": 0.5}, {"path": two, "fraction": 0.5}))
        self.assertEqual(self.first_tokens(halves), [*range(100, 110), *range(200, 210)])
        thirds = self.prepare(*mixture({"path": one, "fraction": 2}, {"path": "json", "data_files": [two], "fraction": 1}))
        self.assertEqual(self.first_tokens(thirds), [*range(100, 120), *range(200, 210)])
        self.expect_one_message(self.prepare(*mixture({"path": one, "fraction": 1}, {"path": two})), 78,
                                "datasets: fraction is given for some and not for all")
        self.expect_one_message(self.prepare(*mixture({"pth": one})), 78, "datasets: there is no pth")
        self.expect_one_message(self.prepare("--datasets", "[{"), 78, "datasets = [{")
        self.expect_one_message(self.prepare(*mixture({"path": "json", "data_files": [two], "split": "dev"})), 66,
                                f"datasets = {two} has no split 'dev'")

    def test_a_mixture_draws_by_weights_and_repeats(self):
        one = self.write("one.jsonl", [{"input_ids": [i, 0]} for i in range(100, 130)])
        two = self.write("two.jsonl", [{"input_ids": [i, 0]} for i in range(200, 210)])

        def mixture(of_one, of_two, *flags, ranks=None):
            entries = [{"path": one, **of_one}, {"path": two, **of_two}]
            return self.prepare("--datasets", json.dumps(entries), *flags, ranks=ranks)

        drawn = mixture({"weight": 1}, {"weight": 3}, "--mixture_stopping_strategy", "all_exhausted", ranks=2)
        tokens = self.first_tokens(drawn)
        self.assertEqual([t for t in tokens if t < 200], list(range(100, 130)))
        of_two = [t for t in tokens if t >= 200]
        self.assertGreater(len(of_two), 60)
        self.assertEqual(of_two, [200 + i % 10 for i in range(len(of_two))])
        self.expect(drawn, 0, f"{len(of_two)} of {two}, which has 10: {len(of_two) / 10:.2f} times each", stream="stdout")
        self.assertLess(len(self.first_tokens(mixture({"weight": 1}, {"weight": 3}))), 30)
        self.assertNotEqual(self.first_tokens(mixture({"weight": 1}, {"weight": 3}, "--seed", "7")),
                            self.first_tokens(mixture({"weight": 1}, {"weight": 3})))
        self.assertEqual(self.first_tokens(mixture({}, {"epochs": 2.5})), [*range(100, 130), *range(200, 210), *range(200, 210), *range(200, 205)])
        self.assertGreater(len(self.first_tokens(mixture({}, {}, "--mixture_temperature", "5", "--mixture_stopping_strategy", "all_exhausted"))), 45)
        for code, words, result in (
            (78, "datasets: weight and epochs exclude each other", mixture({"weight": 1}, {"weight": 1, "epochs": 2})),
            (78, "datasets: weight is given for some and not for all", mixture({"weight": 1}, {})),
            (78, "datasets: weight has to be above 0", mixture({"weight": 0}, {"weight": 1})),
            (78, "datasets: the mixture would have about", mixture({"weight": 1}, {"weight": 1e-12}, "--mixture_stopping_strategy", "all_exhausted")),
            (78, "test_split_size: a mixture with weight", mixture({"weight": 1}, {"weight": 1}, "--test_split_size", "0.5")),
            (78, "these have fraction, weight or epochs", mixture({"weight": 1}, {"weight": 1}, "--mixture_temperature", "2")),
        ):
            with self.subTest(words):
                self.expect_one_message(result, code, words)

    def test_slices_and_sums_of_splits(self):
        self.write("set/train-a.jsonl", [{"input_ids": [i, 0]} for i in range(25)])
        self.write("set/train-b.jsonl", [{"input_ids": [i, 0]} for i in range(25, 100)])
        self.write("set/test.jsonl", [{"input_ids": [i, 0]} for i in range(200, 210)])
        name = str(self.folder / "set")
        for split, expected in (
            ("train[:10%]", range(10)), ("train[20:30]", range(20, 30)), ("train[-5%:]", range(95, 100)),
            ("train[:50%](pct1_dropremainder)", range(50)), ("train[98:]+test", [98, 99, *range(200, 210)]),
            ("test[:1] + train[-1:] + test[-1:]", [200, 99, 209]), ("train[30:40]+train[:2]", [*range(30, 40), 0, 1]),
        ):
            for ranks in (None, 3):
                with self.subTest(split, ranks=ranks):
                    prepared = self.prepare("--dataset_name", name, "--dataset_train_split", split, ranks=ranks)
                    self.assertEqual(self.first_tokens(prepared), list(expected))
        both = self.prepare("--dataset_name", name, "--dataset_train_split", "train[:80%]", "--dataset_test_split", "train[80%:]", "--eval_strategy", "epoch")
        self.assertEqual((self.first_tokens(both, 0), self.first_tokens(both, 1)), (list(range(80)), list(range(80, 100))))
        mixed = self.prepare("--datasets", json.dumps([{"path": name, "split": "train[:3]"}, {"path": name, "split": "test[50%:]"}]))
        self.assertEqual(self.first_tokens(mixed), [0, 1, 2, *range(205, 210)])
        self.expect(self.prepare("--dataset_name", name, "--dataset_train_split", "test[5:20]"), 0, "test[5:20] names rows beyond the last one: test has 10 rows")

    def test_a_slice_of_a_large_file_has_its_rows_and_their_numbers(self):
        """Several blocks, empty lines, and rows that cannot be used within and outside of the slice."""
        path = self.folder / "large.jsonl"
        with open(path, "w") as file:
            for row in range(60_000):
                file.write("{\n" if row in (10, 40_000) else json.dumps({"input_ids": [row % 500, row // 500], "x": "y" * 60}) + "\n")
                if row % 10_000 == 0:
                    file.write("\n")  # lines 2, 10,003 ...: no rows
        for ranks in (None, 3):
            for begin, end in ((15_000, 40_000), (50_000, 50_010), (59_990, 60_000)):
                prepared = self.prepare("--dataset_name", str(path), "--dataset_train_split", f"train[{begin}:{end}]", ranks=ranks)
                self.assertEqual([row["input_ids"] for row in self.rows(prepared)], [[row % 500, row // 500] for row in range(begin, end)])
            self.expect_one_message(self.prepare("--dataset_name", str(path), "--dataset_train_split", "train[30000:45000]", ranks=ranks), 65,
                                    f"{path}:40005: is no JSON")

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
        self.assertEqual(texts(*name("notes.txt"), "--dataset_train_split", "train[1:]"), ["", "third line"])
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

    def test_what_is_split_off_is_the_same_on_every_rank(self):
        rows = self.write("rows.jsonl", [{"input_ids": [i, 0]} for i in range(50)])
        splits = []
        for ranks in (None, 3):
            prepared = self.prepare("--dataset_name", rows, "--test_split_size", "0.25", "--eval_strategy", "steps",
                                    ranks=ranks)
            splits.append((self.first_tokens(prepared, 0), self.first_tokens(prepared, 1)))
        self.assertEqual(splits[0], splits[1])
        train, test = splits[0]
        self.assertEqual(sorted(train + test), list(range(50)))
        self.assertEqual(len(test), 13)

    def test_files_are_found_by_their_splits(self):
        self.write("set/train-a.jsonl", [{"input_ids": [1]}])
        self.write("set/test-a.jsonl", [{"input_ids": [2]}])
        packed = self.folder / "set" / "train-b.jsonl.gz"
        with gzip.open(packed, "wt") as file:
            file.write('{"input_ids": [3]}\n')
        prepared = self.prepare("--dataset_name", str(self.folder / "set"), "--eval_strategy", "epoch")
        self.assertEqual(self.first_tokens(prepared, 0), [1, 3])
        self.assertEqual(self.first_tokens(prepared, 1), [2])
        self.expect_one_message(self.prepare("--dataset_name", str(self.folder / "set"), "--dataset_train_split", "dev"),
                                66, "has no split 'dev'; it has test, train")

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
            (78, "test_split_size = 1 [command line]: must be below 1", "--test_split_size", "1"),
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
        self.expect(self.prepare("--dataset_name", share_gpt), 0, "human and gpt are not user and assistant")

        mixture = json.dumps([{"path": masked}])
        self.expect(self.prepare("--dataset_name", "nowhere.jsonl", "--datasets", mixture), 0, "dataset_name: not used")

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

    def test_the_second_run_finds_the_rows(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"), "--packing", "--max_length", "64")
        self.expect(self.prepare(*flags), 0, "filled to", stream="stdout")
        cache = self.folder / "cache"
        before = {file.name: file.stat().st_mtime_ns for file in cache.iterdir()}
        self.expect(self.prepare(*flags), 0)
        self.assertEqual({file.name: file.stat().st_mtime_ns for file in cache.iterdir()}, before)
        # Other rows of the same tokens.
        self.expect(self.prepare(*flags, "--packing_scope", "global"), 0)
        self.assertEqual(len([file for file in cache.iterdir() if file.name.startswith("tokens-") and "." not in file.name]), 1)

    def test_a_killed_run_leaves_nothing_half_valid(self):
        rows = self.write("many.jsonl", [{"text": f"row {i} " * 200} for i in range(20000)])
        command = [TRAINER, "prepare", "--model_name_or_path", str(MODEL), "--dataset_name", rows,
                   "--data_cache_dir", str(self.folder / "cache"), "--num_threads", "1"]
        for seconds in (0.4, 0.8, 1.2):
            process = subprocess.Popen(command, env=clean_environment(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(seconds)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        prepared = self.prepare("--dataset_name", rows)
        self.assertEqual(len(self.rows(prepared)), 20000)
        self.assertFalse([file for file in (self.folder / "cache").iterdir() if "making" in file.name])

    def test_what_dead_makers_left_is_removed_though_the_file_is_there(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"))
        self.expect(self.prepare(*flags), 0)
        cache = self.folder / "cache"
        tokens = next(file for file in cache.iterdir() if file.name.startswith("tokens-") and file.suffix != ".lock")
        here = socket.gethostname()
        dead = [cache / f"{tokens.name}.making-{here}-abcdef", cache / "rows-of-data-that-is-gone.making-elsewhere-abcdef"]
        living = [cache / f"tokens-of-another-run.making-{here}-abcdef", cache / "rows-of-data-that-is-gone.making-elsewhere-ghijkl"]
        for folder in (*dead, *living):
            folder.mkdir()
            (folder / "result").write_text("half")
        for path in (dead[1] / "result", dead[1]):
            os.utime(path, (time.time() - 4000,) * 2)
        with open(cache / "tokens-of-another-run.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.expect(self.prepare(*flags), 0)
        self.assertEqual([folder for folder in dead if folder.exists()], [])
        for folder in living:
            self.assertEqual((folder / "result").read_text(), "half")

    def test_altered_data_are_refused_and_made_again(self):
        rows = self.write("rows.jsonl", [{"input_ids": [i % 300, 1, 2], "labels": [7, 8, 9]} for i in range(4000)])
        cache = self.folder / "cache"
        flags = ("--dataset_name", rows, "--model_name_or_path", str(MODEL), "--data_cache_dir", str(cache), "--max_length", "16",
                 "--output_dir", str(self.folder / "run"), "--max_steps", "1", "--use_cpu", "--report_to", "none")

        def made(name):
            return next(file for file in cache.iterdir() if file.name.startswith(name) and file.suffix != ".lock")

        for name, array, place, content in (
            ("tokens-", "tokens", 8192, bytes(4096)),  # an extent that was lost
            ("tokens-", "tokens", 4000, struct.pack("i", 200_000_000)),
            ("tokens-", "labels", 8000, struct.pack("i", 700)),
            ("rows-", "pieces", 16, struct.pack("Q", 1 << 40)),
        ):
            with self.subTest(array=array, content=len(content)):
                self.expect(run("train", *flags, "--dry_run", ranks=2), 0)
                file = made(name)
                offset, size = places_of_arrays(file)[array]
                with open(file, "r+b") as opened:
                    opened.seek(offset + place)
                    self.assertNotEqual(opened.read(len(content)), content)
                    opened.seek(offset + place)
                    opened.write(content)
                chunk = min(size, 1 << 20)
                self.expect_one_message(run("train", *flags, ranks=2), 65,
                                        f"{file}: the {chunk} bytes from byte {offset} on are not those that were written: "
                                        "the file is damaged; remove it, and it is made again")
                self.assertFalse((self.folder / "run" / "metrics.jsonl").exists())
                file.unlink()
        self.expect(run("train", *flags), 0)

    def test_a_cut_store_is_made_again(self):
        flags = ("--dataset_name", str(CHAT / "chat_small.jsonl"))
        self.expect(self.prepare(*flags), 0)
        for file in (self.folder / "cache").iterdir():
            if not file.name.endswith(".lock"):
                os.truncate(file, file.stat().st_size - 1)
        self.assertEqual(len(self.rows(self.prepare(*flags))), 44)


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
