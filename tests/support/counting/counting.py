"""What each rank of a run asks of file systems and of MPI, by phases of the run: for scripts/scale-test and tests of counts."""

import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

ENTRY = struct.Struct("40sQQ")
LOOKS = ("open", "look", "list")  # a request to the server of metadata each, as are:
CHANGES = ("make", "rename", "remove", "flush")
OPERATIONS = (*LOOKS, *CHANGES, "read", "write")
FOLDERS = ("output", "model", "cache", "dataset")
COLLECTIVES = ("MPI_Ibarrier", "MPI_Iallreduce", "MPI_Ireduce", "MPI_Ibcast", "MPI_Iallgather", "MPI_Iallgatherv", "MPI_Igather",
               "MPI_Igatherv", "MPI_Iscatter", "MPI_Iscatterv")
COMMUNICATORS = ("MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_split_type")
# Ranks far outnumber cores: who waits must not keep others from running. vader is shared memory; TCP would take a socket to a pair.
MPI_FLAGS = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", "self,vader"]


def read_counters(folder):
    """{rank: {name: (calls, bytes)}} of a run that may still be under way."""
    ranks = {}
    for path in pathlib.Path(folder).glob("rank-*"):
        content = path.read_bytes()
        entries = (ENTRY.unpack_from(content, at) for at in range(0, len(content), ENTRY.size))
        ranks[int(path.name[5:])] = {name.rstrip(b"\0").decode(): (calls, size) for name, calls, size in entries if name[0]}
    return ranks


def combined(a, b, combine):
    """Of each rank and counter of two runs."""
    nothing = (0, 0)
    return {rank: {name: tuple(combine(x, y) for x, y in zip(a[rank].get(name, nothing), b[rank].get(name, nothing)))
                   for name in {*a[rank], *b[rank]}} for rank in a}


def minus(a, b):
    return combined(a, b, lambda x, y: x - y)


def divided(a, divisor):
    return {rank: {name: tuple(x / divisor for x in pair) for name, pair in counters.items()} for rank, counters in a.items()}


@dataclasses.dataclass
class Bed:
    """Runs of a tiny model on one machine, under ZeRO 3 unless `flags` says otherwise."""

    world: int
    folder: pathlib.Path  # scratch
    trainer: pathlib.Path
    library: pathlib.Path
    model: pathlib.Path
    flags: tuple = ()
    timeout: float = 1800
    runs: int = 0
    seconds: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        draw = random.Random(1)
        (self.folder / "dataset").mkdir(exist_ok=True)
        with open(self.folder / "dataset" / "rows.jsonl", "w") as file:
            for _ in range(8192):
                file.write(json.dumps({"input_ids": [draw.randrange(480) for _ in range(16)]}) + "\n")

    def environment(self, counters, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("RINGSHARD_", "SLURM_"))}
        counted = {"output": self.folder / "out", "model": self.model, "cache": self.folder / "cache",
                   "dataset": self.folder / "dataset", "stall": self.folder / "stall"}
        environment.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
                            "LD_PRELOAD": str(self.library), "COUNTING_OUTPUT": str(counters),
                            "COUNTING_FOLDERS": ":".join(f"{name}={path}" for name, path in counted.items())} | variables)
        return environment

    def begin(self, *flags, **variables):
        """A run: mpirun, the folder of its counters, and the file of what it says. The library is preloaded into its ranks."""
        self.runs += 1
        counters = self.folder / f"counters-{self.runs}"
        counters.mkdir()
        said = self.folder / f"said-{self.runs}"
        environment = self.environment(counters, **variables)
        preloaded = [f"{name}={environment.pop(name)}" for name in ("LD_PRELOAD", "COUNTING_OUTPUT", "COUNTING_FOLDERS")]
        command = ["mpirun", *MPI_FLAGS, "-n", str(self.world), "env", *preloaded, str(self.trainer), "train", *self.data_flags(),
                   "--profile", "zero3", "--output_dir", str(self.folder / "out"), "--per_device_train_batch_size", "1", "--logging_steps", "1", "--bf16", "false", "--lr_scheduler_type", "constant",
                   "--disable_tqdm", "--full_determinism", "--hang_timeout_s", "3600", *self.flags, *flags]
        with open(said, "w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
        return process, counters, said

    def whole_run(self, *flags, stalls=False, expect=0, **variables):
        """Counters at the end, and before the first step if it stalls there."""
        go_on = self.folder / "stall" / "go-on"
        go_on.parent.mkdir(exist_ok=True)
        go_on.unlink(missing_ok=True)
        if stalls:
            variables |= {"RINGSHARD_FAULT": "step:1:stall", "RINGSHARD_TEST_GO_ON": str(go_on)}
        began = time.monotonic()
        process, counters, said = self.begin(*flags, **variables)
        before_step = None
        try:
            while process.poll() is None and time.monotonic() < began + self.timeout:
                time.sleep(0.05 if self.world < 32 else 0.5)
                if stalls and before_step is None:
                    now = read_counters(counters)
                    if len(now) == self.world and all(ranks.get("stall look", (0,))[0] > 0 for ranks in now.values()):
                        before_step = now
                        go_on.touch()
        finally:
            end(process)
        if process.returncode != expect:
            raise RuntimeError(f"ended with {process.returncode}:\n" + said.read_text()[-4000:])
        return read_counters(counters), before_step, time.monotonic() - began

    def clear(self, *names):
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def prepare(self):
        """Puts the tokens into the cache; nothing is counted."""
        command = [str(self.trainer), "prepare", *self.data_flags(), *self.flags]
        subprocess.run(command, env=self.environment("/nowhere", LD_PRELOAD=""), check=True, capture_output=True)

    def data_flags(self):
        return ["--model_name_or_path", str(self.model), "--dataset_name", str(self.folder / "dataset"), "--data_cache_dir",
                str(self.folder / "cache"), "--max_length", "16"]

    def phases(self, steps=2):
        """{phase: {rank: {name: (calls, bytes)}}}: of a start with known tokens, a step, a save, an end, and what resuming from a
        checkpoint adds to a start."""
        self.prepare()
        short, start, self.seconds["start, a step and end"] = self.whole_run("--max_steps", "1", "--save_strategy", "no", stalls=True)
        self.clear("out")
        more = str(1 + steps)
        longer, _, seconds = self.whole_run("--max_steps", more, "--save_strategy", "no")
        self.seconds["step"] = (seconds - self.seconds["start, a step and end"]) / steps
        self.clear("out")
        saving, _, _ = self.whole_run("--max_steps", more, "--save_steps", "1")
        saves = len(list((self.folder / "out").glob("checkpoint-*")))
        resumed, again, self.seconds["resume, a step and end"] = self.whole_run("--max_steps", str(2 + steps), "--save_strategy", "no",
                                                                              stalls=True)
        assert saves == 1 + steps, saves
        step = divided(minus(longer, short), steps)
        self.memory = {when: {rank: counters[when][1] for rank, counters in short.items() if when in counters}
                       for when in ("RssAnon after MPI_Init", "RssAnon at the end", "VmHWM at the end")}
        self.memory_resumed = {rank: counters["RssAnon at the end"][1] for rank, counters in resumed.items()}
        return {"start": start, "step": step, "save": divided(minus(saving, longer), saves),
                "resume": minus(again, start), "end": minus(minus(short, start), step)}


def end(process):
    """mpirun and all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
