"""Logits of the adapters of adapters.py, and the weights of the models that PEFT merges them into, on the CPU.

    python adapter_outputs.py --out tests/parity/data

Writes adapters/outputs.safetensors (for each starting adapter NAME: NAME.input_ids, and NAME.logits of the last tokens, of the base in fp32,
and one merged matrix, NAME.float32.TENSOR and NAME.bfloat16.TENSOR) and adapters/merged.json (for each dtype the SHA-256 of
every merged tensor that differs from the base's, and its norm and product with cos(0), cos(1), ... as generator/frozen.py
has them). The base is loaded in that dtype, the adapters stay fp32, and merge_and_unload rounds once.
"""
import argparse
import hashlib
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import write_json  # noqa: E402

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from peft import PeftModel  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from adapters import STARTS, load_base  # noqa: E402
from frozen import summary  # noqa: E402

TOKENS = 10
SHOWN_TOKENS = 4  # the last ones, which attend to all others
SHOWN = "model.layers.2.self_attn.v_proj.weight"
# PEFT merges no bias of B into a layer without one; tests/interop/test_adapters.py compares merged embeddings and output layers.
UNMERGED = ("qwen2_lora_bias", "llama3_head", "qwen2_head", "llama3_head_dora", "llama3_embedding", "qwen2_embedding", "llama3_rows",
            "llama3_rows_of_both", "qwen2_rows")


def load(name, dtype):
    return PeftModel.from_pretrained(load_base(STARTS[name][0], dtype), f"adapters/start/{name}").eval()


def sha256(tensor):
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def merge(name, dtype):
    base = load_base(STARTS[name][0], dtype).state_dict()
    model = load(name, dtype).merge_and_unload()
    assert all(tensor.dtype == getattr(torch, dtype) for tensor in model.state_dict().values())
    changed = {key: tensor for key, tensor in model.state_dict().items() if not torch.equal(tensor, base[key])}
    return model, changed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    os.chdir(parser.parse_args().out)
    torch.set_num_threads(1)
    tensors, merged = {}, {}
    for index, name in enumerate(STARTS):
        ids = torch.randint(3, 480, (1, TOKENS), generator=torch.Generator().manual_seed(40 + index))
        with torch.no_grad():
            logits = load(name, "float32")(ids).logits[0]
        tensors[f"{name}.input_ids"], tensors[f"{name}.logits"] = ids[0], logits[-SHOWN_TOKENS:].clone()
        if name in UNMERGED:
            continue
        merged[name] = {}
        for dtype in ("float32", "bfloat16"):
            model, changed = merge(name, dtype)
            if dtype == "float32":
                with torch.no_grad():
                    far = (model(ids).logits[0] - logits).abs().max().item()
                    plain = (load_base(STARTS[name][0])(ids).logits[0] - logits).abs().max().item()
                assert far < 1e-5 < plain, (name, far, plain)
                print(f"{name}: {len(changed)} tensors merged, logits {far:.1e} from the adapter's, the base's {plain:.2f}")
            tensors[f"{name}.{dtype}.{SHOWN}"] = changed[SHOWN].clone()
            merged[name][dtype] = {"tie_word_embeddings": model.config.tie_word_embeddings,
                                   "tensors": {key: {"sha256": sha256(tensor), "summary": summary(tensor)}
                                               for key, tensor in changed.items()}}
    save_file(tensors, "adapters/outputs.safetensors", metadata={"format": "pt"})
    os.chmod("adapters/outputs.safetensors", 0o644)
    write_json("adapters/merged.json", merged)
