"""The models of the benchmarks: Qwen2 with random weights, made by `trainer init`."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from bench_file import BUILD, PYTHON

# rows x tokens of a step; tied embeddings in all of them.
SHAPES = {
    "t": {"hidden": 64, "intermediate": 128, "layers": 4, "heads": 4, "key_heads": 2, "vocab": 1024, "rows": 1, "tokens": 64},
    "a": {"hidden": 64, "intermediate": 128, "layers": 4, "heads": 4, "key_heads": 2, "vocab": 1024, "rows": 8, "tokens": 128},
    "b": {"hidden": 512, "intermediate": 1408, "layers": 8, "heads": 8, "key_heads": 2, "vocab": 8192, "rows": 4, "tokens": 256},
    "c": {"hidden": 896, "intermediate": 4864, "layers": 6, "heads": 14, "key_heads": 2, "vocab": 32768, "rows": 1, "tokens": 1024},
    # 14.4M parameters, for rows as long as memory allows
    "m": {"hidden": 256, "intermediate": 768, "layers": 8, "heads": 8, "key_heads": 2, "vocab": 32768, "rows": 1, "tokens": 2048},
}


def make_model(shape, folder):
    """A Hugging Face folder: config.json and weights."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
        "hidden_size": shape["hidden"], "intermediate_size": shape["intermediate"], "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"], "num_key_value_heads": shape["key_heads"], "vocab_size": shape["vocab"],
        "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "initializer_range": 0.02,
        "use_sliding_window": False, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }
    wanted = folder.parent / (folder.name + ".json")
    wanted.write_text(json.dumps(config))
    subprocess.run([BUILD / "bin" / "trainer", "init", "--config_json", wanted, "--output_dir", folder], check=True,
                   capture_output=True)
    return folder


def random_rows(shape, rows=None, tokens=None):
    rng = random.Random(1)
    return [[rng.randrange(shape["vocab"]) for _ in range(tokens or shape["tokens"])] for _ in range(rows or shape["rows"])]


def write_rows(rows, file):
    file.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return file


def add_tokenizer(folder):
    """The least that TRL wants: it gets token ids."""
    from tokenizers import Tokenizer, models
    vocabulary = {"<|endoftext|>": 0, "<unk>": 1}
    Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>")).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}))


def write_input_ids(rows, file):
    file.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    return file


# Beside the settings that both sides get under the same names.
def trainer_command(folder, rows, output, settings):
    command = [BUILD / "bin" / "trainer", "--model_name_or_path", folder, "--dataset_name", rows, "--output_dir", output,
               "--data_cache_dir", output / "data"]
    for name, value in settings.items():
        command += ["--" + name, json.dumps(value) if not isinstance(value, str) else value]
    return command


def trl_command(folder, rows, output, settings, *tile):
    mine = {"use_cpu": True, "disable_tqdm": True, "output_dir": str(output), "report_to": []}
    return [PYTHON, pathlib.Path(__file__).resolve().with_name("train_trl.py"), folder, rows, json.dumps(settings | mine),
            *map(str, tile)]


def run_process(command, threads=1):
    """Seconds of a whole process, and its greatest resident memory in bytes."""
    with tempfile.TemporaryDirectory() as home, open(pathlib.Path(home) / "log", "w") as log:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TOKENIZERS_PARALLELISM="false", HF_HOME=home,
                           HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
        start = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if status != 0:
            sys.exit(f"{process.args} ended with {process.returncode}:\n" + (pathlib.Path(home) / "log").read_text()[-3000:])
    return {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_rss": usage.ru_maxrss * 1024}
