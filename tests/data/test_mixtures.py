"""`trainer prepare` with several datasets: mixtures, slices and sums of splits, files by their splits."""

import gzip
import json
import unittest

from preparing import PrepareTest


class Mixtures(PrepareTest):
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
        share, count = (self.prepare("--dataset_name", rows, "--test_split_size", size, "--eval_strategy", "steps") for size in ("0.1", "5"))
        for side in (0, 1):
            self.assertEqual(self.first_tokens(share, side), self.first_tokens(count, side))
        self.expect_one_message(self.prepare("--dataset_name", rows, "--test_split_size", "50", "--eval_strategy", "steps"), 78,
                                "test_split_size = 50: the data has 50 samples, and some have to be left to train on")

    def test_files_are_found_by_their_splits(self):
        self.write("set/train-a.jsonl", [{"input_ids": [1, 9]}])
        self.write("set/test-a.jsonl", [{"input_ids": [2, 9]}])
        packed = self.folder / "set" / "train-b.jsonl.gz"
        with gzip.open(packed, "wt") as file:
            file.write('{"input_ids": [3, 9]}\n')
        prepared = self.prepare("--dataset_name", str(self.folder / "set"), "--eval_strategy", "epoch")
        self.assertEqual(self.first_tokens(prepared, 0), [1, 3])
        self.assertEqual(self.first_tokens(prepared, 1), [2])
        self.expect_one_message(self.prepare("--dataset_name", str(self.folder / "set"), "--dataset_train_split", "dev"),
                                66, "has no split 'dev'; it has test, train")


if __name__ == "__main__":
    unittest.main()
