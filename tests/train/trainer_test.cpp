// One step of a Trainer: its counts and sums, and a step with a loss that is not finite, by a row
// whose weight is NaN.
#include "ringshard/train/trainer.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "ringshard/config/config.hpp"
#include "test_model.hpp"

using namespace ringshard;
using train::ControlFlags;
using train::StepNumbers;

namespace {

constexpr int64_t num_steps = 4;

int64_t num_ranks() { return test::world().size(); }

// Rows of 8, 9, 10, ... tokens, one to a rank and step; `bad_row` has a weight that is no number.
data::Rows make_rows(std::optional<int64_t> bad_row) {
    data::SampleList rows;
    for (int64_t row = 0; row < num_steps * num_ranks(); ++row) {
        std::vector<int32_t> tokens;
        for (int64_t t = 0; t < 8 + row; ++t)
            tokens.push_back(static_cast<int32_t>((31 * row + 7 * t) % 480));
        std::vector<float> weights(tokens.size(), 1.0F);
        if (row == bad_row) weights[3] = std::numeric_limits<float>::quiet_NaN();
        const std::array lengths{static_cast<int32_t>(tokens.size())};
        rows.add(tokens, tokens, lengths, weights);
    }
    return test::one_row_each(std::move(rows));
}

config::Config make_config(config::OnNan on_nan) {
    config::Config config;
    config.training.per_device_train_batch_size = 1;
    config.training.max_steps = num_steps;
    config.training.learning_rate = 1e-3;
    config.training.on_nan = on_nan;
    config.data.train_sampling_strategy = config::SamplingStrategy::sequential;
    return config;
}

struct Run {
    explicit Run(config::OnNan on_nan, bool goes_bad, int64_t max_skipped = 10,
                 std::optional<model::DelayedScaling::Options> scaling = std::nullopt)
        : config(make_config(on_nan)),
          // The first row of the second step.
          rows(make_rows(goes_bad ? std::optional(num_ranks()) : std::nullopt)),
          model(
              test::world(), test::golden_folder() / "models" / "qwen2-tiny",
              {.shape = {.shard = num_ranks()},
               .cuts = {.optimizer = true, .gradients = true},
               .compute = scaling ? at::kBFloat16 : at::kFloat,
               .fp8 = scaling ? std::optional(model::Fp8Options{scaling->gradients}) : std::nullopt,
               .delayed_scaling = scaling}),
          sampler(data::sampler_options(config, rows, model.mesh.shape().data())),
          loader(rows, sampler, model.mesh.data_rank(), 1),
          optimizer(optim::make_optimizer(model.zero, config.training)),
          trainer(with_patience(max_skipped), test::world(), model.mesh, loader, model.transformer,
                  model.zero, *optimizer) {}

    StepNumbers step() {
        return trainer.step([] { return ControlFlags{}; });
    }
    const config::TrainingSettings& with_patience(int64_t max_skipped) {
        config.training.max_skipped_steps = max_skipped;
        return config.training;
    }

    config::Config config;
    data::Rows rows;
    test::TestModel model;
    data::SamplerOptions sampler;
    data::Loader loader;
    std::unique_ptr<optim::Optimizer> optimizer;
    train::Trainer trainer;
};

bool are_equal(const std::map<std::string, at::Tensor>& a,
               const std::map<std::string, at::Tensor>& b) {
    return std::ranges::all_of(
        a, [&](const auto& entry) { return entry.second.equal(b.at(entry.first)); });
}

}  // namespace

// On a GPU the longest documents of a micro-batch come first.
BOOST_AUTO_TEST_CASE(documents_that_are_sorted_by_length_keep_their_results) {
    Run run(config::OnNan::abort, false);
    constexpr std::array<int64_t, 3> numbers{0, 1, 2};  // of 8, 9 and 10 tokens
    const data::FlatBatch batch = data::flatten(run.rows, numbers);
    const data::FlatBatch sorted = data::sort_by_length(batch);
    const auto keys = [&](data::FlatBatch some) {
        some.learner_starts = {{0, 77}};
        return *train::shard_batch(some, run.model.mesh, run.model.transformer.masks())
                    .dropout_keys;
    };
    const auto losses = [&](const data::FlatBatch& some) {
        return run.model.transformer.evaluate(run.model.cut(some)).select(1, 0).contiguous();
    };
    const auto check = [&](const at::Tensor& before, const at::Tensor& after, int64_t less,
                           double most) {
        int64_t begin = 0;
        int64_t behind = after.size(0);
        for (const int64_t row : numbers) {
            const int64_t length = run.rows.length(row) - less;
            behind -= length;
            const at::Tensor difference =
                before.narrow(0, begin, length) - after.narrow(0, behind, length);
            BOOST_TEST(difference.abs().max().item<double>() <= most);
            begin += length;
        }
    };
    const int64_t tokens = std::ssize(batch.tokens);
    check(keys(batch).narrow(0, 0, tokens), keys(sorted).narrow(0, 0, tokens), 0, 0);
    check(losses(batch), losses(sorted), 1, 1e-5);  // the first token of a row is no target
}

BOOST_AUTO_TEST_CASE(a_step_is_the_mean_over_the_targets_of_all_ranks) {
    Run run(config::OnNan::abort, false);
    ops::TokenSums sums;
    int64_t tokens = 0;
    for (int64_t rank = 0; rank < num_ranks(); ++rank) {
        data::Loader of_rank(run.rows, run.sampler, rank, 1);
        for (const data::FlatBatch& batch : of_rank.next_step()) {
            tokens += static_cast<int64_t>(batch.tokens.size());
            sums += ops::add_up(run.model.transformer.evaluate(run.model.cut(batch)));
        }
    }
    int64_t counted = 0;
    ControlFlags found;
    found.save_file = test::world().is_root() ? 1 : 0;
    found.finished_save = 1;
    const StepNumbers numbers = run.trainer.step([&] { return found; }, [&](double) { ++counted; });
    BOOST_TEST_REQUIRE(!numbers.is_lost());
    const auto targets = static_cast<double>(sums.num_targets);
    BOOST_TEST(std::abs(numbers.loss - sums.loss / targets) < 1e-6);
    BOOST_TEST(std::abs(numbers.entropy - sums.entropy / targets) < 1e-6);
    BOOST_TEST(numbers.accuracy == static_cast<double>(sums.num_correct) / targets);
    BOOST_TEST(numbers.grad_norm > 0);
    BOOST_TEST(numbers.step == 1);
    BOOST_TEST(numbers.rows == num_ranks());
    BOOST_TEST(numbers.step_tokens == tokens);
    BOOST_TEST(numbers.num_tokens == tokens);
    BOOST_TEST(numbers.learning_rate == 1e-3);
    BOOST_TEST(!numbers.is_skipped());
    BOOST_TEST(counted == 1);
    BOOST_TEST(numbers.flags.save_file == 1);
    BOOST_TEST(numbers.flags.finished_save == static_cast<double>(num_ranks()));
    BOOST_TEST(numbers.flags.end_signal == 0);
    BOOST_TEST(run.optimizer->steps_done() == 1);
    BOOST_TEST(std::ssize(numbers.ranks) == num_ranks());
}

BOOST_AUTO_TEST_CASE(a_bad_step_is_left_out) {
    Run run(config::OnNan::skip, true);
    BOOST_TEST_REQUIRE(!run.step().is_lost());
    const auto before = run.model.weights();
    const auto left_out = run.step();
    BOOST_TEST_REQUIRE(!left_out.is_lost());
    BOOST_TEST(left_out.is_skipped());
    BOOST_TEST(!left_out.asks_to_rewind);
    BOOST_TEST_INFO_SCOPE(left_out.skipped_because);
    BOOST_TEST(left_out.skipped_because.starts_with("step 2: the loss is "));
    BOOST_TEST(left_out.skipped_because.find("rows of the step") != std::string::npos);
    BOOST_TEST(left_out.step == 2);
    BOOST_TEST(are_equal(run.model.weights(), before));
    BOOST_TEST(run.optimizer->steps_done() == 2);  // its bias corrections follow the steps
    const auto next = run.step();
    BOOST_TEST_REQUIRE(!next.is_lost());
    BOOST_TEST(!next.is_skipped());
    BOOST_TEST(next.step == 3);
    BOOST_TEST(std::isfinite(next.grad_norm));  // nothing bad is left of the gradient
    BOOST_TEST(!are_equal(run.model.weights(), before));
}

BOOST_AUTO_TEST_CASE(a_bad_step_ends_the_run) {
    for (const auto on_nan : {config::OnNan::abort, config::OnNan::skip}) {
        Run run(on_nan, true, 0);
        BOOST_TEST_REQUIRE(!run.step().is_lost());
        const auto before = run.model.weights();
        const auto bad = run.step();
        BOOST_TEST_REQUIRE(bad.ends_run.has_value());
        BOOST_TEST(bad.is_lost());
        BOOST_TEST(bad.is_skipped());
        BOOST_TEST((bad.ends_run->code() == ExitCode::bad_numbers));
        BOOST_TEST((bad.ends_run->message().find("more than max_skipped_steps") !=
                    std::string::npos) == (on_nan == config::OnNan::skip));
        BOOST_TEST(are_equal(run.model.weights(), before));
        BOOST_TEST(run.trainer.progress().step == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_bad_step_asks_to_go_back_once) {
    Run run(config::OnNan::rewind, true);
    BOOST_TEST_REQUIRE(!run.step().is_lost());
    const checkpoint::Progress there = run.trainer.progress();
    const auto asks = run.step();
    BOOST_TEST(asks.asks_to_rewind);
    BOOST_TEST(run.trainer.progress().step == 1);
    BOOST_TEST(run.optimizer->steps_done() == 1);
    run.trainer.resume_from(there);
    const auto again = run.step();  // it is the rows, and not chance
    BOOST_TEST_REQUIRE(!again.is_lost());
    BOOST_TEST(!again.asks_to_rewind);
    BOOST_TEST(again.is_skipped());
    BOOST_TEST(again.step == 2);
    BOOST_TEST(run.optimizer->steps_done() == 2);
}

BOOST_AUTO_TEST_CASE(a_step_ends_with_the_maxima_of_all_ranks) {
    const model::DelayedScaling::Options options{ops::Fp8Format::e5m2, 8, true, 0};
    Run run(config::OnNan::skip, true, 10, options);
    const model::DelayedScaling& scaling = *run.model.stack.delayed_scaling;
    BOOST_TEST_REQUIRE(!run.step().is_lost());
    BOOST_TEST(scaling.steps_in_history() == 1);
    const std::string first = scaling.to_text();
    for (const std::string& text : test::world().gather(first)) BOOST_TEST((text == first));
    // A step whose numbers are not finite leaves the history as it is, and nothing of it behind.
    BOOST_TEST(run.step().is_skipped());
    BOOST_TEST((scaling.to_text() == first));
    for (const int64_t bits : scaling.take_maxima()) BOOST_TEST(bits == 0);
    const auto next = run.step();
    BOOST_TEST(!next.is_skipped());
    BOOST_TEST(std::isfinite(next.loss));
    BOOST_TEST(scaling.steps_in_history() == 2);
    for (size_t tensor = 0; tensor < scaling.num_tensors(); ++tensor)
        BOOST_TEST(scaling.has_scale(tensor));
}
