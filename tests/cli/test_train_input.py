"""What `trainer train` and `trainer init` say to wrong input, and with which code."""

import json
import os
import shutil
import tempfile

import unittest

from trainer import TrainerTest, run

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(FOLDER, "..", "parity", "data", "models", "qwen2-tiny")
TINY = os.path.join(FOLDER, "..", "..", "configs", "examples", "tiny")


class TrainInput(TrainerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rows = self.write("rows.jsonl", '{"input_ids": [1, 2, 3]}\n')

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(content)
        return path

    def train(self, *flags, model=MODEL, rows=None, ranks=None):
        return run("train", "--model_name_or_path", model, "--dataset_name", rows or self.rows, "--max_steps", "1",
                   "--output_dir", os.path.join(self.folder, "out"), *flags, ranks=ranks)

    def test_missing_things_are_named(self):
        self.expect_one_message(run("train", "--dataset_name", self.rows), 78, "model_name_or_path is not set")
        self.expect_one_message(run("train", "--model_name_or_path", MODEL), 78, "dataset_name is not set")
        self.expect_one_message(self.train(model="no/model"), 66, "model_name_or_path = no/model")
        self.expect_one_message(self.train(rows="no/rows.jsonl", ranks=2), 66, "dataset_name = no/rows.jsonl")

    def test_what_can_be_known_at_once_is_said_before_the_data_is_tokenized(self):
        for code, words, *flags in (
                (66, "eval_dataset_name = no/rows.jsonl", "--eval_strategy", "epoch", "--eval_dataset_name", "no/rows.jsonl"),
                (66, "eval_dataset_name = no/b.jsonl", "--eval_on_start", "--eval_dataset_name",
                 json.dumps({"a": self.rows, "b": "no/b.jsonl"})),
                (74, f"output_dir = {self.rows}/out cannot be made: {self.rows} is no folder", "--output_dir", f"{self.rows}/out")):
            result = self.train(*flags, "--data_cache_dir", os.path.join(self.folder, "cache"), ranks=2)
            self.expect_one_message(result, code, words)
            self.assertNotIn("data: ", result.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "cache")))

    def test_graphs_need_a_gpu(self):
        self.expect_one_message(self.train("--cuda_graphs", "true", "--device", "cpu", ranks=2), 78,
                                "cuda_graphs = true [command line]: this run computes on the CPU; leave it out")
        self.expect_one_message(self.train("--cuda_graphs", "true", "--activation_offloading", "true"), 78,
                                "recorded blocks keep their activations in the GPU's memory; leave one of them out")

    def test_rows_are_told_by_their_line(self):
        for content, words in (
            ('{"input_ids": [1, 2]}\n{"input_ids": [1, 2\n', ":2: is no JSON: at byte 20 there should be ',' or ']'"),
            ('\n{"body": "a", "label": 1}\n', "there is no column text (dataset_text_field), messages, prompt and "
             "completion, instruction and output, conversations or input_ids; the columns are body, label"),
            ('{"text": "a"}\n{"text": 3}\n', ":2: text is a number, where text is needed"),
            ('{"messages": [{"role": "user", "content": "a"}]}\n{"messages": [{"content": "a"}]}\n',
             ":2: message 1 has no role"),
            ('{"messages": [{"role": "user", "content": "a"}]}\n{"messages": []}\n', ":2: messages is empty"),
            ('{"input_ids": [1, 512]}\n', "the data holds the token 512, and the model's vocabulary has only 512"),
            ('{"input_ids": [1, -1]}\n', ":1: input_ids holds -1"),
            ('{"input_ids": [1, "a"]}\n', ":1: input_ids holds text, where whole numbers are needed"),
            ('{"input_ids": [1, 2], "labels": [1]}\n', ":1: has 1 labels for 2 input_ids"),
            ('{"input_ids": [1, 2], "labels": [1, -7]}\n', ":1: labels holds -7"),
            ('{"input_ids": [1, 2], "labels": 3}\n', ":1: labels is a number, where a list is needed"),
            ('{"input_ids": [1, 2], "seq_lengths": [1, 2]}\n', ":1: has seq_lengths of 3 tokens in all for 2 input_ids"),
            ('{"input_ids": [1, 2], "labels": [-100, -100]}\n', "within max_length no sample has anything left to learn"),
            ("", " is empty"),
        ):
            with self.subTest(words):
                self.expect_one_message(self.train(rows=self.write("bad.jsonl", content)), 65, words)

    def test_models_that_cannot_be_trained(self):
        model = os.path.join(self.folder, "model")
        shutil.copytree(MODEL, model)
        with open(os.path.join(model, "config.json")) as file:
            config = json.load(file)

        def expect(code, *words, **changes):
            with open(os.path.join(model, "config.json"), "w") as file:
                json.dump({**config, **changes}, file)
            self.expect_one_message(self.train(model=model), code, *words)

        expect(78, "hidden_size = \"big\"", hidden_size="big")
        expect(78, "num_hidden_layers = 0", num_hidden_layers=0)
        expect(78, "must be a multiple of num_key_value_heads = 3", num_key_value_heads=3)
        expect(78, "layer_types: \"chunked_attention\"", use_sliding_window=True, layer_types=["chunked_attention"])
        expect(78, "sliding_window = 0", use_sliding_window=True, max_window_layers=0, sliding_window=0)
        expect(65, "model.layers.3", num_hidden_layers=4)
        expect(65, "config.json has no such weight", num_hidden_layers=2)
        expect(65, "has the shape [136, 64]", "[140, 64]", intermediate_size=140)
        with open(os.path.join(model, "model.safetensors"), "r+b") as file:
            file.truncate(100000)
        expect(65, "is the file whole?")
        os.remove(os.path.join(model, "model.safetensors"))
        expect(66, "holds neither model.safetensors nor")
        self.write("model/config.json", "{")
        self.expect_one_message(self.train(model=model), 65, "is not readable JSON")

    def test_layouts_that_do_not_fit_the_model(self):
        self.expect_one_message(self.train("--sp_size", "8", ranks=8), 78,
                                "sp_size = 8 [command line]: 4 query heads cannot be divided among 8 ranks",
                                "sizes that work with this model: 1, 2, 4;", "cp_size")
        self.expect_one_message(self.train("--profile", "alst_ulysses_4gpu", "--sp_size", "3", ranks=3), 78,
                                "4 query heads cannot be divided among 3 ranks")
        for sizes, legal in ((["--cp_size", "3"], "1x1x4x1"), (["--cp_size", "4", "--sp_size", "2"], "1x1x4x1"),
                             (["--cp_size", "2", "--sp_size", "2", "--dp_shard_size", "2"], "1x1x2x2")):
            self.expect_one_message(self.train("--profile", "zero3", *sizes, ranks=4), 78, "a world of 4 ranks is not",
                                    " [command line]", "sizes that work: ", legal)

    def test_key_heads_that_cannot_be_shared(self):
        """12 query heads with 4 key heads: 6 ranks could neither share nor repeat them."""
        model = os.path.join(self.folder, "model")
        shutil.copytree(MODEL, model)
        with open(os.path.join(model, "config.json")) as file:
            config = json.load(file)
        with open(os.path.join(model, "config.json"), "w") as file:
            json.dump({**config, "hidden_size": 96, "num_attention_heads": 12, "num_key_value_heads": 4}, file)
        self.expect_one_message(self.train("--sp_size", "6", model=model, ranks=6), 78,
                                "4 key heads can neither be divided among 6 ranks nor repeated for them",
                                "sizes that work with this model: 1, 2, 4, 12;")

    def test_packing_needs_the_length_of_a_row(self):
        self.expect_one_message(self.train("--packing", "--max_length", "null", ranks=2), 78,
                                "packing needs max_length", "a whole number above 0", "packing = ", "max_length = ")
        self.expect_one_message(self.train("--packing", "--max_length", "0", ranks=2), 78, "max_length = 0")

    def test_an_output_folder_that_cannot_be(self):
        self.write("file", "")
        result = run("train", "--model_name_or_path", MODEL, "--dataset_name", self.rows, "--max_steps", "1",
                     "--output_dir", os.path.join(self.folder, "file"), ranks=2)
        self.expect_one_message(result, 74, "cannot be made")

    def test_another_world_than_was_meant(self):
        accelerate = self.write("accelerate.yaml", "distributed_type: MULTI_GPU\nnum_processes: 2\n")

        def start(*flags, ranks=None):
            return self.train("--dry_run", *flags, ranks=ranks)

        self.expect(start("--num_processes", "4"), 0, "warning: num_processes = 4 [command line]: srun or mpirun started 1 rank, and")
        self.expect(start("--accelerate_config", accelerate), 0, f"warning: num_processes = 2 [{accelerate}:2]")
        self.expect_one_message(start("--num_processes", "4", "--strict_launch", "true", ranks=2), 78,
                                "strict_launch = true: num_processes = 4 [command line]: srun or mpirun started 2 ranks")
        for flags, ranks in ((["--accelerate_config", accelerate], 2), (["--profile", "zero3"], None)):
            result = start(*flags, "--strict_launch", "true", ranks=ranks)
            self.expect(result, 0)
            self.assertNotIn("num_processes", result.stderr)

    def test_fewer_rows_than_a_step_takes(self):
        rows = self.write("three.jsonl", '{"input_ids": [1, 2, 3]}\n' * 3)
        flags = ["--dataset_name", rows, "--dataloader_drop_last", "true", "--per_device_train_batch_size"]
        words = ("dataloader_drop_last = true [command line]: the data has 3 rows, and 2 data ranks take 4 at once",)
        for more in (["--dry_run"], []):
            self.expect_one_message(self.train(*flags, "2", *more, ranks=2), 78, *words)
        self.expect(self.train(*flags, "2", "--dry_run"), 0)
        prepared = run("prepare", "--model_name_or_path", MODEL, *flags, "4")
        self.expect(prepared, 78, "the data has 3 rows, and 1 data rank takes 4 at once")
        self.expect(run("prepare", "--model_name_or_path", MODEL, *flags, "2"), 0)

    def test_a_malformed_fault(self):
        self.expect_one_message(run("train", RINGSHARD_FAULT="step"), 78, "point:nth:kill")


class MatrixProducts(TrainerTest):
    """Which library makes them, of a model that is just wide enough to be timed."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        with open(os.path.join(TINY, "config.json")) as file:
            config = json.load(file)
        config.update(hidden_size=512, intermediate_size=512, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=8,
                      head_dim=64)
        wanted = os.path.join(cls.folder.name, "config.json")
        with open(wanted, "w") as file:
            json.dump(config, file)
        cls.model = os.path.join(cls.folder.name, "model")
        made = run("init", "--config_json", wanted, "--output_dir", cls.model)
        assert made.returncode == 0, made.stderr
        cls.rows = os.path.join(cls.folder.name, "rows.jsonl")
        with open(cls.rows, "w") as file:
            file.write('{"input_ids": [1, 2, 3, 4]}\n' * 4)

    def train(self, output, *flags, ranks=None):
        return run("train", "--model_name_or_path", self.model, "--dataset_name", self.rows, "--max_steps", "1", "--bf16", "true",
                   "--per_device_train_batch_size", "1", "--save_strategy", "no", "--data_cache_dir",
                   os.path.join(self.folder.name, "cache"), "--output_dir", os.path.join(self.folder.name, output), *flags,
                   ranks=ranks)

    def record(self, output):
        with open(os.path.join(self.folder.name, output, "run.json")) as file:
            return json.load(file)["cpu_gemm"]

    def cache_file(self):
        found = [name for name in os.listdir(os.path.join(self.folder.name, "cache")) if name.startswith("cpu-gemm-")]
        self.assertEqual(len(found), 1, found)
        return os.path.join(self.folder.name, "cache", found[0])

    def test_what_was_timed_once_is_taken_again(self):
        self.expect(self.train("timed", ranks=2), 0, "matrix products: ", "(timed in ", "kept in ")
        timed = self.record("timed")
        self.assertEqual(len(timed["products"]), 3 * 4)  # directions x shapes
        self.assertEqual({name.split()[0] for name in timed["products"]}, {"forward", "input_gradient", "weight_gradient"})
        self.assertIn("aten 2.", timed["libraries"])
        with open(self.cache_file()) as file:
            kept = file.read()
        self.expect(self.train("again"), 0, f"(as in {self.cache_file()})")
        self.assertEqual(self.record("again")["products"], timed["products"])
        with open(self.cache_file()) as file:
            self.assertEqual(file.read(), kept)

        # A run that goes on keeps its own choice.
        with open(os.path.join(self.folder.name, "again", "run.json")) as file:
            former = json.load(file)
        forward = [name for name in timed["products"] if name.startswith("forward")]
        former["cpu_gemm"]["products"].update(dict.fromkeys(forward, "aten"))
        with open(os.path.join(self.folder.name, "again", "run.json"), "w") as file:
            json.dump(former, file)
        self.expect(self.train("again", "--max_steps", "2", "--resume_from_checkpoint", "never", ranks=2), 0,
                    "forward by aten" if timed["products"][forward[0]] != "aten" else "aten", "(as in run.json of output_dir)")
        self.assertEqual({self.record("again")["products"][name] for name in forward}, {"aten"})

        damages = ((kept[:40], "is no table of matrix products"),
                   (kept.replace(timed["processor"], "Other 1"), "was made on another processor (Other 1; this one is "))
        for number, (content, words) in enumerate(damages):
            with open(self.cache_file(), "w") as file:
                file.write(content)
            self.expect(self.train(f"damaged-{number}"), 0, "warning: ", words, "; matrix products are timed again", "(timed in ")
            with open(self.cache_file()) as file:
                self.assertEqual(json.load(file)["processor"], timed["processor"])

    def test_a_library_can_be_fixed(self):
        self.expect(self.train("fixed", "--cpu_gemm", "aten", ranks=2), 0, "matrix products: all by aten (cpu_gemm = aten)")
        self.assertEqual(set(self.record("fixed")["products"].values()), {"aten"})
        self.expect(self.train("own", "--cpu_gemm", "native"), 0, "matrix products: all by native (cpu_gemm = native)")
        self.expect(self.train("by-rule", "--full_determinism", "true"), 0, "(by rule, as full_determinism has it)")
        self.expect_one_message(self.train("wrong", "--cpu_gemm", "blas", ranks=2), 78, "cpu_gemm = blas [command line]",
                                "auto", "onednn", "mkl", "aten", "native")
        absent = {"onednn", "mkl"} - {library.split()[0] for library in self.record("fixed")["libraries"].split(", ")}
        for name in absent:
            self.expect_one_message(self.train("wrong", "--cpu_gemm", name, ranks=2), 78, f"cpu_gemm = {name} [command line]: ")

    def test_the_doctor_names_them(self):
        self.expect(run("doctor"), 0, "matrix products", "aten 2.", stream="stdout")


class Init(TrainerTest):
    def test_a_random_model_can_be_trained(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            os.mkdir(model)
            killed = os.path.join(model, "model.safetensors.tmp-7")
            open(killed, "w").close()
            self.expect(run("init", "--config_json", os.path.join(TINY, "config.json"), "--output_dir", model), 0,
                        "a model with random weights", stream="stdout")
            self.assertFalse(os.path.exists(killed))
            self.assertTrue(os.path.exists(os.path.join(model, "tokenizer.json")))
            self.expect(run("train", "--model_name_or_path", model, "--dataset_name", os.path.join(TINY, "notes.jsonl"),
                            "--max_steps", "2", "--output_dir", os.path.join(folder, "run"), ranks=2), 0)
            self.expect_one_message(run("init", "--config_json", os.path.join(TINY, "config.json"), "--output_dir", model),
                                    78, "holds a model already")
            os.rename(os.path.join(model, "model.safetensors"), os.path.join(model, "model-00001-of-00001.safetensors"))
            open(os.path.join(model, "model.safetensors.index.json"), "w").close()
            self.expect_one_message(run("init", "--config_json", os.path.join(TINY, "config.json"), "--output_dir", model),
                                    78, "holds a model already")
            self.expect_one_message(run("init", "--output_dir", model), 78, "config_json is not set")
            self.expect_one_message(run("init", "--config_json", "no.json", "--output_dir", folder), 66, "no.json")
            self.expect_one_message(run("init", "--config_json", "no.json"), 78, "output_dir is not set")
            self.expect_one_message(run("train", "--model_name_or_path", os.path.join(TINY, "config.json"), "--dataset_name",
                                        os.path.join(TINY, "notes.jsonl")), 66, "is a file, not the folder of a model")


if __name__ == "__main__":
    unittest.main()
