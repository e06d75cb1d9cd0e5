"""For tests beside transformers and its relatives: ends where they are not installed; folders of models; the program."""

import importlib.util
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(FOLDER, "..", "parity", "data")
MODELS = os.path.join(DATA, "models")
sys.path.insert(0, os.path.join(FOLDER, "..", "cli"))
from trainer import TrainerTest, read_json, read_metrics, read_steps, run, some_of  # noqa: E402, F401

if missing := [name for name in ("datasets", "h5py", "safetensors", "torch", "transformers", "trl") if not importlib.util.find_spec(name)]:
    print(f"skipped: no {', '.join(missing)}; scripts/setup --oracles installs it")
    sys.exit(77)

from transformers.utils.logging import disable_progress_bar  # noqa: E402

disable_progress_bar()


def read_config(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)
