// What every profile holds of trained and of frozen units, and the way of weights and gradients.
#include "ringshard/shard/zero.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <limits>
#include <set>

#include "mpi_test.hpp"
#include "ringshard/offload/host_offload_store.hpp"

using namespace ringshard;
using shard::Access;
using shard::Zero;

namespace {

// Trained, frozen, trained: by the sizes, no two are alike.
std::vector<shard::FlatUnit> make_units(int64_t parts) {
    std::vector<shard::FlatUnit> units;
    for (const int64_t rows : {7, 5, 3}) {
        shard::UnitLayout layout(std::to_string(rows));
        layout.add(
            {.tensors = {{format_text("matrix{}", rows), {rows, 11}}}, .is_overwritten = true});
        layout.add({{{format_text("vector{}", rows), {rows}}}});
        if (rows == 5) layout.freeze({"matrix5", "vector5"});
        units.push_back(layout.finish(parts, units.size()).front());
    }
    return units;
}

// Exact in bf16.
at::Tensor numbers_of(const shard::FlatUnit& unit, int64_t seed) {
    return (at::arange(unit.size()) * 7 + seed).remainder(64).to(at::kFloat);
}

struct Profile {
    const char* name;
    mesh::Cuts cuts;
};
const Profile profiles[] = {{"multi_gpu", {false, false, false, true}},
                            {"zero1", {true, false, false, true}},
                            {"zero2", {true, true, false, true}},
                            {"fsdp without resharding", {true, true, true, true}},
                            {"zero3", {true, true, true, false}}};

void load(Zero& zero) {
    for (const auto& [chunks, shards] : zero.all_weights())
        for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
            const auto& [unit, range] = chunks[chunk];
            const at::Tensor weights = shards.load(chunk, Access::overwrite);
            weights.copy_(numbers_of(zero.units()[unit], 1).narrow(0, range.begin, range.size()));
            shards.store(chunk, weights);
        }
    zero.refresh_compute_weights();
}

template <class Check>
void in_every_profile(const Check& check) {
    const c10::InferenceMode no_autograd;
    const int64_t ranks = test::world().size();
    // One copy of the model; two of them (hybrid sharding).
    for (int64_t copies = 1; copies <= 2 && ranks % copies == 0; ++copies) {
        const mesh::Mesh mesh(test::world(), {.replicate = copies, .shard = ranks / copies},
                              at::kCPU);
        for (const Profile& profile : profiles)
            for (const auto type : {at::kFloat, at::kBFloat16}) {
                BOOST_TEST_INFO_SCOPE(profile.name << " in " << c10::toString(type) << ", "
                                                   << copies << " copies");
                Zero zero(make_units(mesh.shape().zero()), profile.cuts, {type, at::kFloat}, mesh);
                load(zero);
                check(zero, mesh, profile.cuts, type);
            }
    }
}

std::vector<size_t> order_of(const Zero& zero) {
    std::vector<size_t> order;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) order.push_back(unit);
    return order;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_unit_is_gathered_whole) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType type) {
        zero.begin_pass(order_of(zero));
        for (const size_t unit : order_of(zero)) {
            const at::Tensor weights = zero.weights(unit);
            BOOST_TEST(weights.scalar_type() == type);
            BOOST_TEST(weights.to(at::kFloat).equal(numbers_of(zero.units()[unit], 1)));
            zero.release(unit, Zero::NextUse::none);
        }
    });
}

namespace {

enum class Adder { whole, products };

// The places that this adder reaches: all, or those of parameters.
at::Tensor reached(const shard::FlatUnit& unit, Adder adder) {
    if (adder == Adder::whole) return at::ones({unit.size()});
    const at::Tensor places = at::zeros({unit.size()});
    const shard::UnitTensors tensors(unit, places);
    for (const size_t group : {0, 1}) tensors[{group}].fill_(1);
    return places;
}

void add(Zero& zero, size_t unit, const at::Tensor& numbers, Adder adder) {
    if (adder == Adder::whole) {
        zero.gradients(unit).add_(numbers);
        return;
    }
    const shard::UnitTensors gradients({zero.unbegun_gradients(unit)});
    const shard::UnitTensors added(zero.units()[unit], numbers);
    const auto [matrix, begins] = gradients.sum({0});
    if (begins) matrix.fill_(std::numeric_limits<float>::quiet_NaN());  // nobody reads it
    begins ? matrix.copy_(added[{0}]) : matrix.add_(added[{0}]);
    gradients[{1}].add_(added[{1}]);
    BOOST_TEST(!gradients.sum({0}).begins);
}

// Two micro-batches, other numbers on every rank.
void check_sums_of_gradients(Zero& zero, Adder adder = Adder::whole) {
    constexpr int micro_batches = 2;
    zero.clear_gradients();
    for (int micro = 0; micro < micro_batches; ++micro) {
        if (micro + 1 == micro_batches) zero.begin_last_micro_batch();
        for (size_t unit = zero.num_units(); unit-- > 0;) {  // as a backward pass goes
            if (!zero.is_trained(unit)) continue;
            add(zero, unit, numbers_of(zero.units()[unit], test::world().rank()), adder);
            zero.reduce(unit);
        }
    }
    zero.finish_gradients();
    double squares = 0;
    const shard::Shelf& trained = zero.shelves().front();
    for (size_t chunk = 0; chunk < trained.chunks.size(); ++chunk) {
        const auto& [unit, range] = trained.chunks[chunk];
        at::Tensor sum = at::zeros({zero.units()[unit].size()});
        for (int64_t rank = 0; rank < test::world().size(); ++rank)
            sum += micro_batches * numbers_of(zero.units()[unit], rank);
        sum *= reached(zero.units()[unit], adder);
        BOOST_TEST(trained.gradients->load(chunk, Access::read)
                       .equal(sum.narrow(0, range.begin, range.size())));
        const shard::Range mine = zero.exclusive_range(unit);
        squares += sum.narrow(0, mine.begin, mine.size()).square().sum().item<double>();
    }
    BOOST_TEST(zero.gradient_squares().front() == squares, boost::test_tools::tolerance(1e-6));
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_of_trained_units_are_summed_over_the_ranks) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType) {
        check_sums_of_gradients(zero);
        check_sums_of_gradients(zero);  // of a second step
    });
}

BOOST_AUTO_TEST_CASE(products_begin_gradients) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType) {
        check_sums_of_gradients(zero, Adder::products);
        check_sums_of_gradients(zero, Adder::products);
        check_sums_of_gradients(zero);
    });
}

// Experts without tokens, and parts of a model that no gradient reaches.
BOOST_AUTO_TEST_CASE(gradients_that_nobody_begins_are_zeros) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType) {
        check_sums_of_gradients(zero);
        zero.clear_gradients();
        zero.begin_last_micro_batch();
        for (size_t unit = zero.num_units(); unit-- > 0;) {
            if (!zero.is_trained(unit)) continue;
            zero.unbegun_gradients(unit);
            zero.reduce(unit);
        }
        zero.finish_gradients();
        BOOST_TEST(zero.gradient_squares().front() == 0);
    });
}

BOOST_AUTO_TEST_CASE(offloaded_gradients_are_summed_over_the_copies_of_the_model) {
    const c10::InferenceMode no_autograd;
    const int64_t ranks = test::world().size();
    if (ranks % 2 != 0) return;
    const mesh::Mesh mesh(test::world(), {.replicate = 2, .shard = ranks / 2}, at::kCPU);
    for (const mesh::Cuts& cuts :
         {mesh::Cuts{true, true, false, true}, {true, true, true, false}}) {
        offload::HostOffloadStore store(at::kCPU);
        Zero zero(make_units(mesh.shape().zero()), cuts, {at::kFloat, at::kFloat}, mesh,
                  {nullptr, &store});
        BOOST_REQUIRE(!store.allocate());
        check_sums_of_gradients(zero);
        check_sums_of_gradients(zero);
    }
}

BOOST_AUTO_TEST_CASE(a_frozen_unit_has_weights_in_the_compute_type_alone) {
    in_every_profile(
        [](Zero& zero, const mesh::Mesh& mesh, const mesh::Cuts& cuts, at::ScalarType type) {
            constexpr size_t frozen = 1;
            BOOST_TEST(zero.shelves().front().chunks.shard(frozen).size() == 0);
            for (const shard::Chunk& chunk : zero.shelves().front().chunks)
                BOOST_TEST(chunk.unit != frozen);
            BOOST_TEST(zero.weights_at_rest_of(frozen).shards.type() == type);
            BOOST_CHECK_THROW(zero.gradients(frozen), std::exception);

            // The formula: weights in the compute type, whole or cut, fp32 ones of what is updated
            // where they are others, and gradients in fp32, of trained units.
            const int64_t ranks = mesh.shape().zero();
            const auto bytes = static_cast<int64_t>(c10::elementSize(type));
            int64_t weights = 0;
            int64_t gradients = 0;
            for (const shard::FlatUnit& unit : zero.units()) {
                const int64_t whole = unit.size();
                const int64_t part = cuts.optimizer ? whole / ranks : whole;
                weights += bytes * (cuts.weights ? part : whole);
                if (!unit.is_trained()) continue;
                if (type != at::kFloat) weights += 4 * part;
                if (cuts.optimizer) gradients += 4 * part;
                if (!cuts.gradients) gradients += 4 * whole;
            }
            const Zero::Memory memory = zero.memory();
            BOOST_TEST(memory.weights == weights);
            BOOST_TEST(memory.gradients == gradients);
        });
}

BOOST_AUTO_TEST_CASE(updated_weights_are_published_and_frozen_ones_stay) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType) {
        for (size_t chunk = 0; chunk < zero.shelves().front().chunks.size(); ++chunk) {
            const at::Tensor weights = zero.shelves().front().exact().load(chunk, Access::read);
            weights.add_(1);
            zero.shelves().front().exact().store(chunk, weights);
        }
        zero.refresh_compute_weights();
        zero.begin_pass(order_of(zero));
        for (const size_t unit : order_of(zero)) {
            const at::Tensor expected = numbers_of(zero.units()[unit], 1);
            BOOST_TEST(zero.weights(unit)
                           .to(at::kFloat)
                           .equal(zero.is_trained(unit) ? expected + 1 : expected));
            zero.release(unit, Zero::NextUse::none);
        }
    });
}

// Beside a unit of the compute type, in every profile.
BOOST_AUTO_TEST_CASE(a_trained_unit_in_fp32_is_not_rounded) {
    const c10::InferenceMode no_autograd;
    shard::UnitLayout layout("module");
    layout.add({{{"matrix", {7, 11}}}});
    layout.add({.tensors = {{"magnitudes", {77}}}, .placement = {.codec = shard::Codec::fp32}});
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    for (const Profile& profile : profiles) {
        BOOST_TEST_INFO_SCOPE(profile.name);
        Zero zero(layout.finish(mesh.shape().zero()), profile.cuts, {at::kBFloat16, at::kFloat},
                  mesh);
        BOOST_REQUIRE(zero.num_units() == 2 &&
                      zero.units()[1].placement().codec == shard::Codec::fp32);
        load(zero);
        for (int step = 1; step <= 2; ++step) {
            for (const auto& [chunks, shards] : zero.trained_weights())
                for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
                    const at::Tensor weights = shards.load(chunk, Access::read);
                    weights.add_(0x1p-12);
                    shards.store(chunk, weights);
                }
            zero.refresh_compute_weights();
            zero.begin_pass({0, 1});
            for (const size_t unit : order_of(zero)) {
                const at::Tensor expected = numbers_of(zero.units()[unit], 1) + step * 0x1p-12;
                const at::Tensor weights = zero.weights(unit);
                BOOST_TEST((weights.scalar_type() == at::kFloat) == (unit == 1));
                BOOST_TEST(weights.equal(unit == 1 ? expected : expected.to(at::kBFloat16)));
                zero.release(unit, Zero::NextUse::none);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(ranges_that_are_a_ranks_own_cover_each_unit_once) {
    in_every_profile([](Zero& zero, const mesh::Mesh&, const mesh::Cuts&, at::ScalarType) {
        for (const size_t unit : order_of(zero)) {
            const shard::Range mine = zero.exclusive_range(unit);
            BOOST_TEST(test::world().sum(mine.size()) == zero.units()[unit].size());
        }
    });
}

namespace {

// A matrix and a norm, and eight experts, trained or frozen.
std::vector<shard::FlatUnit> units_with_experts(int64_t parts, int64_t ranks_of_experts) {
    std::vector<shard::FlatUnit> units;
    for (const bool are_frozen : {false, true}) {
        shard::UnitLayout layout(are_frozen ? "frozen" : "trained");
        layout.add({{{"matrix", {7, 11}}}});
        layout.add({{{"vector", {7}}}});
        shard::ParameterGroup experts;
        std::set<std::string> names;
        for (int expert = 0; expert < 8; ++expert) {
            experts.tensors.push_back({format_text("expert{}", expert), {5, 3}});
            names.insert(format_text("expert{}", expert));
        }
        experts.is_divided = true;
        layout.add(std::move(experts));
        if (are_frozen) layout.freeze(names);
        for (shard::FlatUnit& unit : layout.finish(parts, units.size(), ranks_of_experts))
            units.push_back(std::move(unit));
    }
    return units;
}

}  // namespace

// A rank computes with the section of its experts, whose gradients are those of all ranks with the
// same experts; and each element is updated, counted and saved by one rank.
BOOST_AUTO_TEST_CASE(a_rank_has_the_section_of_its_experts) {
    const c10::InferenceMode no_autograd;
    const int64_t ranks = test::world().size();
    const int64_t rank = test::world().rank();
    std::vector<mesh::MeshShape> shapes{{1, 1, ranks, 1, ranks}};
    if (ranks == 4) shapes = {{1, 4, 1, 1, 2}, {1, 4, 1, 1, 4}, {2, 1, 2, 1, 2}, {2, 2, 1, 1, 2}};
    for (const mesh::MeshShape& shape : shapes)
        for (const Profile& profile : profiles) {
            BOOST_TEST_INFO_SCOPE(profile.name << " on " << to_text(shape) << ", experts "
                                               << shape.sections);
            const mesh::Mesh mesh(test::world(), shape, at::kCPU);
            Zero zero(units_with_experts(shape.zero(), shape.sections), profile.cuts,
                      {at::kFloat, at::kFloat}, mesh);
            load(zero);
            const auto mine_of = [&](const shard::FlatUnit& unit, const at::Tensor& whole) {
                const int64_t section = unit.num_sections() > 1 ? rank % shape.sections : 0;
                return whole.narrow(0, section * unit.section_size(), unit.section_size());
            };
            zero.begin_pass(order_of(zero));
            for (const size_t unit : order_of(zero)) {
                const shard::FlatUnit& layout = zero.units()[unit];
                BOOST_TEST(zero.weights(unit).equal(mine_of(layout, numbers_of(layout, 1))));
                zero.release(unit, Zero::NextUse::none);
            }
            zero.clear_gradients();
            zero.begin_last_micro_batch();
            for (const size_t unit : order_of(zero)) {
                if (!zero.is_trained(unit)) continue;
                const shard::FlatUnit& layout = zero.units()[unit];
                zero.gradients(unit).add_(mine_of(layout, numbers_of(layout, rank)));
                zero.reduce(unit);
            }
            zero.finish_gradients();
            double squares = 0;
            for (size_t unit = 0; unit < zero.num_units(); ++unit) {
                const shard::FlatUnit& layout = zero.units()[unit];
                if (!layout.is_trained()) continue;
                const shard::Shelf& shelf = zero.shelf_of(unit);
                const bool is_shared = layout.num_sections() > 1;
                at::Tensor sum = at::zeros({layout.size()});
                for (int64_t other = 0; other < ranks; ++other)
                    if (!is_shared || other % shape.sections == rank % shape.sections)
                        sum += numbers_of(layout, other);
                for (size_t c = shelf.chunks.first_of(unit); c < shelf.chunks.end_of(unit); ++c) {
                    const shard::Range& range = shelf.chunks[c].range;
                    BOOST_TEST(shelf.gradients->load(c, Access::read)
                                   .equal(sum.narrow(0, range.begin, range.size())));
                }
                const shard::Range mine = zero.exclusive_range(unit);
                squares += sum.narrow(0, mine.begin, mine.size()).square().sum().item<double>();
            }
            BOOST_TEST(zero.gradient_squares().front() == squares,
                       boost::test_tools::tolerance(1e-6));
            for (const size_t unit : order_of(zero)) {
                const shard::Range mine = zero.exclusive_range(unit);
                BOOST_TEST(test::world().sum(mine.size()) == zero.units()[unit].size());
                const shard::Range held = zero.weights_at_rest_of(unit).chunks.shard(unit);
                BOOST_TEST(intersect(held, mine).size() == mine.size());
            }
        }
}
