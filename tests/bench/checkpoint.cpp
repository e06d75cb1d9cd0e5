// mpirun -n N bench_checkpoint FOLDER MILLIONS ROUNDS: the state of a model of so many millions of
// weights, fp32 with both moments, cut over the ranks and saved into FOLDER. Prints one line of
// JSON for each round: seconds of a memcpy of the shard, of plain writes of the same bytes by all
// ranks to one file and an fsync, and of our save: how long training stalls, and how long until the
// save is durable, hashed and published (older ones are removed after that); with the peak memory
// of the process.
#include <c10/core/InferenceMode.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cstring>
#include <iostream>

#include "made_state.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/config/training_settings.hpp"
#include "ringshard/device/host_memory.hpp"

using namespace ringshard;

namespace {

// Blocks of the usual matrices.
std::vector<shard::FlatUnit> make_units(int64_t millions, int64_t parts) {
    constexpr int64_t blocks = 8;
    // 12 * width * width weights to a block.
    const auto width = static_cast<int64_t>(
        std::sqrt(static_cast<double>(millions) * 1e6 / static_cast<double>(12 * blocks)));
    std::vector<shard::FlatUnit> units;
    for (int64_t i = 0; i < blocks; ++i) {
        const std::string name = format_text("model.layers.{}.", i);
        const auto matrix = [&](const char* what, int64_t rows) {
            return shard::TensorSpec{name + what, {rows, width}};
        };
        units.emplace_back(name,
                           std::vector<shard::ParameterGroup>{
                               {{matrix("q", width), matrix("k", width), matrix("v", width)}},
                               {{matrix("o", width)}},
                               {{matrix("gate", 8 * width / 3), matrix("up", 8 * width / 3)}},
                               {{matrix("down", 8 * width / 3)}},
                               {{{name + "norm", {width}}}}},
                           parts);
    }
    return units;
}

// This rank's numbers, one tensor behind the other.
std::vector<std::span<const std::byte>> own_bytes(test::MadeState& state) {
    std::vector<std::span<const std::byte>> parts;
    std::vector<shard::FlatStore*> stores{&state.zero.shelves().front().exact()};
    for (const optim::State& kept : state.optimizer->updaters().front()->states())
        stores.push_back(kept.numbers.get());
    for (shard::FlatStore* store : stores)
        for (size_t unit = 0; unit < state.zero.num_units(); ++unit) {
            const at::Tensor numbers = store->load_shard(unit);
            parts.emplace_back(static_cast<const std::byte*>(numbers.data_ptr()), numbers.nbytes());
        }
    return parts;
}

double copy_seconds(const std::vector<std::span<const std::byte>>& parts,
                    std::vector<std::byte>& into) {
    const Timer timer;
    size_t at = 0;
    for (const auto& part : parts) {
        std::memcpy(into.data() + at, part.data(), part.size());
        at += part.size();
    }
    return timer.seconds();
}

double plain_seconds(const comm::Group& world, const std::filesystem::path& path,
                     const std::vector<std::byte>& bytes) {
    world.barrier();
    const Timer timer;
    auto file = File::open(path, O_WRONLY | O_CREAT).value();
    const auto size = static_cast<int64_t>(bytes.size());
    if (const auto failure = file.write_at(bytes, world.rank() * size)) throw Error(*failure);
    if (const auto failure = file.flush()) throw Error(*failure);
    world.barrier();
    return timer.seconds();
}

double slowest(const comm::Group& world, double seconds) {
    return static_cast<double>(world.maximum(static_cast<int64_t>(seconds * 1e6))) * 1e-6;
}

int64_t peak_bytes() {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

int main(int argc, char** argv) {
    RINGSHARD_CHECK(argc == 4, "bench_checkpoint FOLDER MILLIONS ROUNDS");
    const comm::MpiSession mpi;
    const comm::Group& world = mpi.world();
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    const std::filesystem::path folder = argv[1];
    config::TrainingSettings settings;
    const mesh::MeshShape shape{.shard = world.size()};
    test::MadeState state(world, shape,
                          make_units(read_whole_number(argv[2]).value(), shape.zero()),
                          {true, true, true, false}, settings);
    state.fill(1);
    const auto parts = own_bytes(state);
    size_t size = 0;
    for (const auto& part : parts) size += part.size();
    const auto run = folder / "run";
    const auto store = checkpoint::Store::open(world, [&]() -> Expected<checkpoint::Claim> {
        std::filesystem::create_directories(run);
        return *checkpoint::claim_attempt(run, checkpoint::newest_attempt(run).value() + 1).value();
    });
    Faults faults;
    const int64_t before = peak_bytes();
    checkpoint::Saver saver(store.value(), {}, world, faults);
    const int64_t rounds = read_whole_number(argv[3]).value();
    int64_t more = 0;
    for (int64_t step = 0; step <= rounds; ++step) {  // the first one warms memory up
        world.barrier();
        const Timer timer;
        saver.start({step + 1, {}, {{}}}, state.zero, *state.optimizer,
                    checkpoint::Contents::everything, {}, {1}, true);
        const double stall = slowest(world, timer.seconds());
        const checkpoint::SaveOutcome outcome = saver.wait();
        if (outcome.failure) throw Error(*outcome.failure);
        const double durable = stall + slowest(world, outcome.seconds);
        if (step == 0) more = world.maximum(peak_bytes() - before);
        std::vector<std::byte> copy(size);  // and so touched
        const double copied = slowest(world, copy_seconds(parts, copy));
        const double plain = slowest(world, plain_seconds(world, folder / "plain", copy));
        world.barrier();
        if (world.is_root()) std::filesystem::remove(folder / "plain");
        if (world.is_root() && step > 0)
            std::cout << "{\"bytes\": " << outcome.bytes << ", \"ranks\": " << world.size()
                      << ", \"memcpy_s\": " << copied << ", \"plain_s\": " << plain
                      << ", \"stall_s\": " << stall << ", \"durable_s\": " << durable
                      << ", \"more_bytes\": " << more << ", \"shard_bytes\": " << size << "}"
                      << std::endl;
    }
    return 0;
}
