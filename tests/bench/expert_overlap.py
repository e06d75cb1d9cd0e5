#!/usr/bin/env python3
"""How much of the way of rows to experts of other ranks hides behind the computation.

    tests/bench/expert_overlap.py [--share 0.15] [--passes 5]

Two ranks share the experts of each block, and every all-to-all of rows takes longer by its bytes (a sleep that takes no
core): all of them in a forward and backward pass take `share` of the time of a pass without the delay. What a rank still
waits for, it waits for in the open. "at once": all rows of a block travel in one all-to-all, as one expert would compute
them; "in chunks": as a run sends them. Passes with and without the delay take turns.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from bench_file import BUILD, json_lines, write

RANKS, TOKENS = 2, 2048
SIZES = {"vocab_size": 1024, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_experts_per_tok": 2, "moe_intermediate_size": 256, "max_position_embeddings": 4096, "tie_word_embeddings": False}
MODELS = {"experts alone": {"model_type": "qwen3_moe", "num_experts": 16, "head_dim": 64, "intermediate_size": 512, **SIZES},
          "beside a shared MLP": {"model_type": "glm4_moe", "n_routed_experts": 16, "n_shared_experts": 1, "n_group": 1,
                                  "topk_group": 1, "first_k_dense_replace": 0, "head_dim": 64, "intermediate_size": 512, **SIZES}}


def measure(share, passes):
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, config) in enumerate(MODELS.items()):
            folder = pathlib.Path(scratch) / f"model-{number}"
            wanted = pathlib.Path(scratch) / "config.json"
            wanted.write_text(json.dumps(config))
            subprocess.run([BUILD / "bin" / "trainer", "init", "--config_json", wanted, "--output_dir", folder], check=True,
                           capture_output=True)
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS),
                       BUILD / "bin" / "bench_expert_overlap", folder, str(TOKENS), str(share), str(passes)]
            for line in json_lines([str(part) for part in command]):
                rows.append({"model": name, **line, "floor": 0.7 if line["rows"] == "in chunks" else None})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.15)
    parser.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    write("expert-overlap", __doc__, " ".join(sys.argv), measure(given.share, given.passes))


if __name__ == "__main__":
    main()
