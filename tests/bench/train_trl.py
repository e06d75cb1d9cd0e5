"""train_trl.py MODEL_FOLDER ROWS SETTINGS [TILE]: a minimal script of TRL's SFTTrainer.

ROWS is a file of JSON lines with input_ids, SETTINGS a JSON object of SFTConfig's arguments. TILE: tokens per tile of
TRL's fused head, which is 4,096 as shipped.
"""

import json
import os
import sys

import torch
import trl.kernels.chunked_logprob
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

folder, rows, settings = sys.argv[1:4]
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
if len(sys.argv) > 4:
    trl.kernels.chunked_logprob.TOKEN_CHUNK_SIZE = int(sys.argv[4])
SFTTrainer(
    model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
    args=SFTConfig(**json.loads(settings)),
    train_dataset=load_dataset("json", data_files=rows, split="train"),
    processing_class=AutoTokenizer.from_pretrained(folder),
).train()
