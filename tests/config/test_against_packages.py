"""The table of settings against the installed TRL and Accelerate: every name they know is known here,
with their default, and their profiles mean what ours of the same name mean."""

import contextlib
import dataclasses
import glob
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
from trainer import TrainerTest, run  # noqa: E402

try:
    with contextlib.redirect_stderr(open(os.devnull, "w")):
        import trl
        import yaml
        from accelerate.commands.launch import launch_command_parser
        from trl import ModelConfig, ScriptArguments, SFTConfig
        from trl.scripts.utils import DatasetMixtureConfig
except ImportError as error:
    print(f"skipped: {error}; scripts/setup --oracles installs it")
    sys.exit(77)

# Defaults that are another way to say the same, or that this program states on purpose.
OTHER_DEFAULTS = {
    "output_dir": "trainer_output",    # what TRL uses when none is given
    "resume_from_checkpoint": "auto",  # docs/contract.md
    "bf16": None,                      # one setting with mixed_precision
    "tf32": False,
    "disable_tqdm": False,
    "lora_target_modules": [], "lora_modules_to_save": [], "lora_target_parameters": [],  # an empty list for None
    "label_names": None, "include_for_metrics": [], "debug": None, "datasets": None, "dataset_config": None,
}
# Flags of `accelerate launch` that are about its own process.
LAUNCHER_ONLY = {"help", "vm", "config"}


def known_names():
    with open(os.path.join(os.path.dirname(__file__), "option_list.txt")) as file:
        return [line.split() for line in file.read().splitlines()]


class AgainstPackages(TrainerTest):
    def setUp(self):
        self.lines = known_names()
        self.known = {words[0] for words in self.lines}

    def test_every_training_argument_is_known(self):
        for cls in (ScriptArguments, ModelConfig, DatasetMixtureConfig, SFTConfig):
            missing = {field.name for field in dataclasses.fields(cls)} - self.known
            self.assertEqual(missing, set(), cls.__name__)

    def test_every_launcher_argument_is_known(self):
        families = ("megatron_lm_", "fp8_", "aws_")
        names = set()
        for action in launch_command_parser()._actions:
            names |= {flag[2:].replace("-", "_") for flag in action.option_strings if flag.startswith("--")}
        missing = {name for name in names - self.known - LAUNCHER_ONLY if not name.startswith(families)}
        self.assertEqual(missing, set())

    def test_defaults_are_theirs(self):
        result = run("config", "--json")
        ours = {name: setting["value"] for name, setting in json.loads(result.stdout).items()}
        for cls in (ScriptArguments, ModelConfig, SFTConfig):
            for field in dataclasses.fields(cls):
                if field.name in OTHER_DEFAULTS or field.name not in ours:
                    continue
                theirs = field.default if field.default is not dataclasses.MISSING else field.default_factory()
                if field.name == "report_to" and theirs == "none":
                    theirs = []
                if field.name == "pad_to_multiple_of":
                    theirs = str(theirs)
                self.assertEqual(ours[field.name], theirs, field.name)

    def test_profiles_mean_the_same(self):
        folder = os.path.join(os.path.dirname(trl.__file__), "accelerate_configs")
        files = sorted(glob.glob(os.path.join(folder, "*.yaml")))
        self.assertGreaterEqual(len(files), 7)
        for path in files:
            name = os.path.splitext(os.path.basename(path))[0]
            theirs = json.loads(run("config", "--json", "--config_file", path).stdout)
            ours = json.loads(run("config", "--json", "--profile", name).stdout)
            for setting in ours:
                if setting in ("profile", "num_processes"):
                    continue
                self.assertEqual(ours[setting]["value"], theirs[setting]["value"], (name, setting))
            with open(path) as file:
                their_keys = yaml.safe_load(file)
            with open(os.path.join(os.path.dirname(__file__), "..", "..", "configs", name + ".yaml")) as file:
                our_keys = yaml.safe_load(file)
            if name == "single_gpu":  # TRL's packaged copy says 8 processes, its example says 1
                their_keys["num_processes"] = 1
            self.assertEqual(our_keys, their_keys, name)


if __name__ == "__main__":
    unittest.main()
