#include "ringshard/plan/step_plan.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "counting_communicator.hpp"
#include "imaginary_host_store.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/device/host_memory.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/offload/file_offload_store.hpp"
#include "ringshard/peft/adapters.hpp"
#include "ringshard/train/micro_batches.hpp"
#include "ringshard/train/training_stack.hpp"

namespace ringshard::plan {

namespace {

// Finds the moment of a step at which memory is largest.
class PeakWatch {
public:
    void begins(std::string what) {
        const int64_t peak = device::host_memory_use().peak;
        if (peak > peak_) moment_of_peak_ = moment_;
        peak_ = peak;
        moment_ = std::move(what);
    }
    void restart() {
        device::restart_host_memory_peak();
        peak_ = 0;
    }
    int64_t peak() const { return peak_; }
    const std::string& moment() const { return moment_of_peak_; }

private:
    int64_t peak_ = 0;
    std::string moment_;
    std::string moment_of_peak_;
};

// Makes the batch of this rank as train::shard_batch() does, from rows of one document each, on
// meta tensors: memory does not grow with the tokens.
model::TokenBatch make_batch(int64_t rows, int64_t row_length, const mesh::Mesh& mesh,
                             std::span<const attention::Mask> masks) {
    std::vector<int64_t> document_starts;
    for (int64_t row = 0; row < rows; ++row) document_starts.push_back(row * row_length);
    const int64_t num_tokens = rows * row_length;
    const attention::SequencePartition partition(num_tokens, std::move(document_starts),
                                                 mesh.shape().ring, mesh.shape().ulysses);
    int64_t num_targets = 0;
    for (const attention::Run& run :
         partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses)) {
        const int64_t end = std::min(run.start + run.length, num_tokens);
        if (end <= run.start) continue;  // filler tokens at the end
        const int64_t last_tokens = end / row_length - run.start / row_length;  // have no target
        num_targets += end - run.start - last_tokens;
    }
    const auto numbers = [](int64_t count) {
        return at::empty({count}, at::TensorOptions(at::kLong).device(at::kMeta));
    };
    return {numbers(partition.tokens_per_rank()),
            numbers(partition.tokens_per_rank()),
            numbers(num_targets),
            numbers(num_targets),
            std::nullopt,
            attention::make_plans(partition, mesh.coordinates().ring, masks),
            numbers(partition.tokens_per_rank()),
            numbers(partition.tokens_per_rank())};
}

// Gives each of `count` learners from the first on as many tokens.
void deal_to_learners(model::TokenBatch& batch, int64_t first, int64_t count,
                      int64_t num_learners) {
    if (num_learners > 1)
        batch.weights = at::empty(batch.targets.sizes(), batch.targets.options().dtype(at::kFloat));
    for (int64_t learner = 0; learner <= num_learners; ++learner) {
        const int64_t before = std::clamp<int64_t>(learner - first, 0, count);
        batch.learner_bounds.push_back(batch.tokens.size(0) * before / count);
        batch.target_bounds.push_back(batch.targets.size(0) * before / count);
    }
}

// A rank on meta tensors: its mesh, stores and TrainingStack.
class ImaginaryRank {
public:
    ImaginaryRank(const Question& question, int64_t rank)
        : config_(question.config),
          question_(question),
          mesh_(question.shape, rank, at::kMeta,
                [this](const char* group, int64_t place, int64_t size) {
                    Traffic& traffic = traffic_.emplace_back(Traffic{group, size, 0, 0});
                    return std::make_unique<CountingCommunicator>(traffic, place);
                }),
          stack_(
              config_, question.spec, mesh_,
              {.state = {store_if(is_moved(config_.parallel.offload_param_device), weights_store_),
                         store_if(is_moved(config_.parallel.offload_optimizer_device),
                                  optimizer_store_)},
               .activations = store_if(config_.training.activation_offloading, activations_store_),
               .gemms = question.gemms,
               .device_memory = question.device_memory,
               .planned_device = question.device,
               .on_phase = [this](const std::string& what) { peak_.begins(what); }}) {}
    ImaginaryRank(const ImaginaryRank&) = delete;
    ImaginaryRank& operator=(const ImaginaryRank&) = delete;

    StepPlan plan() {
        take_step();  // what is kept from step to step is there after one
        for (Traffic& traffic : traffic_) traffic.operations = traffic.bytes = 0;
        peak_.restart();
        take_step();
        StepPlan plan;
        plan.memory =
            train::memory_by_kind(stack_.zero, *stack_.optimizer, peak_.peak(), staging_.bytes());
        plan.memory.save_copy = save_copy();
        plan.update_products = stack_.optimizer->product_operations();
        plan.peak = peak_.peak();
        plan.peak_at = peak_.moment();
        for (const Traffic& traffic : traffic_)
            if (traffic.operations > 0) plan.traffic.push_back(traffic);
        // In files, or in the host's memory beside a GPU.
        int64_t& away = is_on_gpu() ? plan.memory.staging : plan.scratch_bytes;
        const int64_t state = weights_store_->bytes() + optimizer_store_->bytes();
        const int64_t activations = activations_store_->bytes();
        away += state + activations;
        plan.offloaded_activations = activations;
        // State goes both ways once, activations with every micro-batch.
        plan.moved_bytes = 2 * (state + activations * num_micro_batches());
        plan.saved_bytes = save_copy() + written_model();
        plan.checkpoint_bytes = plan.saved_bytes * question_.shape.world();
        return plan;
    }

private:
    bool is_on_gpu() const { return question_.device == c10::DeviceType::CUDA; }
    bool is_moved(config::OffloadDevice device) const {
        return device == (is_on_gpu() ? config::OffloadDevice::cpu : config::OffloadDevice::nvme);
    }
    std::unique_ptr<offload::OffloadStore> make_offload_store() const {
        if (is_on_gpu()) return std::make_unique<ImaginaryHostStore>();
        return std::make_unique<offload::FileOffloadStore>(offload::ScratchFile::imaginary(),
                                                           staging_);
    }
    static offload::OffloadStore* store_if(
        bool wanted, const std::unique_ptr<offload::OffloadStore>& offload_store) {
        return wanted ? offload_store.get() : nullptr;
    }
    int64_t num_learners() const { return static_cast<int64_t>(stack_.zero.num_variants()); }
    int64_t adapters_at_a_time() const { return config_.adapter.at_a_time(num_learners()); }
    // The micro-batches that follow one another, so that every adapter has rows in one of them.
    int64_t turns() const {
        return (num_learners() + adapters_at_a_time() - 1) / adapters_at_a_time();
    }
    int64_t num_micro_batches() const {
        return turns() * config_.training.gradient_accumulation_steps;
    }
    void take_step() {
        const int64_t num_learners = this->num_learners();
        const int64_t at_a_time = adapters_at_a_time();
        const std::vector<attention::Mask> masks = question_.spec.masks();
        peak_.begins("clearing gradients");
        train::run_micro_batches(
            stack_.zero, stack_.transformer, num_micro_batches(), [&](int64_t i) {
                const int64_t first = i % turns() * at_a_time;
                const int64_t count = std::min(at_a_time, num_learners - first);
                model::TokenBatch batch =
                    make_batch(count * config_.training.per_device_train_batch_size,
                               question_.row_length, mesh_, masks);
                if (stack_.transformer.has_dropout()) batch.dropout_keys = batch.tokens;
                deal_to_learners(batch, first, count, num_learners);
                return train::MicroBatch{std::move(batch)};
            });
        peak_.begins("summing gradients");
        stack_.zero.finish_gradients();
        peak_.begins("updating the weights");
        stack_.optimizer->step(stack_.zero, 1e-5, 1.0);
        stack_.zero.refresh_compute_weights();
        peak_.begins("between steps");
    }

    // Weights that are this rank's alone: a checkpoint holds those that are trained.
    int64_t own_weights(bool are_trained) const {
        int64_t weights = 0;
        for (size_t unit = 0; unit < stack_.zero.num_units(); ++unit)
            if (stack_.zero.units()[unit].is_trained() == are_trained)
                weights += stack_.zero.exclusive_range(unit).size();
        return weights;
    }
    // Masters and the optimizer's states.
    int64_t save_copy() const {
        return own_weights(true) * static_cast<int64_t>(sizeof(float)) +
               stack_.optimizer->own_bytes(stack_.zero);
    }
    // The files that save_model_in_checkpoints adds: the model, or the adapters in fp32.
    int64_t written_model() const {
        if (!config_.checkpoint.save_model_in_checkpoints) return 0;
        const int64_t trained = own_weights(true);
        if (question_.spec.has_adapters()) return trained * static_cast<int64_t>(sizeof(float));
        const auto type = hub::written_type(config_.model.dtype, question_.spec.config_json);
        return (trained + own_weights(false)) * (type == hub::StoredType::bf16 ? 2 : 4);
    }

    const config::Config& config_;
    const Question& question_;
    std::deque<Traffic> traffic_;  // of every group; communicators keep their places
    PeakWatch peak_;
    offload::Staging staging_{at::kMeta};
    std::unique_ptr<offload::OffloadStore> weights_store_ = make_offload_store();
    std::unique_ptr<offload::OffloadStore> optimizer_store_ = make_offload_store();
    std::unique_ptr<offload::OffloadStore> activations_store_ = make_offload_store();
    mesh::Mesh mesh_;
    train::TrainingStack stack_;
};

// Two smaller sizes, and the size that is wanted.
struct Line {
    int64_t smaller;
    int64_t larger;
    int64_t wanted;

    int64_t continued(int64_t at_smaller, int64_t at_larger) const {
        const double slope =
            static_cast<double>(at_larger - at_smaller) / static_cast<double>(larger - smaller);
        return at_larger + std::llround(slope * static_cast<double>(wanted - larger));
    }
};

// Continues the line through two plans: the cost of a step is linear in its rows and micro-batches,
// plus a constant.
StepPlan continued(const Line& line, const StepPlan& smaller, StepPlan larger) {
    const auto go_on = [&](int64_t& value, int64_t at_smaller) {
        value = line.continued(at_smaller, value);
    };
    for (const train::MemoryKind& kind : train::memory_kinds)
        go_on(larger.memory.*kind.bytes, smaller.memory.*kind.bytes);
    go_on(larger.peak, smaller.peak);
    go_on(larger.scratch_bytes, smaller.scratch_bytes);
    go_on(larger.offloaded_activations, smaller.offloaded_activations);
    go_on(larger.moved_bytes, smaller.moved_bytes);
    for (size_t i = 0; i < larger.traffic.size(); ++i) {
        go_on(larger.traffic[i].operations, smaller.traffic[i].operations);
        go_on(larger.traffic[i].bytes, smaller.traffic[i].bytes);
    }
    larger.imaginary_tokens += smaller.imaginary_tokens;
    return larger;
}

// Rows of a micro-batch, with those of all adapters that train together.
int64_t rows_of_all(const model::ModelSpec& spec, int64_t rows) {
    return rows * spec.num_learners();
}

StepPlan plan_exactly(const Question& question, int64_t rows, int64_t micro_batches) {
    config::Config config = question.config;
    config.training.per_device_train_batch_size = rows;
    config.training.gradient_accumulation_steps = micro_batches;
    StepPlan plan = ImaginaryRank(question.with(config), 0).plan();
    plan.imaginary_tokens =
        2 * rows_of_all(question.spec, rows) * micro_batches * question.row_length;  // two steps
    return plan;
}

StepPlan plan_rows(const Question& question, int64_t micro_batches) {
    const int64_t rows = question.config.training.per_device_train_batch_size;
    const int64_t most = std::max<int64_t>(
        2, question.most_tokens / (question.row_length * rows_of_all(question.spec, 1)));
    if (rows <= most) return plan_exactly(question, rows, micro_batches);
    return continued({most / 2, most, rows}, plan_exactly(question, most / 2, micro_batches),
                     plan_exactly(question, most, micro_batches));
}

// The first and the last micro-batch differ from those between them, which are alike.
StepPlan plan_micro_batches(const Question& question) {
    const int64_t most = question.most_micro_batches;
    const int64_t micro_batches = question.config.training.gradient_accumulation_steps;
    if (micro_batches <= most) return plan_rows(question, micro_batches);
    return continued({most - 1, most, micro_batches}, plan_rows(question, most - 1),
                     plan_rows(question, most));
}

}  // namespace

StepPlan plan_step(const Question& question, int num_threads) {
    const c10::InferenceMode no_autograd;
    at::set_num_threads(num_threads);
    device::keep_host_memory();
    device::count_imaginary_memory();
    StepPlan plan = plan_micro_batches(question);
    device::restart_host_memory_peak();
    return plan;
}

model::ModelSpec with_uneven_rows(model::ModelSpec spec, int64_t parts) {
    for (model::BlockSpec& block : spec.blocks)
        if (model::ExpertsSpec* const experts = block.experts())
            experts->planned_experts = std::max(experts->count / parts, experts->per_token);
    return spec;
}

}  // namespace ringshard::plan
