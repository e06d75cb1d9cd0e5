"""Changes of single fields of config.json, in every family that is served: transformers' loss, or the field is refused by its name.

With names of families (model_type) as arguments it tries these alone."""

import sys
import unittest

from beside_transformers import TrainerTest
from config_changes import foreign_changes, left_out, own_changes
from decoder_classes import Losses, bare_config, classes, is_served, tiny_config
from transformers.utils import logging

SETTINGS = 78  # exit code
FAMILIES = sys.argv[1:]


class ConfigChanges(TrainerTest):
    def setUp(self):
        logging.set_verbosity_error()
        self.losses = Losses()
        self.addCleanup(self.losses.close)

    def check(self, content, field):
        """Whether transformers can make the model."""
        ours, theirs = self.losses.compare(content)
        if isinstance(theirs, str):
            self.assertNotIn("crash", ours)
        elif "loss" in ours:
            self.assertLess(abs(ours["loss"] - theirs), 2e-6 * abs(theirs) + 2e-6)
        else:
            self.assertEqual(ours.get("code"), SETTINGS, ours)
            self.assertIn(field, ours["message"])
        return isinstance(theirs, float)

    def test_changes(self):
        served = [model_type for model_type in classes() if is_served(self.losses.of_config(bare_config(model_type)))]
        for model_type in FAMILIES or served:
            content, tried = tiny_config(model_type), 0
            for field, value in own_changes(content) + foreign_changes(content, served):
                with self.subTest(model_type, field=field, value=value):
                    tried += self.check({**content, field: value}, field)
            for field in left_out(content):
                with self.subTest(model_type, without=field):
                    tried += self.check({name: value for name, value in content.items() if name != field}, field)
            self.assertGreater(tried, 50)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
