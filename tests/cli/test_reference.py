"""What the program says of itself: help, the manual page, completion in bash and docs/settings.md, all from one table."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from trainer import TrainerTest, run

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
METHODS = ("dpo", "cpo", "kto", "reward", "classify", "embed")
COMMANDS = ("train", *METHODS, "fork", "prepare", "plan", "prove", "tokenize", "inspect", "export", "verify", "score", "plot", "report",
            "sweep", "init", "config", "configure", "doctor", "version", "help")


def agreed_names():
    with open(os.path.join(ROOT, "tests", "config", "option_list.txt")) as file:
        return {line.split()[0] for line in file if line.strip()}


def text_of(*arguments):
    result = run(*arguments)
    assert result.returncode == 0 and result.stderr == "", result
    return result.stdout


class Help(TrainerTest):
    def check_screen(self, text, lines):
        self.assertLessEqual(len(text.splitlines()), lines, text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_it_fits_a_screen(self):
        overview = text_of("--help")
        self.check_screen(overview, 24)
        for command in (", ".join(METHODS), *(one for one in COMMANDS[:-1] if one not in METHODS)):
            self.assertRegex(overview, rf"(?m)^  {command} +\S")
        for arguments in ((), ("-h",), ("help",), ("help", "--help"), ("--packing", "--help")):
            self.assertEqual(text_of(*arguments), overview)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            text = text_of(command, "--help") if command != "help" else text_of("help", "help")
            self.check_screen(text, 32)
            self.assertRegex(text, rf"\Atrainer {command}: \S")
            self.assertEqual(text_of("help", command), text)
        self.assertEqual(text_of("sft", "--help"), text_of("train", "--help"))
        self.assertIn("--packing ", text_of("train", "--help"))
        self.assertNotIn("Usual settings", text_of("plot", "--help"))

    def test_flags_of_commands_are_those_they_take(self):
        for command in ("inspect", "plot", "report", "sweep"):
            flags = re.findall(r"(?m)^  (--?\w+)(?: ([^ ]+))?  ", text_of(command, "--help"))
            self.assertGreater(len(flags), 3)
            for flag, value in flags:
                result = run(command, flag, *([] if not value else ["1"]))
                self.assertNotIn("there is no -", result.stderr, (command, flag))
        for flag in ("--longest", "--suggest", "--json"):
            self.assertIn(flag, text_of("plan", "--help"))
            self.assertNotIn("there is no setting", run("plan", flag, "--world", "0").stderr)
            self.expect(run("plan", flag, "--world", "0"), 64, "--world must be at least 1")

    def test_groups_and_settings(self):
        self.assertIn("--packing_strategy bfd|bfd_split|wrapped  (bfd)", text_of("--help", "data"))
        self.assertEqual(text_of("plot", "--help", "Data"), text_of("--help", "data"))
        self.assertIn("Peak learning rate", text_of("--help", "learning_rate"))
        self.assertEqual(text_of("--help", "--learning-rate"[2:]), text_of("--help", "learning_rate"))
        self.assertEqual(text_of("--help", "max_seq_length"),
                         "  --max_seq_length: max_length\n" + text_of("--help", "max_length"))
        self.assertIn("LoRA", text_of("--help", "use_peft"))
        everything = text_of("--help", "all")
        for topic in re.search(r"GROUP: ([\w, \n]+)", text_of("--help")).group(1).replace(",", " ").split():
            section = text_of("--help", topic)
            self.assertIn(section, everything)
            self.assertGreater(len(section.splitlines()), 2)
        for line in everything.splitlines():
            self.assertTrue(len(line) <= 80 or line.startswith("  --"), line)  # a setting with many choices
        self.expect_one_message(run("--help", "nothing"), 64, "there is no group or setting 'nothing'",
                                "The groups are model, data, training,", "--help all")
        self.expect_one_message(run("--help", "lerning_rate"), 64, "did you mean learning_rate?")


class OneTable(TrainerTest):
    """Help, the manual page, docs/settings.md and the agreed list name the same settings."""

    def test_names(self):
        wanted = agreed_names()
        self.assertGreater(len(wanted), 330)
        everything = text_of("--help", "all")
        settings = everything[everything.index("\nModel\n"):]  # after the flags of commands
        self.assertEqual(set(re.findall(r"(?m)^  --([\w.]+)", settings)), wanted)
        manual = text_of("help", "man")
        settings = manual[manual.index('.SH "SETTINGS"'):manual.index('.SH "EXIT STATUS"')]
        self.assertEqual(set(re.findall(r"(?m)^\.TP\n\\fB\\-\\-([\w.]+)\\fR", settings)), wanted)
        self.assertEqual(set(re.findall(r"(?m)^- `--([\w.]+)", text_of("help", "markdown"))), wanted)

    def test_the_page_of_settings_is_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "settings.md")) as file:
            self.assertEqual(file.read(), text_of("help", "markdown"),
                             "write it again: ./trainer help markdown > docs/settings.md")

    def test_what_the_docs_call_a_setting_is_one(self):
        """After the program's name on a line of shell, every --flag is a setting or a flag of a command."""
        known = agreed_names() | {"help", "mpi", "oversubscribe"}
        for command in COMMANDS:
            known.update(flag.strip("-") for flag in re.findall(r"(?m)^  (--\w+)", text_of("help", command)))
        checked = 0
        for folder, _, files in os.walk(os.path.join(ROOT, "docs")):
            for name in [os.path.join(folder, name) for name in files if name.endswith(".md")] + [os.path.join(ROOT, "README.md")]:
                with open(name) as file:
                    text = file.read().replace("\\\n", " ")
                for words in re.findall(r"trainer ([^\n`#]*)", text):
                    for flag in re.findall(r"(?:^| )--([\w-]+)", words.split(" -- ")[0]):
                        checked += 1
                        self.assertIn(flag.replace("-", "_").removeprefix("no_"), known | {flag}, f"{name}: {words}")
        self.assertGreater(checked, 40)


class ManualPage(TrainerTest):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".1")
        self.addCleanup(self.file.close)
        self.file.write(text_of("help", "man"))
        self.file.flush()

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_groff(self):
        result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou", self.file.name], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for words in ("NAME", "SYNOPSIS", "COMMANDS", "SETTINGS", "EXIT STATUS", "--packing_strategy bfd|bfd_split|wrapped",
                      "75     Stopped by a signal"):
            self.assertIn(words, result.stdout)
        self.assertNotIn("\\", result.stdout)
        for name in agreed_names():
            self.assertIn("--" + name, result.stdout)

    @unittest.skipUnless(shutil.which("mandoc"), "needs mandoc")
    def test_mandoc(self):
        result = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", self.file.name], capture_output=True, text=True)
        problems = [line for line in result.stdout.splitlines() if "missing date" not in line]
        self.assertEqual(problems, [])


class Completion(TrainerTest):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".bash")
        self.addCleanup(self.file.close)
        self.file.write(text_of("help", "bash-completion"))
        self.file.flush()

    def complete(self, *words):
        """What bash offers for the last word, after `trainer`."""
        words = ["trainer", *words]
        quoted = " ".join("'" + word + "'" for word in words)
        script = f"source '{self.file.name}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _trainer; " \
                 "printf '%s\\n' \"${COMPREPLY[@]}\""
        result = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return set(result.stdout.split())

    def test_commands_and_settings(self):
        self.assertEqual(self.complete(""), {*COMMANDS, "sft"})
        self.assertEqual(self.complete("con"), {"config", "configure"})
        self.assertEqual(self.complete("--learning"), {"--learning_rate"})
        self.assertEqual(self.complete("--packing", "--max-len"), {"--max_length"})
        self.assertEqual(self.complete("train", "--torch_dt"), {"--torch_dtype"})  # another name: where nothing else is
        offered = self.complete("train", "--")
        with open(os.path.join(ROOT, "tests", "config", "option_list.txt")) as file:
            wanted = {"--" + line.split()[0] for line in file if line.split()[1] == "served"}
        self.assertEqual(offered, wanted | {"--help", "--config"})

    def test_flags_of_a_command(self):
        self.assertEqual(self.complete("plot", "run", "--"), {"--output", "--log", "--plan", "--help"})
        self.assertEqual(self.complete("plan", "--wor"), {"--world"})
        self.assertEqual(self.complete("sweep", ""), {"expand", "submit", "status", "best"})
        self.assertEqual(self.complete("report", "run", "--verify_checkpoint", ""), {"full", "sizes"})
        self.assertEqual(self.complete("plot", "ru"), set())  # bash goes on with files

    def test_values(self):
        self.assertEqual(self.complete("--packing_strategy", ""), {"bfd", "bfd_split", "wrapped"})
        self.assertEqual(self.complete("--packing_strategy", "=", "w"), {"wrapped"})
        self.assertEqual(self.complete("--packing-strategy", "="), {"bfd", "bfd_split", "wrapped"})
        self.assertEqual(self.complete("--packing", "t"), {"true"})
        self.assertEqual(self.complete("doctor", "--profile", "zero"), {"zero1", "zero2", "zero3"})
        self.assertEqual(self.complete("--accelerate_config", "fsdp"), {"fsdp1", "fsdp2"})
        self.assertEqual(self.complete("--seed", ""), set())
        self.assertEqual(self.complete("--help", "prec"), {"precision"})
        self.assertEqual(self.complete("plot", "--help", "report"), {"report"})

    def test_as_bash_itself_completes(self):
        """A real line editor, asked by the tabulator."""
        script = ("import os, pty, sys, time\n"
                  "pid, terminal = pty.fork()\n"
                  "if pid == 0:\n"
                  "    os.environ.update(PS1='> ', TERM='dumb', INPUTRC='/dev/null')\n"
                  "    os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])\n"
                  "def say(text):\n"
                  "    os.write(terminal, text.encode()); time.sleep(0.5)\n"
                  f"say('source {self.file.name}\\n')\n"
                  "say('echo ./trainer\\n')\n"
                  "say('./trainer --packing_str\\t=bfd_\\t')\n"
                  "say('\\x15exit\\n')\n"
                  "out = b''\n"
                  "try:\n"
                  "    while True:\n"
                  "        out += os.read(terminal, 4096)\n"
                  "except OSError:\n"
                  "    pass\n"
                  "sys.stdout.write(out.decode())\n")
        result = subprocess.run(["python3", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertRegex(result.stdout, r"\./trainer --packing_strategy ?\x08?=bfd_split")


if __name__ == "__main__":
    unittest.main()
