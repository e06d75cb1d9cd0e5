"""A week of a long run in minutes: one fault after another, of all kinds, and one consistent curve.

By hand:  TRAINER=$PWD/trainer python3 tests/slurm/test_week.py [--faults 50] [--seed N] [--result FILE]

Four ranks on two of eight nodes train; somebody submits the job again whenever it has ended for good. What is
compared with a run that nothing happened to: the loss and the norm of every step, to the bit, and the final weights,
byte for byte. Prints one line per fault; ends with 1 if anything is amiss. FILE gets a summary as JSON.
"""

import argparse
import collections
import datetime
import filecmp
import json
import os
import random
import sys
import time

from cluster import FOUR_RANKS, TINY, Cluster, Job, read_steps, run

STEPS = 2000
SAVE_STEPS = 10
ARGUMENTS = [*FOUR_RANKS, "--max_steps", str(STEPS), "--save_steps", str(SAVE_STEPS), "--save_total_limit", "6"]
PATIENCE = 300  # seconds for anything to happen

# The trainer of every rank, as the batch scripts start it: slow as long as faults are wanted, its process id noted;
# what a file says is done before that one start of the job.
WRAPPER = '''
if [ -n "$PMIX_RANK" ]; then
    cd {folder}
    echo $$ > pids/$PMIX_RANK
    [ -e slow ] && export RINGSHARD_TEST_COMM_DELAY_US=2000
    [ -e starts/$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}} ] && . starts/$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}
fi'''

CLOCKS_DIFFER = '''
export FAKETIME=$(( (SLURM_NODEID * 2 - 1) * 600 )) FAKETIME_DONT_FAKE_MONOTONIC=1
export LD_PRELOAD=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1)
'''
# Files cannot grow beyond 100 KB, as on a disk that is full.
DISK_IS_FULL = 'trap "" XFSZ; ulimit -f 100\n'


class Week:
    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.folder = cluster.path("week")
        for name in ("pids", "starts"):
            os.makedirs(os.path.join(self.folder, name))
        open(os.path.join(self.folder, "slow"), "w").close()
        cluster.wrap_trainer(WRAPPER.format(folder=self.folder))
        self.jobs = 0
        self.submit()
        self.out = self.job.out

    def submit(self, *flags):
        self.jobs += 1
        self.job = Job(self.cluster, os.path.join("week", "run"), *ARGUMENTS, *flags, MAX_RESTARTS="1000",
                       flags=("--nodes", "2", "--output", os.path.join(self.folder, f"job-{self.jobs}.log")))
        self.job.log = os.path.join(self.folder, f"job-{self.jobs}.log")

    # --- what the run has come to ---

    def attempt(self):
        """The newest attempt that has begun its work, and the step it went on from."""
        begun = [0]
        for name in os.listdir(self.out) if os.path.isdir(self.out) else []:
            if name.startswith("attempt-") and os.path.exists(os.path.join(self.out, name, "start.json")):
                begun.append(int(name.removeprefix("attempt-")))
        if max(begun) == 0:
            return 0, 0
        with open(os.path.join(self.out, f"attempt-{max(begun)}", "start.json")) as file:
            return max(begun), json.load(file)["step"]

    def step(self):
        try:
            return read_steps(self.out)[-1]["step"]
        except (OSError, ValueError, IndexError):
            return 0

    def newest_checkpoint(self):
        try:
            with open(os.path.join(self.out, "latest")) as file:
                return file.read().strip()
        except OSError:
            return ""

    def wait(self, is_so, what):
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                sys.exit(f"waited {PATIENCE} s for {what}\n{self.job.show()}\n{self.job.story()[-4000:]}")
            time.sleep(0.5)

    def wait_for_progress(self):
        """Until the attempt under way has saved, and some steps more."""
        wanted = SAVE_STEPS + self.chance.randint(2, 12)

        def is_under_way():
            if self.has_ended():
                self.submit()
            return self.step() >= self.attempt()[1] + wanted
        self.wait(is_under_way, f"{wanted} steps")

    def has_ended(self):
        return self.job.show().get("JobState") in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

    def wait_for_next_attempt(self, before):
        """The job comes back by itself, or it has ended for good and the user submits it again."""
        def has_begun():
            if self.attempt()[0] > before:
                return True
            if self.has_ended():
                self.submit()
            return False
        self.wait(has_begun, "the next attempt")

    # --- means ---

    def pid(self, rank):
        with open(os.path.join(self.folder, "pids", str(rank))) as file:
            return file.read().strip()

    def kill(self, name, rank=None):
        rank = self.chance.randrange(4) if rank is None else rank
        self.cluster.run("kill", f"-{name}", self.pid(rank))

    def nodes(self):
        return self.cluster.run("scontrol", "show", "hostnames", self.job.show()["NodeList"]).stdout.split()

    def warn(self):
        self.cluster.run("scancel", "--signal=USR1", self.job.id)

    def at_next_start(self, script):
        restarts = int(self.job.show()["Restarts"])
        with open(os.path.join(self.folder, "starts", f"{self.job.id}-{restarts + 1}"), "w") as file:
            file.write(script)
        before = self.attempt()[0]
        self.warn()
        self.wait(lambda: self.attempt()[0] > before or self.has_ended(), "the start that fails")

    def damage_newest_checkpoint(self):
        state = os.path.join(self.out, self.newest_checkpoint(), "state.h5")
        size = os.path.getsize(state)
        with open(state, "r+b") as file:
            if self.chance.random() < 0.5:
                file.truncate(size // 2)
            else:
                file.seek(size * 3 // 4)
                byte = file.read(1)[0]
                file.seek(size * 3 // 4)
                file.write(bytes([byte ^ 1]))

    # --- faults; those that return True do not end the attempt ---

    def a_rank_is_killed(self):
        self.kill("KILL")

    def a_rank_crashes(self):
        self.kill("SEGV")

    def one_rank_gets_sigterm(self):
        self.kill("TERM")

    def the_warning_before_the_time_limit(self):
        self.warn()

    def a_rank_hangs(self):
        before = self.attempt()[0]
        self.at_next_start(f"export RINGSHARD_FAULT=step:{self.chance.randint(11, 20)}:stall@{self.chance.randrange(4)}\n")
        self.wait_for_next_attempt(before + 1)

    def the_administrator_requeues(self):
        self.cluster.run("scontrol", "requeue", self.job.id)

    def scancel(self):
        self.cluster.run("scancel", self.job.id)

    def stop_now(self):
        open(os.path.join(self.out, "stop-now"), "w").close()

    def save_now(self):
        open(os.path.join(self.out, "save-now"), "w").close()
        self.wait(lambda: not os.path.exists(os.path.join(self.out, "save-now")), "save-now")
        return True

    def killed_while_saving(self):
        point = self.chance.choice(("save_begun", "save_written", "save_described", "save_named"))
        rank = 0 if point in ("save_described", "save_named") else self.chance.randrange(4)
        self.at_next_start(f"export RINGSHARD_FAULT={point}:2:kill@{rank}\n")

    def an_exception(self):
        self.at_next_start(f"export RINGSHARD_FAULT=step:{self.chance.randint(2, 15)}:throw@{self.chance.randrange(4)}\n")

    def killed_before_the_first_checkpoint(self):
        self.at_next_start(f"export RINGSHARD_FAULT=step:{self.chance.randint(1, 8)}:kill@{self.chance.randrange(4)}\n")

    def the_disk_is_full(self):
        self.at_next_start(DISK_IS_FULL)

    def clocks_differ(self):
        self.at_next_start(CLOCKS_DIFFER)
        return True

    def the_newest_checkpoint_is_damaged(self):
        self.kill("KILL")
        self.wait(lambda: self.job.show()["JobState"] != "RUNNING", "the end of the attempt")
        self.damage_newest_checkpoint()

    def a_second_job_takes_over(self):
        first = self.job
        self.submit("--take_over", "true")
        self.wait(lambda: first.show()["JobState"] == "FAILED", "the end of the first job")
        code = first.show()["ExitCode"]
        if code != "79:0":
            sys.exit(f"the first job ended with {code}, not with 79\n{first.story()[-4000:]}")

    def the_controller_restarts(self):
        self.cluster.run("scontrol", "shutdown", "slurmctld")
        time.sleep(self.chance.uniform(1, 8))
        self.cluster.run("slurmctld")
        self.wait(lambda: self.cluster.run("scontrol", "ping").returncode == 0, "the controller")
        return True

    def the_controller_is_away_at_the_end_of_an_attempt(self):
        pid = self.pid(0)
        self.cluster.run("scontrol", "shutdown", "slurmctld")
        self.cluster.run("kill", "-USR1", pid)
        time.sleep(self.chance.uniform(3, 10))
        self.cluster.run("slurmctld")

    def a_rank_stalls(self):
        rank = self.chance.randrange(4)
        self.kill("STOP", rank)
        time.sleep(self.chance.uniform(1, 10))
        self.kill("CONT", rank)
        return True

    def a_short_cut(self):
        node = self.chance.choice(self.nodes())
        self.cluster.do("cut", node)
        time.sleep(self.chance.uniform(0.5, 4))
        self.cluster.do("join", node)
        return True

    def a_node_is_cut_off(self):
        node = self.chance.choice(self.nodes())
        before = self.attempt()[0]
        self.cluster.do("cut", node)
        try:
            self.wait_for_next_attempt(before)
        finally:
            self.cluster.do("join", node)

    # --- the run ---

    def suffer(self, kind):
        self.wait_for_progress()
        before, step, began = self.attempt()[0], self.step(), time.monotonic()
        goes_on = getattr(self, kind)()
        if not goes_on:
            self.wait_for_next_attempt(before)
        attempt, start = self.attempt()
        return {"kind": kind, "at_step": step, "steps_lost": max(0, step - start) if attempt > before else 0,
                "attempt": attempt, "job": self.jobs, "seconds": round(time.monotonic() - began, 1)}

    def finish(self):
        os.remove(os.path.join(self.folder, "slow"))
        before = self.attempt()[0]
        self.warn()
        self.wait_for_next_attempt(before)
        self.wait(lambda: self.job.show()["JobState"] == "COMPLETED", "the end")


def differences(out, whole):
    found = []
    ours, theirs = read_steps(out), read_steps(whole)
    if [line["step"] for line in ours] != [line["step"] for line in theirs]:
        found.append(f"{len(ours)} steps, not {len(theirs)}, or not in order")
    for a, b in zip(ours, theirs):
        found += [f"step {a['step']}: {key} {a[key]} != {b[key]}" for key in ("loss", "grad_norm") if a[key] != b[key]]
    if not filecmp.cmp(os.path.join(out, "model.safetensors"), os.path.join(whole, "model.safetensors"), shallow=False):
        found.append("the final weights differ")
    return found


FAULTS = ("a_rank_is_killed", "a_rank_crashes", "one_rank_gets_sigterm", "the_warning_before_the_time_limit",
          "a_rank_hangs", "the_administrator_requeues", "scancel", "stop_now", "save_now",
          "killed_while_saving", "an_exception", "killed_before_the_first_checkpoint", "the_disk_is_full", "clocks_differ",
          "the_newest_checkpoint_is_damaged", "a_second_job_takes_over", "the_controller_restarts",
          "the_controller_is_away_at_the_end_of_an_attempt", "a_rank_stalls", "a_short_cut", "a_node_is_cut_off")


def kinds_of(chance, number):
    """All kinds as often as each other, in any order."""
    kinds = []
    while len(kinds) < number:
        kinds += chance.sample(FAULTS, len(FAULTS))
    return kinds[:number]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--kinds", nargs="+", choices=FAULTS, help="these, in this order")
    parser.add_argument("--result")
    wish = parser.parse_args()
    print(f"seed {wish.seed}", flush=True)
    cluster = Cluster()
    began = time.monotonic()
    whole = cluster.path("whole")
    result = run(*TINY, *ARGUMENTS, "--output_dir", whole, ranks=4, timeout=1200)
    assert result.returncode == 0, result.stderr
    week = Week(cluster, wish.seed)
    faults = []
    for kind in wish.kinds or kinds_of(week.chance, wish.faults):
        faults.append(week.suffer(kind))
        print(len(faults), faults[-1], flush=True)
    week.finish()
    found = differences(week.out, whole)
    summary = {"date": str(datetime.date.today()), "seed": wish.seed, "faults": len(faults),
               "kinds": dict(sorted(collections.Counter(fault["kind"] for fault in faults).items())),
               "jobs": week.jobs, "attempts": week.attempt()[0], "steps": STEPS,
               "steps_lost": sum(fault["steps_lost"] for fault in faults),
               "minutes": round((time.monotonic() - began) / 60, 1), "cores": os.cpu_count(),
               "curve_and_weights": "equal to the bit" if not found else found[:20], "each": faults}
    if wish.result:
        with open(wish.result, "w") as file:
            json.dump(summary, file, indent=1)
    print({key: value for key, value in summary.items() if key != "each"})
    cluster.down()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
