"""state.h5 through h5py: transformers' names and shapes, and TRL's values after the same run."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from beside_transformers import DATA, FOLDER, TrainerTest, run

import h5py
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM


class StateFile(TrainerTest):
    def test_a_python_user_finds_the_model(self):
        with open(os.path.join(DATA, "traces", "pretokenized.json")) as file:
            trace = json.load(file)
        model_folder = os.path.join(DATA, "models", "qwen2-tiny")
        with tempfile.TemporaryDirectory() as output:
            result = run("train", "--model_name_or_path", model_folder, "--profile", "zero3", "--cp_size", "2",
                         "--sp_size", "2", "--dataset_name", os.path.join(DATA, "rows", "pretokenized.jsonl"),
                         "--bf16", "false", "--learning_rate", "0.002", "--max_length", "48", "--num_train_epochs", "2",
                         "--output_dir", output, ranks=4)
            self.expect(result, 0)
            with h5py.File(os.path.join(output, "checkpoint-30", "state.h5")) as file:
                self.assertEqual(file.attrs["step"], 30)
                self.assertEqual([learner["epoch"] for learner in json.loads(file["text/learners"][()])], [2])
                self.assertIn("profile: \"zero3\"", file["text/settings"][()].decode())
                state = {name: np.array(dataset) for name, dataset in file["model"].items()}
                first = {name: dataset.shape for name, dataset in file["optimizer/exp_avg"].items()}
                second = {name: np.array(dataset) for name, dataset in file["optimizer/exp_avg_sq"].items()}

            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_folder))
            expected = dict(model.named_parameters())
            self.assertEqual(set(state), set(expected))
            for name, parameter in expected.items():
                self.assertEqual(state[name].shape, tuple(parameter.shape), name)
                self.assertEqual(first[name], tuple(parameter.shape), name)
                self.assertEqual(state[name].dtype, np.float32)
                self.assertTrue((second[name] >= 0).all(), name)
                _, norm = trace["final_parameters"][name]
                self.assertAlmostEqual(np.linalg.norm(state[name].astype(np.float64)), norm, delta=1e-3 * norm, msg=name)
            missing = model.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()}, strict=False)
            self.assertEqual(missing.unexpected_keys, [])
            self.assertEqual([name for name in missing.missing_keys if name != "lm_head.weight"], [])


    def test_files_of_nodes_and_moments_of_16_bits(self):
        """SHARDED_STATE_DICT shows the same tensors through its master; bf16 is a float to h5py; MPI-IO writes the same."""
        model_folder = os.path.join(DATA, "models", "qwen2-tiny")
        ways = {"one": [], "mpio": ["--hdf5_io", "mpio", "--hdf5_hint", "cb_nodes=1"],
                "nodes": ["--fsdp_state_dict_type", "SHARDED_STATE_DICT"]}
        with tempfile.TemporaryDirectory() as folder:
            states = {}
            for way, flags in ways.items():
                output = os.path.join(folder, way)
                result = run("train", "--model_name_or_path", model_folder, "--profile", "zero3", "--dataset_name",
                             os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--max_length", "48",
                             "--max_steps", "2", "--optimizer_state_dtype", "bf16", "--full_determinism", *flags,
                             "--output_dir", output, ranks=3, RINGSHARD_TEST_RANKS_PER_NODE="2")
                self.expect(result, 0)
                checkpoint = os.path.join(output, "checkpoint-2")
                names = [name for name in sorted(os.listdir(checkpoint)) if name.endswith(".h5")]
                self.assertEqual(names, ["state-00001-of-00002.h5", "state-00002-of-00002.h5", "state.h5"]
                                 if way == "nodes" else ["state.h5"])
                with h5py.File(os.path.join(checkpoint, "state.h5")) as file:
                    states[way] = {group: {name: np.array(dataset) for name, dataset in file[group].items()}
                                   for group in ("model", "optimizer/exp_avg", "optimizer/exp_avg_sq")}
                    moment = file["optimizer/exp_avg/model.norm.weight"]
                    self.assertEqual(moment.id.get_type().get_size(), 2)
                    self.assertEqual(moment.is_virtual, way == "nodes")
                    self.assertEqual(file["model/model.norm.weight"].dtype, np.float32)
            for way in ("mpio", "nodes"):
                for group, tensors in states["one"].items():
                    self.assertEqual(set(states[way][group]), set(tensors))
                    for name, tensor in tensors.items():
                        self.assertTrue(np.array_equal(states[way][group][name], tensor), (way, group, name))
            self.assertGreater(np.abs(states["one"]["optimizer/exp_avg"]["model.embed_tokens.weight"]).max(), 0)

            # Both tools make the same model of the files of nodes.
            script = os.path.join(FOLDER, "..", "..", "scripts", "h5_to_safetensors.py")
            weights = {}
            for way in ("one", "nodes"):
                checkpoint = os.path.join(folder, way, "checkpoint-2")
                made = os.path.join(folder, way + "-python")
                subprocess.run([sys.executable, script, checkpoint, made], check=True, capture_output=True)
                exported = os.path.join(folder, way + "-export")
                self.expect(run("export", checkpoint, "--output_dir", exported, ranks=2), 0)
                for path in (made, exported):
                    weights[path] = {name: tensor.numpy() for name, tensor in
                                     load_file(os.path.join(path, "model.safetensors")).items()}
            first, *others = weights.values()
            for other in others:
                self.assertEqual(set(other), set(first))
                for name, tensor in first.items():
                    self.assertTrue(np.array_equal(other[name], tensor), name)

            # And any layout goes on from them.
            result = run("train", "--model_name_or_path", model_folder, "--dataset_name",
                         os.path.join(DATA, "rows", "pretokenized.jsonl"), "--bf16", "false", "--max_length", "48",
                         "--max_steps", "3", "--per_device_train_batch_size", "24", "--allow_changed",
                         "--output_dir", os.path.join(folder, "nodes"))
            self.expect(result, 0, "resuming from " + os.path.join(folder, "nodes", "checkpoint-2"))


if __name__ == "__main__":
    unittest.main()
