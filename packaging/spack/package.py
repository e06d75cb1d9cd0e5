# A recipe for Spack 1.0 and newer: put this file into packages/ringshard/ of a repository of yours, or build from a clone with
#   spack dev-build -d PATH_OF_CLONE ringshard@main
# Its packages, variants and build systems were looked up in Spack's repository of July 2026. Tried by hand in November 2026 with Spack 0.23 (the
# first two imports are `from spack.build_systems...` there): dev-build with the packages of Debian 12 and the wheels of scripts/setup as externals,
# and a run on two ranks of what it installed. Spack 1.x itself has not read it, nor do the tests run it.
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Ringshard(CMakePackage, CudaPackage):
    """Supervised fine-tuning of language models on SLURM clusters: MPI, LibTorch and HDF5, sequences of any length."""

    license("Apache-2.0")
    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")

    depends_on("mpi")
    depends_on("hdf5@1.10.8: +mpi ~cxx")
    depends_on("boost@1.74: +program_options +test")
    depends_on("yaml-cpp@0.7:")
    depends_on("nlohmann-json@3.11:")
    depends_on("pcre2")
    depends_on("xxhash")
    depends_on("zstd")
    depends_on("zlib-api")
    depends_on("sqlite@3.24:")
    depends_on("hwloc")
    depends_on("liburing")
    depends_on("onednn@2:3 cpu_runtime=omp", when="target=x86_64:")
    depends_on("arrow +parquet +zstd +snappy +lz4 +brotli")
    depends_on("py-torch@2.11: ~distributed")
    depends_on("py-torch +cuda +nccl", when="+cuda")
    depends_on("nccl", when="+cuda")

    generator("ninja")

    def cmake_args(self):
        torch = os.path.join(self.spec["py-torch"].prefix, self.spec["python"].package.platlib, "torch")
        arguments = [
            self.define("RINGSHARD_TORCH_DIR", torch),
            self.define("RINGSHARD_ARROW_DIR", self.spec["arrow"].prefix),
            self.define("BUILD_TESTING", self.run_tests),
            self.define_from_variant("RINGSHARD_CUDA", "cuda"),
        ]
        if self.spec.satisfies("+cuda"):
            generations = ";".join(f"{arch}-real" for arch in self.spec.variants["cuda_arch"].value)
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", generations))
        return arguments

    def setup_run_environment(self, env):
        env.set("RINGSHARD_ROOT", os.path.join(self.prefix, "share", "ringshard"))
