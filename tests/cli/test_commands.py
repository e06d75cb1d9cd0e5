"""The program as its users meet it: help, wrong input and its exit codes, the small commands."""

import json
import os
import pty
import shutil
import subprocess
import tempfile
import unittest

from trainer import TRAINER, TrainerTest, clean_environment, run


class Version(TrainerTest):
    def test_version(self):
        self.expect(run("version"), 0, "ringshard 0.", stream="stdout")
        self.expect(run("--version"), 0, "ringshard 0.", stream="stdout")


REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Repository(TrainerTest):
    def test_a_clone_that_is_moved_runs_its_own_program(self):
        link = os.path.join(REPOSITORY, "trainer")
        built = os.path.dirname(os.path.realpath(TRAINER))
        if not os.path.islink(link) or not built.startswith(os.path.realpath(REPOSITORY) + os.sep):
            self.skipTest("the build lies outside the repository")
        self.assertFalse(os.path.isabs(os.readlink(link)), os.readlink(link))

    def test_flags_behind_an_action_of_the_cluster_count(self):
        result = subprocess.run([os.path.join(REPOSITORY, "scripts", "slurm-cluster"), "status", "--nodes", "many"],
                                capture_output=True, text=True, check=False)
        self.expect(result, 2, "argument --nodes: invalid int value: 'many'")


class WrongInput(TrainerTest):
    def test_unknown_command(self):
        self.expect_one_message(run("docter"), 64, "there is no command 'docter'; did you mean doctor?")
        self.expect_one_message(run("grpo", "--learning_rate", "1"), 64,
                                "there is no command 'grpo': this program does supervised fine-tuning, with `trainer sft`, DPO, CPO, KTO and reward models")
        self.expect_one_message(run("doctor", "train.py"), 64, "unexpected word 'train.py'")
        self.expect_one_message(run("doctor", "--seed"), 64, "--seed")
        self.expect_one_message(run("config", "--take_over", "perhaps"), 64,
                                "unexpected word 'perhaps' after --take_over on the command line: write --take_over true or false")

    def test_what_needs_no_mpi_is_said_once(self):
        self.expect_one_message(run("docter", ranks=3), 64, "did you mean doctor?")
        self.expect_one_message(run("config", "--sed", "3", ranks=3), 78, "did you mean seed?")
        for command in (["--help"], ["config"], ["version"]):
            result = run(*command, ranks=3)
            self.expect(result, 0)
            self.assertEqual(result.stdout, run(*command).stdout)
        for task, times in (("0", 1), ("1", 0)):
            result = run("doctor", SLURM_JOB_ID="1", SLURM_STEP_ID="0", SLURM_PROCID=task, SLURM_STEP_NUM_TASKS="8")
            self.expect(result, 78)
            self.assertEqual(result.stderr.count("trainer: "), times)

    def test_every_problem_of_a_start_at_once(self):
        result = run("--optim", "ademamix", "--save_safetensors", "false", "--fp8_interval", "4", "--padding_free", "--seed", "x")
        self.expect(result, 78, "optim = ademamix", "save_safetensors = false", "fp8_interval = ", "padding_free = true", "seed = x")
        self.assertEqual(len(result.stderr.splitlines()), 5)

    def test_too_many_threads(self):
        self.expect_one_message(run("doctor", "--num_threads", "1000000", ranks=2), 78, "num_threads = 1000000")

    def test_ranks_that_are_bound_to_one_core(self):
        listed = subprocess.run(["lscpu", "-p=CPU,CORE"], capture_output=True, text=True, check=True).stdout
        core_of = dict(line.split(",") for line in listed.splitlines() if not line.startswith("#"))
        usable = sorted(os.sched_getaffinity(0))
        if len({core_of[str(cpu)] for cpu in usable}) < 2:
            self.skipTest("one core")
        self.assertNotIn("ranks share cores", run("doctor", ranks=2).stderr)
        result = run("doctor", ranks=2, preexec_fn=lambda: os.sched_setaffinity(0, usable[:1]))
        self.expect(result, 0, "of 2 ranks only 1 has a core of its own", "--cpu-bind=cores")
        self.assertEqual(result.stderr.count("warning: ranks share cores: on "), 1)
        # A host that is said to have two NUMA nodes. Some containers forbid the call.
        result = run("doctor", preexec_fn=lambda: os.sched_setaffinity(0, {0}), HWLOC_SYNTHETIC="numa:2 core:1 pu:1",
                     HWLOC_THISSYSTEM="1")
        self.expect(result, 0)
        self.assertRegex(result.stdout, r"memory lies (on NUMA node 0, that|near each thread: it cannot be bound to NUMA node 0)")

    def test_one_message_from_one_rank(self):
        self.expect_one_message(run("doctor", "--learning_rte", "3", ranks=4), 78,
                                "learning_rte = 3 [command line]: there is no setting of this name; did you mean learning_rate?")
        self.expect_one_message(run("doctor", "--config", "no/such.yaml", ranks=2), 66, "no/such.yaml: there is no such file")
        self.expect_one_message(run("doctor", "--profile", "zero3", "--cp_size", "4", ranks=2), 78,
                                "sizes that work: 1x2x1x1", "cp_size = 4 [command line]")
        self.expect_one_message(run("doctor", "--profile", "single_gpu", ranks=2), 78, "start one rank")
        self.expect_one_message(run("doctor", "--device", "cuda", ranks=2), 78, "[rank 0 on ")

    def test_unsupported(self):
        self.expect_one_message(run("config", "--optim_target_modules", "all"), 78, "is not served")

    def test_what_begins_a_finished_run_anew_is_said(self):
        self.expect(run("config", "--overwrite_output_dir", "true"), 0, "resume_from_checkpoint never begins anew in the folder of a run")

    def test_malformed_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for content, words in (("seed: [1\n", "is not readable YAML"), ("- a\n", "must hold lines"),
                                   ("seed: {a: 1}\n", "must be a whole number"), ("sed: 1\n", "did you mean seed?"),
                                   ("\0\1\2", "run.yaml")):
                path = os.path.join(folder, "run.yaml")
                with open(path, "w") as file:
                    file.write(content)
                result = run("config", "--config", path)
                self.expect(result, 78, words)

    def test_a_world_that_srun_and_mpi_see_differently(self):
        result = run("doctor", SLURM_JOB_ID="1", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="8")
        self.expect_one_message(result, 78, "8 tasks", "without telling them of each other", "srun --mpi=pmix")
        counted = run("doctor", SLURM_JOB_ID="1", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="8",
                      ranks=2)
        self.assertEqual(counted.returncode, 0, counted.stderr)  # mpirun started them: the step's count is not theirs

    def test_a_library_path_that_hides_the_program_s_own_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            listed = subprocess.run(["readelf", "-d", os.path.join(os.path.dirname(os.path.realpath(TRAINER)), "libringshard_engine.so")],
                                    capture_output=True, text=True, check=True).stdout
            parquet = next(word.strip("[]") for word in listed.split() if word.startswith("[libparquet.so"))
            with open(os.path.join(folder, parquet), "w") as file:
                file.write("another program's")
            result = run("doctor", LD_LIBRARY_PATH=folder)
            self.expect_one_message(result, 66, f"LD_LIBRARY_PATH = {folder} comes before the libraries of this program: unset it")

    def test_an_engine_of_another_build(self):
        program = os.path.realpath(TRAINER)
        version = run("version").stdout.split()[1]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(program, folder)
            with open(os.path.join(os.path.dirname(program), "libringshard_engine.so"), "rb") as file:
                engine = file.read()
            self.assertIn(version.encode(), engine)
            other = version[:-1] + "?"
            with open(os.path.join(folder, "libringshard_engine.so"), "wb") as file:
                file.write(engine.replace(version.encode(), other.encode()))
            result = subprocess.run([os.path.join(folder, "trainer"), "doctor"], capture_output=True, text=True)
            self.expect_one_message(result, 66, f"is of version {other}, this program of {version}: one build makes both")

    def test_variables_in_a_settings_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.yaml")
            with open(path, "w") as file:
                file.write("env: {OMP_NUM_THREADS: 2, VAR1: value1}\n")
            self.expect(run("doctor", "--config", path, ranks=2), 0, "computes with 2 threads", stream="stdout")
            self.expect(run("config", "--config", path), 0, "OMP_NUM_THREADS", stream="stdout")
            for name in ("OMPI_MCA_btl", "RINGSHARD_SEED", "LD_LIBRARY_PATH"):
                self.expect_one_message(run("doctor", "--env", json.dumps({name: "1"})), 78, "env = ", f"{name} has been read before the settings")
            self.expect_one_message(run("doctor", "--env", '["A"]'), 78, "must be a mapping of variables")

    def test_launchers_that_start_processes_without_mpi(self):
        for rank, messages in (("0", 1), ("1", 0)):
            for command in ("train", "doctor"):
                result = run(command, WORLD_SIZE="2", RANK=rank, LOCAL_RANK=rank)
                self.expect(result, 78, *["WORLD_SIZE = 2", "mpirun -n 2"][:2 * messages])
                self.assertEqual(result.stderr.count("trainer: "), messages)
        self.expect_one_message(run("doctor", PMI_SIZE="2", PMI_RANK="0"), 78, "PMI_SIZE = 2", "another MPI")
        self.expect(run("config", WORLD_SIZE="2"), 0)
        self.expect(run("doctor"), 0, "all-reduce of 64 MiB over the world: not measured, there is one rank", stream="stdout")
        self.expect(run("doctor", ranks=2, WORLD_SIZE="2"), 0)


class Terminal(TrainerTest):
    def test_lines_of_logged_steps_stay_above_the_bar(self):
        data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity", "data")
        ours, theirs = pty.openpty()
        with tempfile.TemporaryDirectory() as folder:
            job = subprocess.Popen([TRAINER, "train", "--model_name_or_path", os.path.join(data, "models", "qwen2-tiny"), "--dataset_name",
                                    os.path.join(data, "rows", "text.jsonl"), "--bf16", "false", "--max_length", "32", "--max_steps", "4",
                                    "--logging_steps", "2", "--save_strategy", "no", "--output_dir", folder],
                                   stdout=subprocess.DEVNULL, stderr=theirs, env=clean_environment())
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 4096):
                    shown += piece
            except OSError:  # the other end is closed
                pass
            os.close(ours)
            self.assertEqual(job.wait(), 0, shown)
        lines = [line.rsplit(b"\x1b[K")[-1].strip() for line in shown.split(b"\n")]  # as they stay: what is erased is gone
        self.assertEqual([line.split()[1] for line in lines if line.startswith(b"step ")], [b"2/4", b"4/4"], shown)
        self.assertTrue(any(b"100% |####" in line for line in shown.split(b"\x1b[K")), shown)


class Config(TrainerTest):
    def test_origins(self):
        result = run("config", "--json", "--profile", "zero2", "--learning_rate", "1e-4", RINGSHARD_SEED="7")
        self.expect(result, 0)
        settings = json.loads(result.stdout)
        self.assertEqual(settings["learning_rate"], {"value": 1e-4, "origin": "command line", "given": True})
        self.assertEqual(settings["seed"], {"value": 7, "origin": "RINGSHARD_SEED", "given": True})
        self.assertEqual(settings["zero_stage"]["value"], 2)
        self.assertTrue(settings["zero_stage"]["origin"].startswith("profile zero2"))
        self.assertEqual(settings["max_steps"], {"value": -1, "origin": "default", "given": False})

    def test_what_is_printed_can_be_used(self):
        flags = ("--profile", "fsdp2", "--cp_size", "2", "--packing", "--max_length", "16384", "--run_name", "a: b")
        first = run("config", *flags)
        self.expect(first, 0)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(first.stdout)
            file.flush()
            second = run("config", "--config", file.name, "--json")
        values = {name: setting["value"] for name, setting in json.loads(second.stdout).items()}
        expected = {name: setting["value"] for name, setting in json.loads(run("config", *flags, "--json").stdout).items()}
        self.assertEqual(values, expected)


class Configure(TrainerTest):
    def test_answers_become_a_file_that_can_be_used(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("configure", stdin="models/tiny\nit's \"data\": #1\n8\n131072\nno\n", cwd=folder)
            self.expect(result, 0, "wrote run.yaml", stream="stdout")
            settings = json.loads(run("config", "--config", "run.yaml", "--json", cwd=folder).stdout)
            self.assertEqual(settings["dataset_name"]["value"], "it's \"data\": #1")
            self.assertEqual(settings["cp_size"]["value"], 4)
            self.assertEqual(settings["max_length"]["value"], 131072)
            self.assertEqual(settings["zero_stage"]["value"], 3)
            self.assertEqual(settings["model_name_or_path"]["value"], "models/tiny")
            self.expect(run("configure", stdin="\n\n\n\n\n", cwd=folder), 78, "run.yaml exists already")
            self.expect(run("configure", "second.yaml", stdin="\n\nmany\n1\n\nyes\n", cwd=folder), 0,
                        "a whole number above 0", stream="stdout")
            self.expect(run("configure", "third.yaml", stdin="\n", cwd=folder), 64, "nothing was written")
            self.assertFalse(os.path.exists(os.path.join(folder, "third.yaml")))


class Doctor(TrainerTest):
    def test_meshes_of_eight_ranks(self):
        result = run("doctor", "--profile", "alst_ulysses_4gpu", ranks=8)
        self.expect(result, 0, "mesh 1x4x1x2 ", "numbers exchanged by all groups: right", "\nOK\n", stream="stdout")
        self.assertEqual(result.stdout.count("mesh "), 1)
        result = run("doctor", "--profile", "alst_ulysses_4gpu", "--cp_size", "2", ranks=8)
        self.expect(result, 0, "mesh 1x2x2x2 ", "effective batch 16 rows = 8 per device x 2 data ranks x 1 accumulation",
                    "fewer data ranks than devices", "\nOK\n", stream="stdout")

    def test_hidden_instructions(self):
        found = run("doctor", RINGSHARD_TEST_INSTRUCTIONS="portable")
        self.expect(found, 0, "bf16 through fp32", "portable", stream="stdout")
        self.assertNotIn("avx", found.stdout)
        self.expect(run("doctor", RINGSHARD_TEST_INSTRUCTIONS="sse"), 78, "RINGSHARD_TEST_INSTRUCTIONS = sse: must be portable, avx2")

    def test_alone(self):
        self.expect(run("doctor"), 0, "mesh 1x1x1x1", "LibTorch", "\nOK\n", stream="stdout")


if __name__ == "__main__":
    unittest.main()
