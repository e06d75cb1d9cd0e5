"""A long run of tiny steps with a line of metrics each, evaluations and saves: memory and the time of a save stay as they are.

By hand: tests/train/soak.py --steps 60000 [--trainer ./trainer]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
MODEL = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
         "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": True, "hidden_act": "silu"}


def anonymous_memory(pid):
    """Bytes of the process that are no file's."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def last_step(metrics):
    try:
        with open(metrics, "rb") as file:
            file.seek(max(0, os.path.getsize(metrics) - 5000))
            return max((json.loads(line).get("step", 0) for line in file.read().split(b"\n")[1:-1]), default=0)
    except OSError:
        return 0


def soak(trainer, folder, steps, every):
    """Runs the program; returns [(step, bytes)] and [(step, seconds of a save)]."""
    model, data, output = (os.path.join(folder, name) for name in ("config", "rows.jsonl", "run"))
    os.makedirs(model)
    with open(os.path.join(model, "config.json"), "w") as file:
        json.dump(MODEL, file)
    with open(data, "w") as file:
        file.writelines(json.dumps({"input_ids": [(row + 3 * token) % 60 + 1 for token in range(8)]}) + "\n" for row in range(64))
    made = os.path.join(folder, "model")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HOME": os.path.join(folder, "hf"), "OMPI_MCA_ess_singleton_isolated": "1",
                   "OMPI_MCA_orte_create_session_dirs": "0"}
    subprocess.run([trainer, "init", "--config_json", os.path.join(model, "config.json"), "--output_dir", made], check=True, env=environment)
    command = [trainer, "train", "--model_name_or_path", made, "--dataset_name", data, "--eval_dataset_name", data, "--bf16", "false",
               "--max_length", "16", "--per_device_train_batch_size", "1", "--per_device_eval_batch_size", "64", "--max_steps", str(steps),
               "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", str(every), "--save_steps", str(every),
               "--save_total_limit", "2", "--lr_scheduler_type", "constant", "--output_dir", output, "--disable_tqdm", "true"]
    memory = []
    with open(os.path.join(folder, "stderr"), "w") as stderr, subprocess.Popen(command, stderr=stderr, env=environment) as process:
        while process.poll() is None:
            try:
                memory.append((last_step(os.path.join(output, "metrics.jsonl")), anonymous_memory(process.pid)))
            except (OSError, StopIteration):
                break
            time.sleep(0.5)
        process.wait()
    if process.returncode != 0:
        with open(os.path.join(folder, "stderr")) as stderr:
            sys.exit(stderr.read()[-2000:])
    with open(os.path.join(output, "metrics.jsonl")) as file:
        saves = [(line["save_step"], line["save_s"]) for line in map(json.loads, file) if "save_s" in line]
    return memory, saves


def mean(values):
    return sum(values) / max(1, len(values))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200000)
    parser.add_argument("--every", type=int, default=100, help="steps between saves and evaluations")
    parser.add_argument("--trainer", default=os.environ.get("TRAINER", "./trainer"))
    args = parser.parse_args()
    folder = tempfile.mkdtemp()
    try:
        memory, saves = soak(args.trainer, folder, args.steps, args.every)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    fifths = [(args.steps * i // 5, args.steps * (i + 1) // 5) for i in range(5)]
    print("steps up to | anonymous memory, MB: mean, largest | seconds of a save: mean")
    for begin, end in fifths:
        sizes = [size / 1e6 for step, size in memory if begin <= step < end]
        times = [seconds for step, seconds in saves if begin < step <= end]
        print(f"{end:11} | {mean(sizes):8.2f} {max(sizes, default=0):8.2f} | {mean(times):.4f}", flush=True)
    early = [size for step, size in memory if 10_000 <= step < 10_000 + args.steps // 5]
    late = [size for step, size in memory if step >= args.steps * 4 // 5]
    growth = (mean(late) - mean(early)) / 1e6
    print(f"growth after step 10,000: {growth:.2f} MB")
    first, last = (mean([seconds for step, seconds in saves if begin < step <= end]) for begin, end in (fifths[1], fifths[4]))
    print(f"a save took {last / first:.2f} times as long in the last fifth as in the second")
    if growth > 2:
        sys.exit("memory grew by more than 2 MB")
    if last > 2 * first:
        sys.exit("a save took more than twice as long at the end")


if __name__ == "__main__":
    main()
