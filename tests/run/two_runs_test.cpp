// A program of one's own on the library: runs one behind the other in one process, without the
// command line. Nothing of a run is left when the next one begins.
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/ops/vector_math.hpp"
#include "ringshard/run/train.hpp"
#include "shared_folder.hpp"

using namespace ringshard;
namespace fs = std::filesystem;

namespace {

// Returns the bytes of the model that a run writes.
std::string train(const fs::path& output, const std::string& learning_rate) {
    const comm::Group& world = test::world();
    const Environment environment;
    const config::OptionTable table;
    const config::Resolution resolution =
        config::resolve(table,
                        {"--model_name_or_path", DATA "/models/qwen2-tiny", "--dataset_name",
                         DATA "/rows/pretokenized.jsonl", "--output_dir", output.string(),
                         "--max_steps", "3", "--learning_rate", learning_rate, "--bf16", "false"},
                        environment);
    BOOST_REQUIRE(resolution.problems.empty());
    const auto failure = run::train({"train", resolution.settings.on_ranks(world.size(), table),
                                     resolution.notes, environment, world});
    BOOST_REQUIRE_MESSAGE(!failure.has_value(), (failure ? failure->message() : std::string()));
    world.barrier();
    return read_file(output / "model.safetensors").value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(runs_in_one_process_know_nothing_of_one_another) {
    ops::resolve_vector_math();
    const c10::InferenceMode no_autograd;
    const test::SharedFolder folder("two_runs");
    const std::string first = train(folder.path / "first", "1e-3");
    const std::string other = train(folder.path / "other", "1e-2");
    const std::string again = train(folder.path / "again", "1e-3");
    BOOST_TEST((first == again));
    BOOST_TEST((first != other));
}
