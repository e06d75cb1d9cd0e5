"""preferences_trl.py MODEL_FOLDER PAIRS SETTINGS ANSWER: TRL's side of preferences.py.

SETTINGS is a JSON object of DPOConfig's arguments; ANSWER is a file for the seconds and the loss of each step.
"""

import json
import os
import sys
import time

import torch
import transformers
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer

folder, pairs, settings, answer = sys.argv[1:5]
settings = json.loads(settings)
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
transformers.logging.set_verbosity_error()
dtype = torch.bfloat16 if settings["bf16"] else torch.float32
seconds, losses = [], []


class Clock(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        self.begin = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        seconds.append(time.perf_counter() - self.begin)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            losses.append(logs["loss"])


model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
reference = None if settings["precompute_ref_log_probs"] else AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
trainer = DPOTrainer(
    model=model, ref_model=reference,
    args=DPOConfig(use_cpu=True, disable_tqdm=True, report_to="none", **settings),
    train_dataset=load_dataset("json", data_files=pairs, split="train"),
    processing_class=AutoTokenizer.from_pretrained(folder),
    callbacks=[Clock()],
)
trainer.train()
with open(answer, "w") as file:
    json.dump({"seconds": seconds, "losses": losses}, file)
