"""The archive for scripts/gpu-check in an empty root: no package of this machine, no network, only a Python with PyTorch.

Packs a build for the CPU, made as the preset gpu-check is, and runs it on the host (RINGSHARD_TEST_DEVICE=cpu) as a lent machine
would run that with CUDA: unpacked by Python's tarfile, with one network interface, the loopback. With GPU_ARCHIVE, the
file that scripts/gpu-archive has made, it tries that one, as it travels.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench" / "gpu"))
import shapes  # noqa: E402

# What each machine has of its own beside libc: a shell with two commands, and what Open MPI takes for a program that reaches other hosts.
OF_THE_MACHINE = ["/bin/sh", "/bin/false", "/usr/bin/readlink", "/usr/bin/dirname"]
PROGRAM = """
set -e
export PATH=/usr/bin:/bin OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 HOME=/tmp
export RINGSHARD_TORCH_DIR=/torch/site/torch
cd /archive/ringshard
bin/trainer doctor
bin/mpirun --oversubscribe --bind-to none -n 2 bin/trainer doctor
bin/trainer init --config_json /srv/config.json --output_dir /srv/model
bin/trainer --model_name_or_path /srv/model --dataset_name /srv/rows.jsonl --max_length 64 --max_steps 2 --save_steps 2 \
    --output_dir /srv/run --eval_strategy no
if bin/trainer --model_name_or_path /srv/model --dataset_name /srv/rows.parquet --max_length 64 --max_steps 2 --output_dir /srv/no; then
    exit 1
fi
# Tests find LibTorch and CUDA as scripts/gpu-check tells them.
export RINGSHARD_TEST_DEVICE=cpu RINGSHARD_GOLDEN_FOLDER=/data LD_LIBRARY_PATH=/torch/site/torch/lib
for folder in /torch/site/nvidia/*/lib; do LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder; done
tests/bench_gpu_step /srv/config.json 2 64 all fp32 0
tests/bench_gpu_kernels small > /srv/kernels
bin/mpirun --oversubscribe --bind-to none -n 1 tests/forward_parity --run_test=rows_and_packed_documents_give_transformers_numbers
bin/mpirun --oversubscribe --bind-to none -n 2 tests/recorded_blocks_test
echo the whole archive ran
"""


class GpuArchive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        of_builds = pathlib.Path(os.environ["TRAINER"]).resolve().parents[1].parent
        given = os.environ.get("GPU_ARCHIVE")
        build = of_builds / ("gpu-check" if given else "gpu-check-cpu")
        cls.archive = pathlib.Path(given) if given else cls.packed(build)
        cls.torch = pathlib.Path(next(line.split("=")[1] for line in (build / "CMakeCache.txt").read_text().splitlines()
                                      if line.startswith("RINGSHARD_TORCH_DIR:"))).resolve()

    @classmethod
    def packed(cls, build):
        """The archive of a build for the CPU."""
        cmake = os.environ["CMAKE"]
        subprocess.run([cmake, "--preset", "release", "-B", build, "-DRINGSHARD_ARROW=OFF", "-DRINGSHARD_ONEDNN=OFF"], cwd=ROOT, check=True)
        subprocess.run([cmake, "--build", build, "-j", "2", "--target", "trainer", "gpu_archive"], cwd=ROOT, check=True)
        archive = cls.work / "ringshard-gpu.tar.xz"
        said = subprocess.run([sys.executable, ROOT / "scripts/bundle", build, "--tests", "-o", archive], check=True,
                              capture_output=True, text=True).stdout
        if "MB is the limit" not in said:
            raise AssertionError(f"scripts/bundle says no size: {said}")
        return archive

    def test_it_has_no_arrow_and_no_library_of_the_network(self):
        with tarfile.open(self.archive) as archive:
            names = {pathlib.Path(name).name.split(".so")[0] for name in archive.getnames() if "/lib/" in name}
        for name in ("libarrow", "libparquet", "libssl", "libgnutls", "libkrb5", "libldap-2.5", "libunistring", "libdnnl"):
            self.assertNotIn(name, names)
        self.assertIn("libhdf5_openmpi", names)
        self.assertLess(self.archive.stat().st_size, 25_000_000)

    def test_it_runs_in_an_empty_root_without_network(self):
        root = self.work / "root"
        for folder in ("archive", "srv", "torch/site", "data", "proc", "dev", "tmp", "sys", "etc"):
            (root / folder).mkdir(parents=True)
        with tarfile.open(self.archive) as archive:
            archive.extractall(root / "archive")
        (root / "srv" / "config.json").write_text(json.dumps(shapes.qwen2(64, 128, 2, 4, 2, 512, True)))
        rows = [{"input_ids": [(7 * i + j) % 512 for j in range(60)]} for i in range(16)]
        (root / "srv" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (root / "srv" / "rows.parquet").write_bytes(b"PAR1 and so on")
        self.copy_machine(root)
        mounts = "".join(f"mount --bind {source} {root / target} && " for source, target in
                         ((self.torch.parent, "torch/site"), (ROOT / "tests/parity/data", "data"), ("/dev", "dev"), ("/sys", "sys")))
        # A network of its own has the loopback interface alone, which is down at first.
        command = f"ip link set lo up && {mounts} mount -t proc none {root}/proc && exec chroot {root} /bin/sh -c \"$PROGRAM\""
        result = subprocess.run(["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "sh", "-c", command],
                                env=dict(os.environ, PROGRAM=PROGRAM), capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        self.assertIn("the whole archive ran", result.stdout)
        self.assertIn('"tokens_per_second"', result.stdout)
        self.assertIn("rows.parquet: Parquet needs Arrow, and this program was built with -DRINGSHARD_ARROW=OFF",
                      result.stdout + result.stderr)
        kernels = (root / "srv" / "kernels").read_text()
        self.assertIn('"table": "attention"', kernels)

    def copy_machine(self, root):
        """A shell, and libc's own libraries: those that a bundle leaves to the machine."""
        files = set(map(pathlib.Path, OF_THE_MACHINE))
        libc = pathlib.Path("/lib/x86_64-linux-gnu")
        for name in ("libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libutil.so.1", "libresolv.so.2",
                     "libnss_files.so.2"):
            if (libc / name).exists():
                files.add(libc / name)
        files.add(pathlib.Path("/lib64/ld-linux-x86-64.so.2"))
        for file in files:
            target = root / str(file).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.resolve(), target)
        (root / "etc" / "passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
        (root / "etc" / "group").write_text("root:x:0:\n")


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("patchelf") is None:
        print("skipped: needs root, unshare and patchelf")
        sys.exit(77)
    unittest.main()
