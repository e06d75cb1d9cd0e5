// mpirun -n RING*ULYSSES bench_attention TOKENS QUERY_HEADS KEY_HEADS HEAD_DIM RING ULYSSES
// fp32|bf16 ring|allgather REPETITIONS: causal attention over one document that the ranks share,
// forward and backward. Prints one line of JSON for each repetition after the first: seconds of the
// slowest rank.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <iostream>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/device/environment.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/mesh/mesh.hpp"

using namespace ringshard;

namespace {

double slowest(const comm::Group& world, double seconds) {
    return static_cast<double>(world.maximum(static_cast<int64_t>(seconds * 1e6))) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
    RINGSHARD_CHECK(argc == 10,
                    "bench_attention TOKENS QUERY_HEADS KEY_HEADS HEAD_DIM RING ULYSSES fp32|bf16 "
                    "ring|allgather REPETITIONS");
    const Environment environment = Environment::of_this_process();
    device::prepare_environment(environment);
    at::set_num_threads(1);
    const comm::MpiSession mpi;
    const comm::Group& world = mpi.world();
    const c10::InferenceMode no_autograd;
    device::keep_host_memory();
    const auto number = [&](int i) { return read_whole_number(argv[i]).value(); };
    const int64_t tokens = number(1);
    const attention::HeadCounts heads{number(2), number(3), number(4)};
    const mesh::MeshShape shape{.ring = number(5), .ulysses = number(6)};
    const auto type = argv[7] == std::string("bf16") ? at::kBFloat16 : at::kFloat;
    const auto keys = argv[8] == std::string("allgather")
                          ? attention::ContextParallelOptions::Keys::all_gather
                          : attention::ContextParallelOptions::Keys::rotate;
    const mesh::Mesh mesh(world, shape, at::kCPU);
    const attention::SequencePartition partition(tokens, {0}, shape.ring, shape.ulysses);
    const attention::Plan plan = make_plan(partition, mesh.coordinates().ring);
    const attention::SequenceAttention attend(heads, mesh.ring(), mesh.ulysses(), {.keys = keys});
    const int64_t here = partition.tokens_per_rank();
    const int64_t width = (heads.query_heads + 2 * heads.key_heads) * heads.head_dim;
    const at::Tensor qkv = at::randn({here, width}).to(type);
    const at::Tensor d_out = at::randn({here, heads.query_heads * heads.head_dim}).to(type);
    for (int64_t repetition = 0; repetition <= number(9); ++repetition) {
        world.barrier();
        const Timer timer;
        const auto result = attend.forward(qkv, plan);
        const double forward = slowest(world, timer.seconds());
        attend.backward(d_out, qkv, result, plan);
        const double both = slowest(world, timer.seconds());
        if (world.is_root() && repetition > 0)
            std::cout << "{\"forward_s\": " << forward << ", \"seconds\": " << both << "}"
                      << std::endl;
    }
    return 0;
}
