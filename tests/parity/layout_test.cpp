// The result does not depend on the layout: ten steps in every layout against the same steps on one
// rank, with one and with three micro-batches; and a changed token of one document moves no logit
// of another by a bit.
#include <ATen/ATen.h>

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <random>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/model/random_model.hpp"
#include "ringshard/train/trainer.hpp"
#include "test_model.hpp"

using namespace ringshard;
using test::TestModel;

namespace {

constexpr mesh::Cuts multi_gpu{false, false, false, true};
constexpr mesh::Cuts zero1{true, false, false, true};
constexpr mesh::Cuts zero2{true, true, false, true};
constexpr mesh::Cuts zero3{true, true, true, false};
constexpr mesh::Cuts fsdp_without_resharding{true, true, true, true};

struct Layout {
    std::string name;
    mesh::Cuts cuts;
    mesh::MeshShape shape;
};

// replicate x shard x ring x ulysses. fsdp1, fsdp2 and the profiles for long sequences cut as zero3
// does.
const std::vector<Layout> layouts{
    {"multi_gpu", multi_gpu, {2, 1, 1, 1}},
    {"zero1", zero1, {1, 2, 1, 1}},
    {"zero2", zero2, {1, 2, 1, 1}},
    {"zero3", zero3, {1, 2, 1, 1}},
    {"fsdp2 without resharding", fsdp_without_resharding, {1, 2, 1, 1}},
    {"multi_gpu, cp 2", multi_gpu, {1, 1, 2, 1}},
    {"zero3, cp 2", zero3, {1, 1, 2, 1}},
    {"zero1, sp 2", zero1, {1, 1, 1, 2}},
    {"zero3, sp 2", zero3, {1, 1, 1, 2}},

    {"multi_gpu", multi_gpu, {4, 1, 1, 1}},
    {"zero1", zero1, {1, 4, 1, 1}},
    {"zero2", zero2, {1, 4, 1, 1}},
    {"zero3", zero3, {1, 4, 1, 1}},
    {"fsdp2 without resharding", fsdp_without_resharding, {1, 4, 1, 1}},
    {"zero3, replicate 2 x shard 2", zero3, {2, 2, 1, 1}},
    {"zero1, replicate 2 x shard 2", zero1, {2, 2, 1, 1}},
    {"zero2, cp 4", zero2, {1, 1, 4, 1}},
    {"zero3, sp 4", zero3, {1, 1, 1, 4}},
    {"zero3, cp 2 x sp 2", zero3, {1, 1, 2, 2}},
    {"multi_gpu, cp 2 x sp 2", multi_gpu, {1, 1, 2, 2}},
    {"zero2, cp 2 x shard 2", zero2, {1, 2, 2, 1}},
    {"zero3, cp 2 x shard 2", zero3, {1, 2, 2, 1}},
    {"fsdp2 without resharding, sp 2 x shard 2", fsdp_without_resharding, {1, 2, 1, 2}},
    {"zero3, sp 2 x shard 2", zero3, {1, 2, 1, 2}},
    {"zero3, cp 2 x replicate 2", zero3, {2, 1, 2, 1}},

    {"zero3, cp 2 x sp 2 x shard 2", zero3, {1, 2, 2, 2}},
    {"zero1, replicate 2 x cp 2 x sp 2", zero1, {2, 1, 2, 2}},
};

enum class Rows { one_document, packed };

// Rows of up to 150 tokens of one document, or of several whose lengths divide nothing; some labels
// are left out.
data::Rows make_rows(Rows kind, int64_t num_rows) {
    std::mt19937 random(7);
    const auto below = [&](int bound) {
        return static_cast<int32_t>(random() % static_cast<unsigned>(bound));
    };
    data::SampleList rows;
    for (int64_t row = 0; row < num_rows; ++row) {
        const std::vector<int32_t> lengths =
            kind == Rows::one_document
                ? std::vector<int32_t>{101 + below(50)}
                : std::vector<int32_t>{37 + below(9), 1, 5 + below(20), 29 + below(40)};
        std::vector<int32_t> tokens;
        std::vector<int32_t> labels;
        for (const int32_t length : lengths) {
            for (int32_t t = 0; t < length; ++t) {
                tokens.push_back(below(512));
                labels.push_back(t < length / 4 ? -100 : tokens.back());
            }
        }
        rows.add(tokens, labels, lengths);
    }
    return test::one_row_each(std::move(rows));
}

struct Outcome {
    std::vector<train::StepNumbers> steps;
    std::map<std::string, at::Tensor> weights;
};

constexpr int64_t rows_per_micro_batch = 4;  // over all data ranks
constexpr int64_t num_steps = 10;

const std::filesystem::path tied_model = test::golden_folder() / "models" / "qwen2-tiny";

// The same model with a head of its own and random weights.
class UntiedModel {
public:
    UntiedModel() {
        std::filesystem::create_directories(folder_);
        std::string config = read_file(tied_model / "config.json").value();
        const std::string tied = "\"tie_word_embeddings\": true";
        config.replace(config.find(tied), tied.size(), "\"tie_word_embeddings\": false");
        BOOST_REQUIRE(!write_file_atomically(folder_ / "wanted.json", config));
        BOOST_REQUIRE(!model::write_random_model(folder_ / "wanted.json", folder_, 7));
    }
    ~UntiedModel() { std::filesystem::remove_all(folder_); }
    UntiedModel(const UntiedModel&) = delete;
    UntiedModel& operator=(const UntiedModel&) = delete;

    const std::filesystem::path& folder() const { return folder_; }

private:
    std::filesystem::path folder_ =
        std::filesystem::temp_directory_path() / concat("ringshard_untied_", getpid());
};

Outcome run(const comm::Group& group, const std::filesystem::path& folder, const Layout& layout,
            const data::Rows& rows, int64_t accumulation) {
    config::Config config;
    config.training.learning_rate = 2e-3;
    config.training.weight_decay = 0.01;
    config.training.max_steps = num_steps;
    config.training.per_device_train_batch_size = rows_per_micro_batch / layout.shape.data();
    TestModel model(group, folder,
                    {.shape = layout.shape,
                     .cuts = layout.cuts,
                     .policy = config::ActivationPolicy::attention});
    data::Loader loader(rows, data::make_dealing(config, rows, layout.shape),
                        model.mesh.data().rank(), accumulation);
    optim::AdamW optimizer(model.zero, config.training);
    train::Trainer trainer(config.training, group, model.mesh, loader, model.transformer,
                           model.zero, optimizer);
    Outcome outcome;
    for (int64_t step = 0; step < num_steps; ++step)
        outcome.steps.push_back(trainer.step([] { return std::vector<double>(); }).value());
    outcome.weights = model.weights();
    return outcome;
}

bool is_near(double a, double b, double relative) {
    return std::abs(a - b) <= relative * std::abs(b);
}

void expect_equal(const Outcome& outcome, const Outcome& reference) {
    for (size_t i = 0; i < reference.steps.size(); ++i) {
        const train::StepNumbers& a = outcome.steps[i];
        const train::StepNumbers& b = reference.steps[i];
        BOOST_TEST_INFO_SCOPE("step " << i + 1 << ": loss " << a.loss << " and " << b.loss
                                      << ", norm " << a.grad_norm << " and " << b.grad_norm);
        BOOST_TEST(is_near(a.loss, b.loss, i == 0 ? 1e-6 : 1e-5));
        BOOST_TEST(is_near(a.grad_norm, b.grad_norm, 1e-5));
        BOOST_TEST(is_near(a.entropy, b.entropy, 1e-5));
        BOOST_TEST(a.num_tokens == b.num_tokens);
        BOOST_TEST(a.epoch == b.epoch);
    }
    for (const auto& [name, weight] : reference.weights) {
        BOOST_TEST_INFO_SCOPE(name);
        // The gradient of a key bias nearly cancels, so that AdamW amplifies rounding: against the
        // learning rate.
        if (name.ends_with("k_proj.bias"))
            BOOST_TEST(test::largest_difference(outcome.weights.at(name), weight) < 2e-3);
        else
            BOOST_TEST(test::relative_distance(outcome.weights.at(name), weight) < 1e-4);
    }
}

// Which documents' logits differ at all between two batches that differ in one token.
void expect_no_leak(const Layout& layout, const data::Rows& rows) {
    TestModel model(test::world(), tied_model, {.shape = layout.shape, .cuts = layout.cuts});
    const std::vector<int64_t> numbers{0, 1};
    data::FlatBatch batch = data::flatten(rows, numbers);
    const at::Tensor before = model.logits(batch);
    const auto changed =
        static_cast<size_t>(batch.document_starts[1] - 3);  // near the end of the first document
    batch.tokens[changed] = (batch.tokens[changed] + 1) % 512;
    const at::Tensor after = model.logits(batch);
    const auto place = static_cast<int64_t>(changed);
    BOOST_TEST(after.narrow(0, 0, place)
                   .equal(before.narrow(0, 0, place)));  // earlier tokens do not see it
    BOOST_TEST(!after[place].equal(before[place]));
    const int64_t second = batch.document_starts[1];
    const int64_t rest = after.size(0) - second;
    BOOST_TEST(after.narrow(0, second, rest).equal(before.narrow(0, second, rest)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_layout_gives_the_numbers_of_one_rank) {
    const comm::Group alone(MPI_COMM_SELF);
    const Layout one_rank{"one rank", multi_gpu, {1, 1, 1, 1}};
    for (const Rows kind : {Rows::one_document, Rows::packed}) {
        const data::Rows rows = make_rows(kind, 24);
        const std::map<int64_t, Outcome> reference{{1, run(alone, tied_model, one_rank, rows, 1)},
                                                   {3, run(alone, tied_model, one_rank, rows, 3)}};
        for (const Layout& layout : layouts) {
            if (layout.shape.world() != test::world().size()) continue;
            if (kind == Rows::one_document && layout.shape.sequence() == 1)
                continue;  // nothing is cut
            BOOST_TEST_INFO_SCOPE(layout.name << ", " << to_text(layout.shape)
                                              << (kind == Rows::packed ? ", packed" : ""));
            for (const int64_t accumulation : {1, 3})
                expect_equal(run(test::world(), tied_model, layout, rows, accumulation),
                             reference.at(accumulation));
            expect_no_leak(layout, rows);
        }
    }
}

// Embedding and head are units of their own: each is gathered, reduced and updated by itself.
BOOST_AUTO_TEST_CASE(an_untied_head_gives_the_numbers_of_one_rank) {
    const UntiedModel untied;
    const data::Rows rows = make_rows(Rows::packed, 24);
    const Outcome reference = run(comm::Group(MPI_COMM_SELF), untied.folder(),
                                  {"one rank", multi_gpu, {1, 1, 1, 1}}, rows, 3);
    for (const Layout& layout : layouts) {
        if (layout.shape.world() != test::world().size()) continue;
        BOOST_TEST_INFO_SCOPE(layout.name << ", " << to_text(layout.shape));
        expect_equal(run(test::world(), untied.folder(), layout, rows, 3), reference);
    }
}
