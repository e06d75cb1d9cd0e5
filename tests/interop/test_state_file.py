"""state.h5 through h5py: transformers' names and shapes, and TRL's values after the same run."""

import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

try:
    import h5py
    import numpy as np
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

DATA = os.path.join(FOLDER, "..", "parity", "data")


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
                self.assertEqual(file.attrs["epoch"], 2)
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


if __name__ == "__main__":
    unittest.main()
