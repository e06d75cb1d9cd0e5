"""docs/from-trl.md tells of every setting what the table of options holds."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADS = {"served": "Served, ", "accepted": "Accepted, ", "refused": "Refused by name"}


def options():
    """Status by name; an alias has that of what it names."""
    lines = [line.split() for line in (ROOT / "tests" / "config" / "option_list.txt").read_text().splitlines()]
    known = {words[0]: words[1] for words in lines if words[1] != "="}
    known |= {words[0]: known.get(words[2]) for words in lines if words[1] == "="}
    known |= {name: "served" for name, status in known.items() if status == "block"}  # its settings are
    return known


def named(page, head):
    """What the first column of the table below `head` names."""
    rows = page[page.index(head):].split("\n\n")[1].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


class FromTrl(unittest.TestCase):
    def test_settings_are_what_the_page_says(self):
        page, known = (ROOT / "docs" / "from-trl.md").read_text(), options()
        for status, head in HEADS.items():
            names = named(page, head)
            self.assertGreater(len(names), 5, status)
            self.assertEqual({name: known.get(name) for name in names}, dict.fromkeys(names, status))

    def test_everything_that_is_refused_is_there(self):
        refused = {name for name, status in options().items() if status == "refused"}
        aliases = {name for name in refused if name.startswith("parallelism_config_")}
        page = (ROOT / "docs" / "from-trl.md").read_text()
        self.assertEqual(refused - aliases, named(page, HEADS["refused"]))


if __name__ == "__main__":
    unittest.main()
