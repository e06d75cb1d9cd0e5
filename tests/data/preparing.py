"""A folder in which a test prepares rows, and looks at them."""

import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from trainer import TrainerTest, run  # noqa: E402

DATA = HERE.parent / "parity" / "data"
MODEL = DATA / "models" / "qwen2-tiny"


class PrepareTest(TrainerTest):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def write(self, name, rows):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def prepare(self, *flags, ranks=None):
        return run("prepare", "--model_name_or_path", str(MODEL), "--data_cache_dir", str(self.folder / "cache"),
                   *flags, ranks=ranks)

    def rows(self, prepared, line=0):
        self.expect(prepared, 0)
        plans = [out.split(": ", 1)[1] for out in prepared.stdout.splitlines() if " data: " in out]
        shown = run("inspect", plans[line], "--rows", "100000", "--json")
        self.expect(shown, 0)
        return [json.loads(row) for row in shown.stdout.splitlines()]

    def first_tokens(self, prepared, line=0):
        return [row["input_ids"][0] for row in self.rows(prepared, line)]
