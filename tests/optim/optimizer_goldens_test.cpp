// Optimizers against those of PyTorch and bitsandbytes (optimizers_golden.py), 50 steps, in every
// profile and, on four ranks, with hybrid sharding and sections.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/accumulate.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "matrix_owners.hpp"
#include "mpi_test.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/ops/updates.hpp"
#include "ringshard/optim/optimizer.hpp"

using namespace ringshard;

namespace {

constexpr int64_t steps = 50;
constexpr double rate = 1e-2;

const std::vector<shard::TensorSpec> tensors{
    {"wide", {64, 128}}, {"tall", {96, 48}}, {"square", {64, 64}}, {"vector", {300}}};

nlohmann::json goldens() {
    std::ifstream file(GOLDENS);
    return nlohmann::json::parse(file);
}

// As the generator of the goldens gives them.
at::Tensor values(const shard::TensorSpec& tensor, int64_t step, double scale) {
    int sum = 0;
    for (const char letter : tensor.name) sum += static_cast<unsigned char>(letter);
    const double first = sum % 17;
    const int64_t count = c10::multiply_integers(tensor.shape);
    at::Tensor numbers = at::empty({count}, at::TensorOptions(at::kFloat));
    for (int64_t i = 0; i < count; ++i) {
        const auto x = static_cast<double>(i);
        const auto t = static_cast<double>(step);
        numbers.data_ptr<float>()[i] =
            static_cast<float>(scale * std::sin(0.37 * x + first + 1.7 * t + 0.001 * x * t));
    }
    return numbers;
}

// The settings of a name such as "sgd momentum=0.9".
config::TrainingSettings settings_of(const std::string& name) {
    static const std::map<std::string, config::Optimizer> kinds{
        {"adafactor", config::Optimizer::adafactor},
        {"adagrad", config::Optimizer::adagrad},
        {"adamw", config::Optimizer::adamw},
        {"muon", config::Optimizer::muon},
        {"schedule_free_adamw", config::Optimizer::schedule_free_adamw},
        {"schedule_free_sgd", config::Optimizer::schedule_free_sgd},
        {"rmsprop", config::Optimizer::rmsprop},
        {"sgd", config::Optimizer::sgd},
        {"adamw_8bit", config::Optimizer::adamw_8bit},
        {"lion_8bit", config::Optimizer::lion_8bit}};
    config::TrainingSettings settings;
    const size_t space = name.find(' ');
    settings.optim = kinds.at(name.substr(0, space));
    if (space != std::string::npos) settings.optim_args = name.substr(space + 1);
    settings.weight_decay = 0.1;
    settings.adam_beta2 = 0.99;
    settings.warmup_steps = 10;  // of schedule-free optimizers: the schedule has all others
    return settings;
}

shard::UnitLayout layout_of(const config::TrainingSettings& settings) {
    shard::UnitLayout layout("unit");
    for (const shard::TensorSpec& tensor : tensors) layout.add({.tensors = {tensor}});
    layout.choose_updates(optim::chooser_of(settings));
    return layout;
}

void set(const shard::Zero& zero, size_t unit, const shard::Chunks& chunks,
         shard::FlatStore& shards, int64_t step, double scale) {
    for (size_t chunk = chunks.first_of(unit); chunk < chunks.end_of(unit); ++chunk) {
        const at::Tensor numbers = shards.load(chunk, shard::Access::read);
        for (const shard::TensorPiece& piece : zero.units()[unit].pieces(chunks[chunk].range))
            numbers.narrow(0, piece.in_range, piece.size)
                .copy_(values(piece.tensor->spec, step, scale).narrow(0, piece.first, piece.size));
        shards.store(chunk, numbers);
    }
}

constexpr int64_t stride = 194;

// The largest distance of this rank's weights to the goldens, which are some of the elements.
double distance(const shard::Zero& zero, const nlohmann::json& golden) {
    double largest = 0;
    for (const auto& [chunks, shards] : zero.trained_weights())
        for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
            const auto& [unit, range] = chunks[chunk];
            const at::Tensor numbers = shards.load(chunk, shard::Access::read);
            for (const shard::TensorPiece& piece : zero.units()[unit].pieces(range))
                for (int64_t i = (piece.first + stride - 1) / stride * stride;
                     i < piece.first + piece.size; i += stride) {
                    const double expected =
                        golden[piece.tensor->spec.name][static_cast<size_t>(i / stride)];
                    const double found = numbers[piece.in_range + i - piece.first].item<float>();
                    largest = std::max(largest, std::abs(found - expected));
                }
        }
    return largest;
}

// Trains with the gradients of the formula, each rank the share that reduces to them.
double distance_after(const std::string& name, const mesh::MeshShape& shape, const mesh::Cuts& cuts,
                      offload::OffloadStore* store = nullptr) {
    const config::TrainingSettings settings = settings_of(name);
    const mesh::Mesh mesh(test::world(), shape, at::kCPU);
    shard::Zero zero(layout_of(settings).finish(mesh.shape().zero()), cuts,
                     {at::kFloat, at::kFloat}, mesh, {nullptr, store});
    const auto optimizer = optim::make_optimizer(zero, settings, store);
    if (store != nullptr) BOOST_REQUIRE(!store->allocate());
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        const shard::Shelf& shelf = zero.shelf_of(unit);
        set(zero, unit, shelf.chunks, shelf.exact(), 0, 0.5);
    }
    for (int64_t step = 1; step <= steps; ++step) {
        for (size_t unit = 0; unit < zero.num_units(); ++unit) {
            const shard::Shelf& shelf = zero.shelf_of(unit);
            set(zero, unit, shelf.chunks, *shelf.gradients, step, 0.1);
        }
        optimizer->step(zero, rate, 1.0);
    }
    return distance(zero, goldens()["runs"][name]);
}

const std::vector<std::string> names{
    "adamw decoupled_weight_decay=False",
    "muon",
    "muon momentum=0.9,nesterov=False,adjust_lr_fn=match_rms_adamw",
    "rmsprop",
    "rmsprop alpha=0.9,eps=1e-4",
    "adagrad",
    "adagrad lr_decay=0.1,eps=1e-6",
    "sgd",
    "sgd momentum=0.9,dampening=0.1",
    "sgd momentum=0.9,nesterov=True",
    "schedule_free_adamw",
    "schedule_free_adamw r=0.5,weight_lr_power=1",
    "schedule_free_sgd",
    "adafactor",
    "adamw_8bit",
    "lion_8bit"};

const mesh::Cuts profiles[] = {{false, false, false, true},
                               {true, false, false, true},
                               {true, true, false, true},
                               {true, true, true, false}};

// Codes at the middle between two values may differ by the last bit of a moment.
double most_of(const std::string& name) { return name.ends_with("8bit") ? 2e-3 : 1e-5; }

}  // namespace

BOOST_AUTO_TEST_CASE(weights_are_those_of_other_programs_in_every_profile) {
    const c10::InferenceMode no_autograd;
    for (const std::string& name : names)
        for (const mesh::Cuts& cuts : profiles) {
            BOOST_TEST_INFO_SCOPE(name << ", " << to_text(cuts));
            BOOST_TEST(distance_after(name, {.shard = test::world().size()}, cuts) <=
                       most_of(name));
        }
}

BOOST_AUTO_TEST_CASE(hybrid_and_offloaded_states_change_nothing) {
    const c10::InferenceMode no_autograd;
    const int64_t ranks = test::world().size();
    for (const std::string& name : names) {
        BOOST_TEST_INFO_SCOPE(name);
        if (ranks % 2 == 0)
            BOOST_TEST(distance_after(name, {.replicate = 2, .shard = ranks / 2}, profiles[2]) <=
                       most_of(name));
        offload::HostOffloadStore store(at::kCPU);
        BOOST_TEST(distance_after(name, {.shard = ranks}, profiles[3], &store) <= most_of(name));
    }
}

BOOST_AUTO_TEST_CASE(moments_in_eight_bits_have_the_codes_of_bitsandbytes) {
    const c10::InferenceMode no_autograd;
    for (const auto& golden : goldens()["codes"]) {
        const bool is_signed = golden["signed"];
        const at::Tensor map = ops::moment_values(is_signed, at::kCPU);
        for (int64_t i = 0; i < 256; ++i)
            BOOST_TEST(map[i].item<float>() ==
                       golden["values"][static_cast<size_t>(i)].get<float>());
        if (!is_signed) continue;
        const std::vector<float> numbers = golden["numbers"];
        const auto count = std::ssize(numbers);
        // A gradient becomes the moment where a moment keeps nothing.
        const at::Tensor gradient = at::from_blob(const_cast<float*>(numbers.data()), {count},
                                                  at::TensorOptions(at::kFloat))
                                        .clone();
        ops::CodedMoment moment{at::zeros({count}, at::TensorOptions(at::kByte)),
                                at::zeros({count / 256}, at::TensorOptions(at::kFloat)),
                                ops::moment_values(true, at::kCPU)};
        ops::coded_update({at::zeros_like(gradient), {moment}, gradient, {}},
                          ops::LionRule({0, 0, 1, 1}, 0, 0));
        int64_t wrong = 0;
        for (int64_t i = 0; i < count; ++i)
            wrong += moment.codes[i].item<int64_t>() ==
                             golden["codes"][static_cast<size_t>(i)].get<int64_t>()
                         ? 0
                         : 1;
        BOOST_TEST(wrong == 0);
        for (int64_t block = 0; block < count / 256; ++block)
            BOOST_TEST(moment.maxima[block].item<float>() ==
                       golden["maxima"][static_cast<size_t>(block)].get<float>());
    }
}

// Two bytes a weight, and a maximum of each moment to a block; the vector's moments stay in fp32.
BOOST_AUTO_TEST_CASE(moments_in_eight_bits_take_at_most_two_bytes_and_a_tenth) {
    const config::TrainingSettings settings = settings_of("adamw_8bit");
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    const shard::Zero zero(layout_of(settings).finish(mesh.shape().zero()), profiles[3],
                           {at::kFloat, at::kFloat}, mesh);
    const auto optimizer = optim::make_optimizer(zero, settings);
    double bytes = 0;
    double weights = 0;
    for (const auto& updater : optimizer->updaters()) {
        if (updater->shelf().placement.updater != 0) continue;
        for (const optim::State& state : updater->states())
            bytes += static_cast<double>(state.numbers->bytes());
        for (const shard::Chunk& chunk : updater->shelf().chunks)
            weights += static_cast<double>(chunk.range.size());
    }
    BOOST_TEST(weights > 0);
    BOOST_TEST(bytes <= 2.1 * weights);
    BOOST_TEST(optim::state_bytes(settings) == 2);
}

// Ranks that divide the matrices have a number for each row and column, all of them.
BOOST_AUTO_TEST_CASE(factors_take_a_number_for_each_row_and_column) {
    const config::TrainingSettings settings = settings_of("adafactor");
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    const shard::Zero zero(layout_of(settings).finish(mesh.shape().zero()), profiles[3],
                           {at::kFloat, at::kFloat}, mesh);
    const auto optimizer = optim::make_optimizer(zero, settings);
    constexpr int64_t rows = 64 + 96 + 64 + 1;
    constexpr int64_t columns = 128 + 48 + 64 + 300;
    BOOST_TEST(optimizer->memory() == 4 * (rows + columns));
    BOOST_TEST(test::world().sum(optimizer->own_bytes(zero)) == 4 * (rows + columns));
}

// The plan of a step counts the products of the rank with most of them.
BOOST_AUTO_TEST_CASE(muon_counts_its_products) {
    const config::TrainingSettings settings = settings_of("muon");
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    const shard::Zero zero(layout_of(settings).finish(mesh.shape().zero()), profiles[3],
                           {at::kFloat, at::kFloat}, mesh);
    const double wide = optim::orthogonalization_work(64, 128, 5);
    const double tall = optim::orthogonalization_work(96, 48, 5);
    const double square = optim::orthogonalization_work(64, 64, 5);
    const double most =
        test::world().size() == 1 ? wide + tall + square : std::max(wide, tall + square);
    const double counted = optim::make_optimizer(zero, settings)->product_operations();
    BOOST_TEST((test::world().size() > 2 ? counted >= wide : counted == most));
}

// Of Qwen3-8B: 36 layers with queries, keys, values, output, gate, up and down.
BOOST_AUTO_TEST_CASE(eight_ranks_orthogonalize_alike_much) {
    std::vector<double> works;
    double all = 0;
    for (int layer = 0; layer < 36; ++layer)
        for (const auto& [rows, columns] :
             std::vector<std::pair<int64_t, int64_t>>{{4096, 4096},
                                                      {1024, 4096},
                                                      {1024, 4096},
                                                      {4096, 4096},
                                                      {12288, 4096},
                                                      {12288, 4096},
                                                      {4096, 12288}}) {
            works.push_back(optim::orthogonalization_work(rows, columns, 5));
            all += works.back();
        }
    double most = 0;
    for (const std::vector<size_t>& of_rank : optim::distribute_matrices(works, 8)) {
        double mine = 0;
        for (const size_t matrix : of_rank) mine += works[matrix];
        most = std::max(most, mine);
    }
    BOOST_TEST(most <= 1.15 * all / 8);
}
