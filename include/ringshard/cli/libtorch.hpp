#pragma once

#include <filesystem>

#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// The folder `torch` of the PyTorch wheel whose libraries the engine runs with. The first that
// holds the version this program was built with, of
//   1. RINGSHARD_TORCH_DIR, and no other where it is set;
//   2. the folder that the program was built with; in a bundle (scripts/bundle) `torch` beside
//   `bin`;
//   3. `torch` in the folders of PYTHONPATH;
//   4. `../lib/python3*/site-packages/torch` (or dist-packages) of the folders of PATH: of a
//   virtual
//      environment, of Conda, of the system.
Expected<std::filesystem::path> find_libtorch(const Environment& environment);

}  // namespace ringshard::cli
