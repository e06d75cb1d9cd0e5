// Every optimizer, in every profile: the states it declares, and weights that follow LibTorch's
// arithmetic in double precision.
#include "ringshard/optim/optimizer.hpp"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <boost/test/unit_test.hpp>
#include <functional>
#include <map>

#include "mpi_test.hpp"
#include "ringshard/config/training_settings.hpp"

using namespace ringshard;

namespace {

constexpr int64_t rows = 70;  // of the matrix; 3 steps of matrices and vectors
constexpr int64_t columns = 30;
constexpr double rate = 1e-2;
constexpr double scale = 0.5;
constexpr double ratio = 3;  // of the rate of B, magnitudes and vectors

std::vector<shard::FlatUnit> make_units(int64_t parts) {
    const auto output_of = [](const shard::TensorSpec& tensor) {
        return shard::ParameterGroup{.tensors = {tensor},
                                     .update = shard::UpdateKind::decaying_at_own_rate};
    };
    return {shard::FlatUnit("unit",
                            {{{{"matrix", {rows, columns}}}},
                             {{{"vector", {columns}}}},
                             output_of({"b", {rows, 4}}),
                             output_of({"magnitude", {rows}})},
                            parts)};
}

at::Tensor gradient_of(int64_t step, int64_t size) {
    at::manual_seed(static_cast<uint64_t>(step));
    return at::randn({size});
}

config::TrainingSettings settings_of(config::Optimizer kind) {
    config::TrainingSettings settings;
    settings.optim = kind;
    settings.weight_decay = 0.1;
    settings.loraplus_lr_ratio = ratio;
    settings.adam_beta1 = 0.9;
    settings.adam_beta2 = 0.99;
    return settings;
}

using Update = std::function<void(at::Tensor& w, at::Tensor& m, at::Tensor& v, const at::Tensor& g,
                                  double lr, double decay, int64_t step)>;

void lion(at::Tensor& w, at::Tensor& m, at::Tensor&, const at::Tensor& g, double lr, double decay,
          int64_t) {
    w = w * (1 - lr * decay) - lr * at::sign(m * 0.9 + g * 0.1);
    m = m * 0.99 + g * 0.01;
}

void adamw(at::Tensor& w, at::Tensor& m, at::Tensor& v, const at::Tensor& g, double lr,
           double decay, int64_t step) {
    m = m * 0.9 + g * 0.1;
    v = v * 0.99 + g * g * 0.01;
    const auto count = static_cast<double>(step);
    const at::Tensor root = at::sqrt(v / (1 - std::pow(0.99, count))) + 1e-8;
    w = w * (1 - lr * decay) - lr * (m / (1 - std::pow(0.9, count))) / root;
}

at::Tensor expected_weights(const shard::FlatUnit& unit, const Update& update, int64_t steps) {
    at::Tensor w = gradient_of(100, unit.size()).to(at::kDouble);
    at::Tensor m = at::zeros_like(w);
    at::Tensor v = at::zeros_like(w);
    for (int64_t step = 1; step <= steps; ++step) {
        const at::Tensor g = scale * gradient_of(step, unit.size()).to(at::kDouble);
        for (const auto& [begin, end, lr, decay] :
             {std::tuple{int64_t{0}, unit.matrices_end(), rate, 0.1},
              std::tuple{unit.matrices_end(), unit.decaying_end(), ratio * rate, 0.1},
              std::tuple{unit.decaying_end(), unit.size(), ratio * rate, 0.0}}) {
            const auto part = [b = begin, e = end](const at::Tensor& all) {
                return all.narrow(0, b, e - b);
            };
            at::Tensor w_part = part(w).clone();
            at::Tensor m_part = part(m).clone();
            at::Tensor v_part = part(v).clone();
            update(w_part, m_part, v_part, part(g), lr, decay, step);
            part(w).copy_(w_part);
            part(m).copy_(m_part);
            part(v).copy_(v_part);
        }
    }
    return w;
}

// Trains in the profile that `cuts` describes, and compares this rank's range.
void check(config::Optimizer kind, const Update& update, const mesh::Cuts& cuts) {
    constexpr int64_t steps = 3;
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    shard::Zero zero(make_units(mesh.shape().zero()), cuts, {at::kFloat, at::kFloat}, mesh);
    const auto optimizer = optim::make_optimizer(zero, settings_of(kind));
    const shard::FlatUnit& unit = zero.units()[0];
    const shard::Range mine = zero.shelves().front().chunks[0].range;
    const auto in_range = [&](const at::Tensor& all) {
        return all.narrow(0, mine.begin, mine.size());
    };
    const at::Tensor weights = zero.shelves().front().exact().load(0, shard::Access::read);
    weights.copy_(in_range(gradient_of(100, unit.size())));
    zero.shelves().front().exact().store(0, weights);
    for (int64_t step = 1; step <= steps; ++step) {
        const at::Tensor gradient = zero.shelves().front().gradients->load(0, shard::Access::read);
        gradient.copy_(in_range(gradient_of(step, unit.size())));
        zero.shelves().front().gradients->store(0, gradient);
        optimizer->step(zero, rate, scale);
    }
    BOOST_TEST(optimizer->steps_done() == steps);
    const at::Tensor expected = in_range(expected_weights(unit, update, steps));
    const at::Tensor found =
        zero.shelves().front().exact().load(0, shard::Access::read).to(at::kDouble);
    BOOST_TEST((found - expected).abs().max().item<double>() < 1e-5);
}

const mesh::Cuts profiles[] = {{false, false, false, true},
                               {true, false, false, true},
                               {true, true, false, true},
                               {true, true, true, false}};

}  // namespace

BOOST_AUTO_TEST_CASE(adamw_follows_its_definition_in_every_profile) {
    const c10::InferenceMode no_autograd;
    for (const mesh::Cuts& cuts : profiles) check(config::Optimizer::adamw, adamw, cuts);
}

BOOST_AUTO_TEST_CASE(lion_follows_its_definition_in_every_profile) {
    const c10::InferenceMode no_autograd;
    for (const mesh::Cuts& cuts : profiles) check(config::Optimizer::lion, lion, cuts);
}

BOOST_AUTO_TEST_CASE(an_optimizer_holds_the_states_that_it_names) {
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    const shard::Zero zero(make_units(mesh.shape().zero()), profiles[3], {at::kFloat, at::kFloat},
                           mesh);
    const int64_t weights = zero.shelves().front().chunks.shard(0).size();
    for (const auto& [kind, num_states] :
         {std::pair{config::Optimizer::adamw, 2}, std::pair{config::Optimizer::lion, 1}}) {
        const auto optimizer = optim::make_optimizer(zero, settings_of(kind));
        BOOST_TEST_REQUIRE(optimizer->updaters().size() == 1);
        BOOST_TEST(std::ssize(optimizer->updaters().front()->states()) == num_states);
        BOOST_TEST(optimizer->own_bytes(zero) == 4 * num_states * weights);
        BOOST_TEST(optimizer->memory() == 4 * num_states * weights);
    }
}

BOOST_AUTO_TEST_CASE(what_is_forgotten_begins_again) {
    const c10::InferenceMode no_autograd;
    const mesh::Mesh mesh(test::world(), {.shard = test::world().size()}, at::kCPU);
    shard::Zero zero(make_units(mesh.shape().zero()), profiles[3], {at::kFloat, at::kFloat}, mesh);
    const auto optimizer = optim::make_optimizer(zero, settings_of(config::Optimizer::lion));
    const at::Tensor gradient = zero.shelves().front().gradients->load(0, shard::Access::read);
    gradient.fill_(1);
    zero.shelves().front().gradients->store(0, gradient);
    optimizer->step(zero, rate, scale);
    const auto largest = [&] {
        return optimizer->updaters()
            .front()
            ->states()[0]
            .numbers->load(0, shard::Access::read)
            .abs()
            .max()
            .item<float>();
    };
    BOOST_TEST(largest() > 0);
    optimizer->forget();
    BOOST_TEST(largest() == 0);
    BOOST_TEST(optimizer->steps_done() == 0);
}

// Units are filled up so that they can be divided: the random bits of an element do not depend on
// how many elements that takes.
BOOST_AUTO_TEST_CASE(moments_in_bf16_are_rounded_alike_however_a_unit_is_divided) {
    const c10::InferenceMode no_autograd;
    config::TrainingSettings settings = settings_of(config::Optimizer::adamw);
    settings.optimizer_state_dtype = config::NumberType::bf16;
    const mesh::Mesh mesh(test::world(), {.replicate = test::world().size()}, at::kCPU);
    // The moments of each tensor after a step.
    const auto moments_of = [&](int64_t parts) {
        shard::Zero zero(make_units(parts), profiles[0], {at::kFloat, at::kFloat}, mesh);
        const auto optimizer = optim::make_optimizer(zero, settings);
        const shard::FlatUnit& unit = zero.units()[0];
        const at::Tensor gradient = zero.shelves().front().gradients->load(0, shard::Access::read);
        for (const shard::PlacedTensor& tensor : unit.tensors())
            gradient.narrow(0, tensor.offset, tensor.size).copy_(gradient_of(1, tensor.size));
        zero.shelves().front().gradients->store(0, gradient);
        optimizer->step(zero, rate, scale);
        std::map<std::string, at::Tensor> moments;
        const at::Tensor all =
            optimizer->updaters().front()->states()[1].numbers->load(0, shard::Access::read);
        for (const shard::PlacedTensor& tensor : unit.tensors())
            moments[tensor.spec.name] = all.narrow(0, tensor.offset, tensor.size).clone();
        return moments;
    };
    const auto whole = moments_of(1);
    BOOST_TEST(whole.at("matrix").scalar_type() == at::kBFloat16);
    for (const auto& [name, moment] : moments_of(1024))
        BOOST_TEST(moment.equal(whole.at(name)), name);
}
