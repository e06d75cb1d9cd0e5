"""Changes of single fields of config.json, in every family that is served: transformers' loss, or the field is refused by its name.

With names of families (model_type) as arguments it tries these alone."""

import sys
import unittest

from beside_transformers import TrainerTest
from config_changes import all_changes
from decoder_classes import Losses, bare_config, classes, is_served, tiny_config
from transformers.utils import logging

SETTINGS = 78  # exit code
FAMILIES = sys.argv[1:]


class ConfigChanges(TrainerTest):
    def setUp(self):
        logging.set_verbosity_error()
        self.losses = Losses()
        self.addCleanup(self.losses.close)

    def check(self, content, fields):
        """Whether transformers can make the model."""
        ours, theirs = self.losses.compare(content)
        if isinstance(theirs, str):
            self.assertNotIn("crash", ours)
        elif "loss" in ours:
            self.assertLess(abs(ours["loss"] - theirs), 2e-6 * abs(theirs) + 2e-6)
        else:
            self.assertEqual(ours.get("code"), SETTINGS, ours)
            self.assertTrue(any(field in ours["message"] for field in fields), ours)
        return isinstance(theirs, float)

    def test_changes(self):
        served = [model_type for model_type in classes() if is_served(self.losses.of_config(bare_config(model_type)))]
        for model_type in FAMILIES or served:
            content, tried = tiny_config(model_type), 0
            for fields, changed in all_changes(content, served):
                values = {field: changed.get(field, "left out") for field in fields}
                with self.subTest(model_type, **values):
                    tried += self.check(changed, fields)
            self.assertGreater(tried, 50)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
