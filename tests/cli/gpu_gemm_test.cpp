// How ranks choose kernels for the products of GPUs by time, with times of the tests' own.
#include "gpu_gemm.hpp"

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"
#include "ringshard/config/config.hpp"

using namespace ringshard;
using ops::GemmPass;
using ops::LayerProduct;
using run::GemmTable;

namespace {

const LayerProduct forward{GemmPass::forward, 4096, 512, 768};
const LayerProduct gradient{GemmPass::weight_gradient, 4096, 512, 768};

// A GPU in name only, whose kernels take so long.
class NamedKernels final : public ops::ProductKernels {
public:
    explicit NamedKernels(std::map<LayerProduct, std::vector<double>> seconds)
        : seconds_(std::move(seconds)) {}

    std::string gpu() const override { return "Test H100"; }
    std::string library() const override { return "cublasLt 7"; }
    int64_t count(const LayerProduct& product) override { return std::ssize(seconds_.at(product)); }
    double seconds(const LayerProduct& product, int64_t kernel) override {
        ++num_timings;
        // The first call meets a cold GPU.
        return seconds_.at(product).at(static_cast<size_t>(kernel)) *
               (was_called_.insert({product, kernel}).second ? 10 : 1);
    }
    void take(const LayerProduct& product, int64_t kernel) override { taken[product] = kernel; }

    int num_timings = 0;
    std::map<LayerProduct, int64_t> taken;

private:
    std::map<LayerProduct, std::vector<double>> seconds_;
    std::set<std::pair<LayerProduct, int64_t>> was_called_;
};

GemmTable table_with(const std::string& kernel_of_forward) {
    return {"Test H100", "cublasLt 7", 0, {{ops::name_of(forward), kernel_of_forward}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_kernel_unless_another_is_clearly_faster) {
    using Times = std::vector<double>;
    BOOST_TEST(ops::fastest_kernel(Times{}) == 0);
    BOOST_TEST(ops::fastest_kernel(Times{1.0}) == 0);
    BOOST_TEST(ops::fastest_kernel(Times{1.0, 0.98, 0.975}) == 0);
    BOOST_TEST(ops::fastest_kernel(Times{1.0, 0.96, 0.9, 0.95}) == 2);
    BOOST_TEST(ops::fastest_kernel(Times{0.5, 0.96, 0.9}) == 0);
}

BOOST_AUTO_TEST_CASE(kernels_take_turns_and_the_shortest_time_counts) {
    NamedKernels kernels({{forward, {3e-3, 2e-3}}});
    BOOST_TEST(ops::time_kernels(kernels, forward, 2) == (std::vector<double>{3e-3, 2e-3}));
}

BOOST_AUTO_TEST_CASE(the_slowest_rank_decides_for_all) {
    const comm::Group& world = test::world();
    const bool is_other = world.rank() > 0;
    // On the second rank kernel 1 of the forward product is slow, and it has one kernel less of the
    // gradient.
    NamedKernels kernels({{forward, {10e-3, is_other ? 20e-3 : 5e-3, 7e-3}},
                          {gradient, is_other ? std::vector<double>{10e-3, 8e-3}
                                              : std::vector<double>{10e-3, 8e-3, 1e-3}}});
    const GemmTable table = run::choose_kernels(world, kernels, {forward, gradient}, {});
    const bool is_alone = world.size() == 1;
    BOOST_TEST(kernels.taken.at(forward) == (is_alone ? 1 : 2));
    BOOST_TEST(kernels.taken.at(gradient) == (is_alone ? 2 : 1));
    BOOST_TEST(table.processor == "Test H100");
    BOOST_TEST(table.products.at(ops::name_of(forward)) == (is_alone ? "1" : "2"));
    BOOST_TEST(table.products.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_takes_what_it_began_with) {
    const comm::Group& world = test::world();
    const auto choose = [&](const GemmTable& of_root) {
        NamedKernels kernels({{forward, {10e-3, 1e-3, 10e-3}}});
        run::choose_kernels(world, kernels, {forward}, world.is_root() ? of_root : GemmTable{});
        return std::pair(kernels.taken.at(forward), kernels.num_timings > 0);
    };
    BOOST_TEST(choose(table_with("2")) == std::pair(int64_t{2}, false));
    // No such kernel, no number, another GPU, another library: a new choice.
    for (const char* wrong : {"3", "-1", "two", "1 ", ""})
        BOOST_TEST(choose(table_with(wrong)) == std::pair(int64_t{1}, true), wrong);
    GemmTable other = table_with("2");
    other.processor = "Test A100";
    BOOST_TEST(choose(other) == std::pair(int64_t{1}, true));
    other = table_with("2");
    other.libraries = "cublasLt 8";
    BOOST_TEST(choose(other) == std::pair(int64_t{1}, true));
}

BOOST_AUTO_TEST_CASE(products_of_a_step) {
    model::ModelSpec spec;
    spec.vocabulary = 1000;
    spec.width = 64;
    spec.max_positions = 32768;
    spec.blocks.resize(2);
    for (model::BlockSpec& block : spec.blocks) {
        block.width = 64;
        block.attention().heads = {4, 2, 16};
        block.mlp().intermediate = 96;
    }
    config::Config config;
    config.training.per_device_train_batch_size = 3;
    config.data.max_length = 8192;
    const auto names_for = [&](const mesh::MeshShape& shape) {
        std::set<std::string> names;
        for (const LayerProduct& product : run::products_of_step(config, spec, shape, 0))
            names.insert(ops::name_of(product));
        return names;
    };
    // The rows of a rank, chunks of the MLP, and those of the head.
    const auto alone = names_for({});
    BOOST_TEST(alone.contains("forward 24576 tokens 192x64"));
    BOOST_TEST(alone.contains("weight_gradient 8192 tokens 192x64"));
    BOOST_TEST(alone.contains("input_gradient 4096 tokens 1000x64"));
    BOOST_TEST(!alone.contains("forward 24576 tokens 1000x64"));
    mesh::MeshShape split;
    split.ring = 4;
    BOOST_TEST(names_for(split).contains("forward 6144 tokens 192x64"));
    BOOST_TEST(!names_for(split).contains("forward 8192 tokens 192x64"));
    // An adapter leaves the layers as they are.
    config.adapter.use_peft = true;
    BOOST_TEST(names_for({}).contains("input_gradient 24576 tokens 192x64"));
    BOOST_TEST(!names_for({}).contains("weight_gradient 24576 tokens 192x64"));
    BOOST_TEST(!ops::is_worth_timing({GemmPass::forward, 131072, 28672, 4096}));
}
