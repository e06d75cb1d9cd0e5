#include "ringshard/run/plan_answers.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/config/row_length.hpp"
#include "ringshard/peft/adapters.hpp"
#include "ringshard/plan/kept_activations.hpp"

namespace ringshard::run {

Expected<mesh::MeshShape> choose_layout(const config::Settings& settings,
                                        const model::ModelSpec& spec, const PlanArgs& args) {
    auto shape = mesh::choose_shape(settings, args.world, args.num_nodes());
    if (!shape) return shape;
    const std::string why_not = spec.why_heads_do_not_split(shape.value().ulysses);
    if (!why_not.empty())
        return Failure{ExitCode::settings,
                       format_text("sp_size = {}: {}", shape.value().ulysses, why_not)};
    if (const auto failure = check_policies(settings, spec)) return *failure;
    if (const auto failure = check_experts(settings, spec, shape.value())) return *failure;
    return shape;
}

std::optional<Failure> check_experts(const config::Settings& settings, const model::ModelSpec& spec,
                                     const mesh::MeshShape& shape) {
    const std::string why_not = spec.why_experts_do_not_split(shape.sections);
    if (why_not.empty()) return std::nullopt;
    std::vector<std::string> sizes;
    for (const int64_t size : mesh::section_sizes(shape, std::max<int64_t>(1, spec.num_experts())))
        sizes.push_back(concat(size));
    return Failure{
        ExitCode::settings,
        format_text("ep_size = {} [{}]: {}; sizes that work with this model on this mesh: {}",
                    shape.sections, settings.origin_of("ep_size").place, why_not,
                    join(sizes, ", "))};
}

std::optional<Failure> check_policies(const config::Settings& settings,
                                      const model::ModelSpec& spec) {
    const config::ActivationPolicies policies = settings.values.training.activations_kept();
    const std::string why_not = policies.why_not(narrow<int64_t>(spec.blocks.size()));
    if (why_not.empty()) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("activation_policy = {} [{}]: {}", to_text(policies),
                               settings.origin_of("activation_policy").place, why_not)};
}

std::string describe_automatic(const config::ActivationPolicies& chosen,
                               const model::ModelSpec& spec) {
    return format_text("activation_policy auto: {} ({})",
                       describe(chosen, narrow<int64_t>(spec.blocks.size())), to_text(chosen));
}

Expected<Answer> Planner::answer(const config::Settings& settings) const {
    return answer(settings,
                  config::most_tokens_of_row(settings.values).value_or(spec_.max_positions));
}

Expected<Answer> Planner::answer(const config::Settings& settings, int64_t row_length) const {
    const auto shape = choose_layout(settings, spec_, args_);
    if (!shape) return shape.failure();
    if (args_.documents > row_length)
        return Failure{ExitCode::usage,
                       format_text("--documents {}: a row of {} tokens has no room for so many",
                                   args_.documents, row_length)};
    return answer(settings, shape.value(), row_length);
}

// To the checkpoints that hold the whole model.
void Planner::add_passed_bytes(const config::Config& config, const mesh::MeshShape& shape,
                               plan::StepPlan& plan) const {
    if (!config.checkpoint.save_model_in_checkpoints || spec_.has_adapters()) return;
    plan.saved_bytes += (passed_bytes_ + shape.world() - 1) / shape.world();
    plan.checkpoint_bytes += passed_bytes_;
}

Answer Planner::answer(const config::Settings& settings, const mesh::MeshShape& shape,
                       int64_t row_length) const {
    const int64_t num_learners = spec_.num_learners();
    Answer answer{.shape = shape,
                  .num_rows = settings.values.training.per_device_train_batch_size *
                              settings.values.adapter.at_a_time(num_learners),
                  .row_length = row_length};
    config::Config config = settings.values;
    plan::Question question{config, spec_, shape, row_length,
                            device_.is_host ? c10::DeviceType::CPU : c10::DeviceType::CUDA};
    question.documents = args_.documents;
    question.device_memory = device_.memory_bytes;
    question.gemms = gemms_;
    // Only on the host do the threads of a rank keep sums of their own.
    const int num_threads = device_.is_host ? num_threads_ : 1;
    answer.policies = config.training.activations_kept();
    if (answer.policies.is_automatic()) {
        plan::KeptActivations kept = plan::keep_what_fits(question, device_, num_threads);
        config.training.activation_policy = answer.policies = std::move(kept.policies);
        answer.plan = std::move(kept.plan);
    } else {
        answer.plan = plan::plan_step(question, num_threads);
    }
    add_passed_bytes(config, shape, answer.plan);
    answer.held = plan::held_bytes(answer.plan, device_);
    answer.shortage = plan::find_shortage(answer.plan, device_, args_.ranks_per_node());
    answer.save = plan::estimate_save(answer.plan, device_, args_.ranks_per_node());
    answer.seconds = plan::estimate_seconds(question, answer.plan, device_, args_.ranks_per_node());
    return answer;
}

Expected<Planner::Longest> Planner::longest(const config::Settings& settings) const {
    constexpr int64_t step = 256;  // tokens; rows are rounded down to multiples
    const int64_t least = (args_.documents + step - 1) / step * step;
    int64_t fits = std::max(step, least);
    auto shortest = answer(settings, fits);
    if (!shortest) return shortest.failure();
    Longest best{std::move(shortest).value(), {}};
    if (!best.answer.fits()) return best;
    int64_t too_long = 2 * fits;
    const auto try_length = [&](int64_t length) {
        auto tried = answer(settings, length);
        const bool is_good = tried && tried.value().fits();
        if (is_good)
            best.answer = std::move(tried).value();
        else if (tried)
            best.end = tried.value().shortage;
        return is_good;
    };
    constexpr int64_t most = int64_t{1} << 24;
    while (too_long <= most && try_length(too_long)) {
        fits = too_long;
        too_long *= 2;
    }
    if (too_long > most) return best;
    while (too_long - fits > std::max(step, fits / 64)) {
        const int64_t middle = (fits + too_long) / 2 / step * step;
        (try_length(middle) ? fits : too_long) = middle;
    }
    return best;
}

namespace {

std::vector<int64_t> divisors(int64_t number) {
    std::vector<int64_t> found;
    for (int64_t divisor = 1; divisor <= number; ++divisor)
        if (number % divisor == 0) found.push_back(divisor);
    return found;
}

}  // namespace

std::optional<Suggestion> Planner::try_words(const std::string& words,
                                             const std::string& reason) const {
    std::vector<std::string> flags = args_.settings;
    for (const std::string& flag : split(words, ' '))
        if (!flag.empty()) flags.push_back(flag);
    const auto resolution = config::resolve(config::OptionTable(), flags, environment_);
    if (!resolution.problems.empty()) return std::nullopt;
    auto tried = answer(resolution.settings);
    if (!tried || !tried.value().fits()) return std::nullopt;
    return Suggestion{words, reason, std::move(tried).value()};
}

std::vector<Suggestion> Planner::cures(const config::Settings& settings,
                                       std::optional<int64_t> row_length) const {
    struct Cure {
        const char* name;
        std::string text;
        const char* reason;
    };
    std::vector<Cure> cures{{"per_device_train_batch_size", "1", "one row at a time"},
                            {"activation_policy", "input", "blocks keep their input alone"},
                            {"activation_offloading", "true", "activations are offloaded"},
                            {"optimizer_state_dtype", "bf16", "moments take half"}};
    for (const int64_t ring : divisors(args_.world))
        if (ring > 1) cures.push_back({"cp_size", concat(ring), "rows are split"});
    std::vector<Suggestion> good;
    const config::OptionTable table;
    for (const Cure& cure : cures) {
        const config::Settings cured = settings.with(cure.name, cure.text, table);
        auto tried = row_length ? answer(cured, *row_length) : answer(cured);
        if (tried && tried.value().fits())
            good.push_back({format_text("--{} {}", cure.name, cure.text), cure.reason,
                            std::move(tried).value()});
    }
    return good;
}

namespace {

struct Word {
    const char* flag;
    const char* reason;
};

// Settings that the user gave are not varied.
std::vector<Word> choices(const config::Settings& settings, const char* name,
                          std::vector<Word> words) {
    return settings.is_fixed(name) ? std::vector<Word>{{"", ""}} : std::move(words);
}

std::string both(const Word& a, const Word& b) {
    return concat(a.reason, *a.reason != '\0' && *b.reason != '\0' ? ", " : "", b.reason);
}

}  // namespace

std::vector<Suggestion> Planner::suggest(const config::Settings& settings) const {
    std::vector<Suggestion> good = try_layouts(settings, "");
    if (good.empty() && !settings.is_fixed("per_device_train_batch_size"))
        good = try_layouts(settings, "--per_device_train_batch_size 1 ");
    // Rows of other layouts differ in number, so they are compared by tokens per second, in steps
    // of a per cent; then what is left of the memory.
    const auto cost = [](const Suggestion& suggestion) {
        const Answer& answer = suggestion.answer;
        return std::pair(-std::lround(100 * std::log(answer.seconds.tokens_per_second)),
                         answer.held);
    };
    std::ranges::stable_sort(good, {}, cost);
    constexpr size_t most = 10;
    if (good.size() > most) good.resize(most);
    return good;
}

std::vector<Suggestion> Planner::try_layouts(const config::Settings& settings,
                                             const std::string& batch) const {
    // Profiles that shard more take less memory: if one does not fit, the ones after it, which
    // shard less, do not either.
    const auto profiles = choices(settings, "profile",
                                  {{"--profile zero3", "everything is sharded"},
                                   {"--profile zero2", "optimizer state and gradients are sharded"},
                                   {"--profile zero1", "optimizer state is sharded"},
                                   {"--profile multi_gpu", "nothing is sharded"}});
    const auto policies = choices(
        settings, "activation_policy",
        {{"--activation_policy all", "nothing is computed twice"},
         {"--activation_policy all_but_gate_up", "the first product of the MLP is computed twice"},
         {"--activation_policy attention", "attention is computed once"},
         {"--activation_policy attention --activation_offloading true",
          "attention is computed once, activations are offloaded"},
         {"--activation_policy input", "blocks keep their input alone"},
         {"--activation_policy input --activation_offloading true",
          "blocks keep their input alone, and it is offloaded"}});
    const bool says_cuts = settings.is_fixed("cp_size") || settings.is_fixed("sp_size");
    std::vector<Suggestion> good;
    for (const int64_t ring : divisors(args_.world))
        for (const int64_t ulysses : divisors(args_.world / ring)) {
            if (says_cuts && ring * ulysses > 1) continue;
            const std::string cut =
                says_cuts ? "" : format_text("--cp_size {} --sp_size {}", ring, ulysses);
            for (const Word& policy : policies)
                for (const Word& profile : profiles) {
                    auto suggestion =
                        try_words(format_text("{}{} {} {}", batch, profile.flag, cut, policy.flag),
                                  both(profile, policy));
                    if (!suggestion) break;
                    good.push_back(*std::move(suggestion));
                }
        }
    return good;
}

}  // namespace ringshard::run
