#include "ringshard/prove/proof.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compare.hpp"
#include "faulty_mesh.hpp"
#include "probe_rows.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/data/choose_data.hpp"
#include "small_run.hpp"

namespace ringshard::prove {

namespace {

constexpr int64_t most_rows_of_device = 2;
constexpr int64_t most_micro_batches = 2;
constexpr int64_t num_probed_rows = 3;

// Returns the policy of each block that is left. The plan of the job has not chosen one.
config::ActivationPolicies policies_of(const config::TrainingSettings& training,
                                       const SmallModel& small) {
    const config::ActivationPolicies policies = training.activations_kept();
    if (policies.is_automatic()) return config::ActivationPolicy::attention;
    const auto of_blocks = policies.of_blocks(small.blocks_of_model);
    std::vector<config::ActivationPolicies::Run> runs;
    for (const size_t block : small.blocks) runs.push_back({of_blocks[block], 1});
    return config::ActivationPolicies(std::move(runs));
}

// Returns the settings of the small model. The rate is the same in all steps, and large enough that
// a weight that was not updated shows.
config::Config small_settings(const Job& job) {
    config::Config config = job.config;
    config::TrainingSettings& training = config.training;
    training.max_steps = num_steps;
    training.learning_rate = 4e-3;
    training.lr_scheduler_type = config::Schedule::constant;
    training.lr_scheduler_kwargs.clear();
    training.warmup_steps = 0;
    training.adam_epsilon = std::max(training.adam_epsilon, 1e-5);
    training.per_device_train_batch_size =
        std::min(training.per_device_train_batch_size, most_rows_of_device);
    training.gradient_accumulation_steps =
        std::min(training.gradient_accumulation_steps, most_micro_batches);
    training.on_nan = config::OnNan::abort;
    training.activation_policy = policies_of(training, job.small);
    training.activation_offloading = training.cuda_graphs = false;
    training.teacher_scores.clear();  // its rows are random
    training.anchor.clear();
    config.data.train_sampling_strategy = config::SamplingStrategy::random;
    return config;
}

config::Config in_fp32(config::Config config) {
    config.training.mixed_precision = config::Precision::fp32;
    config.training.residual_dtype.reset();
    config.training.optimizer_state_dtype = config::NumberType::fp32;
    config.parallel.reduce_dtype = config::NumberType::fp32;
    config.parallel.seq_parallel_communication_data_type.reset();
    return config;
}

// One rank has the rows of all.
config::Config of_one_rank(config::Config config, const mesh::MeshShape& shape) {
    config.training.per_device_train_batch_size *= shape.data();
    config.parallel = {};
    return config;
}

std::string precision_of(const config::Config& config) {
    const config::TrainingSettings& training = config.training;
    std::string precision = training.has_fp8()            ? "fp8"
                            : training.computes_in_bf16() ? "bf16"
                                                          : "fp32";
    if (training.optimizer_state_dtype == config::NumberType::bf16)
        precision += ", moments in bf16";
    if (config.parallel.reduce_dtype == config::NumberType::bf16) precision += ", sums in bf16";
    return precision;
}

Probe probe_of(const data::Rows& rows) {
    std::vector<int64_t> numbers(static_cast<size_t>(std::min(rows.size(), num_probed_rows)));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    Probe probe{.batch = data::flatten(rows, numbers), .bounds = {}};
    probe.bounds = probe.batch.document_starts;
    probe.bounds.push_back(static_cast<int64_t>(probe.batch.tokens.size()));
    return probe;
}

// What a faulty loader does to rows.
struct RowFaults {
    bool joins_documents;  // their ends are lost
    bool loses_targets;    // every fourth one
    bool takes_others;     // the row before, which another rank has too

    bool is_any() const { return joins_documents || loses_targets || takes_others; }
};

data::Rows spoiled(const data::Rows& rows, const RowFaults& faults) {
    data::SampleList spoiled;
    const data::TokenStore& store = rows.store();
    for (int64_t number = 0; number < store.size(); ++number) {
        const int64_t row = faults.takes_others ? std::max<int64_t>(number - 1, 0) : number;
        const uint64_t begin = store.sample(row).begin;
        std::vector<int32_t> tokens;
        std::vector<int32_t> labels;
        for (uint64_t place = begin; place < begin + store.length(row); ++place) {
            tokens.push_back(store.token(place));
            labels.push_back(faults.loses_targets && place % 4 == 0 ? data::no_label
                                                                    : store.label(place));
        }
        std::vector<int32_t> lengths{static_cast<int32_t>(tokens.size())};
        if (const auto documents = store.documents(row);
            !faults.joins_documents && !documents.empty())
            lengths.assign(documents.begin(), documents.end());
        spoiled.add(tokens, labels, lengths);
    }
    return one_row_each(std::move(spoiled), rows.content());
}

std::vector<std::string> settings_left_out(const config::Config& config) {
    std::vector<std::string> names;
    const auto add = [&](bool asked, const char* name) {
        if (asked) names.push_back(name);
    };
    add(config.parallel.offload_optimizer_device != config::OffloadDevice::none,
        "offload_optimizer_device");
    add(config.parallel.offload_param_device != config::OffloadDevice::none,
        "offload_param_device");
    add(config.training.activation_offloading, "activation_offloading");
    add(config.training.cuda_graphs, "cuda_graphs");
    add(!config.training.teacher_scores.empty(), "teacher_scores");
    add(!config.training.anchor.empty(), "anchor");
    return names;
}

// Rows of the kind that the method learns.
data::Rows rows_of(const Job& job, const config::TrainingSettings& training) {
    const int64_t count = num_steps * job.mesh.shape().data() *
                          training.per_device_train_batch_size *
                          training.gradient_accumulation_steps;
    const auto longest = static_cast<int>(std::max<int64_t>(60, 8 * job.mesh.shape().sequence()));
    const auto seed = static_cast<uint32_t>(job.config.run.seed);
    const model::ModelSpec& spec = job.small.spec;
    if (training.method == config::Method::sft)
        return make_rows(RowKind::mixed, count, longest, spec.vocabulary, seed);
    const PairsOrLabels wanted{data::row_content(training), spec.scores ? spec.scores->count : 0};
    data::Rows rows = make_rows(wanted, count, longest, spec.vocabulary, seed);
    if (training.has_baseline()) rows.give_baseline({count / num_steps});
    return rows;
}

// Runs the small model alone and in the mesh.
class Prover {
public:
    explicit Prover(const Job& job)
        : job_(job),
          settings_(small_settings(job)),
          rows_(rows_of(job, settings_.training)),
          probe_(probe_of(rows_)),
          lossy_(faulty_mesh(job.mesh, job.faults)) {}

    Proof prove() {
        Proof proof;
        proof.left_out = settings_left_out(job_.config);
        const config::Config exact = in_fp32(settings_);
        const Outcome exact_alone = alone(exact, rows_, proof);
        add(compare_exactly(in_mesh(exact, proof), exact_alone), proof);
        const std::string precision = precision_of(settings_);
        if (precision != "fp32") {
            const Outcome rounded = alone(settings_, shared(rows_), proof);
            add(compare_rounded(in_mesh(settings_, proof), rounded, exact_alone, precision), proof);
        }
        const bool holds = std::ranges::all_of(proof.checks, &Check::holds);
        proof.holds = job_.world.all(holds);
        return proof;
    }

private:
    void add(const std::vector<Check>& checks, Proof& proof) const {
        if (!job_.world.is_root()) return;  // the others have no run to compare with
        for (const Check& check : checks) {
            // Numbers of all documents share a scale there.
            const bool shares_scales =
                check.precision.starts_with("fp8") &&
                settings_.training.fp8_recipe == config::Fp8Recipe::tensorwise;
            if (check.what != What::documents || !shares_scales) proof.checks.push_back(check);
        }
    }

    // The rows as the job reads them. One rank alone computes the prompt of a pair for each answer
    // in fp32, and once where numbers are rounded.
    data::Rows shared(data::Rows rows) const {
        const config::TrainingSettings& training = settings_.training;
        if (training.learns_pairs() && training.share_prompts &&
            job_.small.spec.why_prompts_are_apart().empty())
            rows.share_prompts();
        return rows;
    }

    // On rank 0; the others sleep, and leave it their cores.
    Outcome alone(const config::Config& config, const data::Rows& rows, Proof& proof) const {
        const Timer timer;
        Outcome outcome;
        if (job_.world.is_root()) {
            const comm::Group group(MPI_COMM_SELF);
            const mesh::Mesh mesh(group, {}, job_.mesh.device());
            outcome = train({of_one_rank(config, job_.mesh.shape()), job_.small.spec, group, mesh,
                             mesh, rows, probe_, job_.made_progress, nullptr});
        }
        job_.world.barrier();
        proof.seconds_alone += timer.seconds();
        return outcome;
    }

    Outcome in_mesh(const config::Config& config, Proof& proof) {
        const Timer timer;
        const auto is_seeded = [this](const char* point) {
            return job_.faults.corruption_at(point) != Faults::Corruption::none;
        };
        const RowFaults faults{.joins_documents = is_seeded("prove:documents"),
                               .loses_targets = is_seeded("prove:targets"),
                               .takes_others = is_seeded("prove:rows")};
        std::optional<data::Rows> bad_rows;
        if (faults.is_any()) bad_rows.emplace(spoiled(rows_, faults));
        const data::Rows& rows = bad_rows ? *bad_rows : rows_;
        const Probe probe{.batch = probe_of(faults.takes_others ? rows_ : rows).batch,
                          .bounds = probe_.bounds};
        const Outcome outcome =
            train({config, job_.small.spec, job_.world, lossy_ ? *lossy_ : job_.mesh, job_.mesh,
                   shared(rows), probe, job_.made_progress, &job_.faults});
        proof.seconds_in_mesh += timer.seconds();
        return outcome;
    }

    const Job& job_;
    config::Config settings_;
    data::Rows rows_;
    Probe probe_;
    std::unique_ptr<mesh::Mesh> lossy_;  // null: no fault is seeded
};

}  // namespace

Proof prove(const Job& job) { return Prover(job).prove(); }

}  // namespace ringshard::prove
