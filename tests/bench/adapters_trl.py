"""adapters_trl.py MODEL_FOLDER ADAPTER_FOLDER ROWS SETTINGS: TRL's and PEFT's side of adapters.py.

SFTTrainer trains a PeftModel; ROWS is a file of JSON lines with input_ids, SETTINGS a JSON object: dtype of the model and
SFTConfig's arguments. For each line on stdin: "step" is one step of the trainer, "save FOLDER" is save_pretrained(), and
"load" puts the adapter beside a model that is loaded, by PeftModel.from_pretrained().
"""

import json
import os
import resource
import sys
import time

import torch
import transformers
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

folder, adapter, rows, settings = sys.argv[1:5]
settings = json.loads(settings)
dtype = getattr(torch, settings.pop("dtype"))
dropout = settings.pop("lora_dropout")
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
transformers.logging.set_verbosity_error()


def load_base():
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)


def timed(work):
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"ms": 1e3 * (time.perf_counter() - wall), "cpu_ms": 1e3 * (time.process_time() - cpu)}


def peak_rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class OnCommand(TrainerCallback):
    """Holds each step back until it is asked for."""

    def on_step_begin(self, args, state, control, **kwargs):
        for line in sys.stdin:
            word, *target = line.split()
            if word == "step":
                self.begin = time.process_time(), time.perf_counter()
                return
            if word == "save":
                numbers = timed(lambda: kwargs["model"].save_pretrained(target[0]))
            else:
                base = load_base()
                numbers = timed(lambda: PeftModel.from_pretrained(base, adapter, is_trainable=True))
            print(json.dumps(numbers), flush=True)
        os._exit(0)

    def on_log(self, args, state, control, logs=None, **kwargs):
        cpu, wall = (now - then for now, then in zip((time.process_time(), time.perf_counter()), self.begin))
        if "loss" in logs:
            print(json.dumps({"ms": 1e3 * wall, "cpu_ms": 1e3 * cpu, "loss": logs["loss"], "norm": logs["grad_norm"],
                              "peak_rss": peak_rss()}), flush=True)


model = PeftModel.from_pretrained(load_base(), adapter, is_trainable=True)
for module in model.modules():
    if isinstance(module, torch.nn.Dropout) and module.p > 0:
        module.p = dropout
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(use_cpu=True, disable_tqdm=True, report_to="none", save_strategy="no", logging_steps=1, max_steps=100_000,
                   **settings),
    train_dataset=load_dataset("json", data_files=rows, split="train"),
    processing_class=AutoTokenizer.from_pretrained(folder),
    callbacks=[OnCommand()],
)
trainer.remove_callback(PrinterCallback)  # stdout is for the numbers
print(json.dumps({"ready": True}), flush=True)
trainer.train()
