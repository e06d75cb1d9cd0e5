"""Every decoder class of transformers: this program gives its first loss, or refuses it by its name."""

import os
import unittest

from beside_transformers import FOLDER, TrainerTest
from decoder_classes import Losses, bare_config, classes, is_served, tiny_config

SETTINGS = 78  # exit code


class DecoderClasses(TrainerTest):
    @classmethod
    def setUpClass(cls):
        cls.losses = Losses()

    @classmethod
    def tearDownClass(cls):
        cls.losses.close()

    def test_each_is_served_or_refused_by_name(self):
        with open(os.path.join(FOLDER, "..", "..", "docs", "models.md")) as file:
            page = file.read()
        for model_type, name in classes().items():
            with self.subTest(model_type):
                answer = self.losses.of_config(bare_config(model_type))
                if is_served(answer):
                    self.assertTrue(f"`{name}`" in page, f"docs/models.md does not name {name}")
                else:
                    self.assertEqual(answer["code"], SETTINGS)
                    self.assertRegex(answer["message"], rf"(architectures = \[{name}\]|model_type = {model_type}): this program trains ")

    def test_no_field_of_a_class_is_unknown(self):
        for model_type in classes():
            answer = self.losses.of_config(tiny_config(model_type)) if is_served(self.losses.of_config(bare_config(model_type))) else {}
            self.assertEqual(answer.get("unknown", []), [], model_type)

    def test_first_losses(self):
        served = [model_type for model_type in classes() if is_served(self.losses.of_config(bare_config(model_type)))]
        self.assertGreater(len(served), 30)
        for model_type in served:
            with self.subTest(model_type):
                ours, theirs = self.losses.compare(tiny_config(model_type))
                self.assertIn("loss", ours)
                self.assertLess(abs(ours["loss"] - theirs), 1e-6 * theirs + 1e-6)


if __name__ == "__main__":
    unittest.main()
