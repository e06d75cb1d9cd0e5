#include "progress_texts.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

constexpr int64_t format_version = 3;
constexpr const char* sums_text = "run_sums";
constexpr const char* learners_text = "learners";

// Format 2 has the position of the only learner in numbers and in the text of its plateau, and
// those of several adapters in a text that the others lack.
constexpr int64_t earlier_version = 2;
constexpr const char* earlier_plateau_text = "plateau";
constexpr const char* earlier_adapters_text = "adapter_places";

json print(const RunSums& sums) {
    return {{"loss", sums.loss}, {"num_losses", sums.num_losses}, {"operations", sums.operations}};
}

json print(const optim::PlateauState& state) {
    return {{"rate", state.rate},
            {"best", state.best ? json(*state.best) : json()},
            {"bad_evaluations", state.bad_evaluations},
            {"cooldown", state.cooldown}};
}

json print(const Progress::OfLearner& learner) {
    json printed = {{"epoch", learner.data.epoch},
                    {"samples_done", learner.data.samples_done},
                    {"num_tokens", learner.num_tokens}};
    if (learner.last_step) printed["last_step"] = *learner.last_step;
    if (learner.sums) printed["sums"] = print(*learner.sums);
    if (learner.plateau) printed["plateau"] = print(*learner.plateau);
    return printed;
}

json field(const json& read, const char* name) {
    return read.is_object() ? read.value(name, json()) : json();
}

// Nothing where it is not what print() makes.
std::optional<RunSums> read_sums(const json& read) {
    const json loss = field(read, "loss");
    const json num_losses = field(read, "num_losses");
    const json operations = field(read, "operations");
    if (!loss.is_number() || !num_losses.is_number_integer() || !operations.is_number())
        return std::nullopt;
    return RunSums{loss.get<double>(), num_losses.get<int64_t>(), operations.get<double>()};
}

// Likewise.
std::optional<optim::PlateauState> read_plateau(const json& read) {
    const json best = field(read, "best");
    if (!field(read, "rate").is_number() || !(best.is_number() || best.is_null()) ||
        !field(read, "bad_evaluations").is_number_integer() ||
        !field(read, "cooldown").is_number_integer())
        return std::nullopt;
    return optim::PlateauState{field(read, "rate").get<double>(),
                               best.is_null() ? std::nullopt : std::optional(best.get<double>()),
                               field(read, "bad_evaluations").get<int64_t>(),
                               field(read, "cooldown").get<int64_t>()};
}

Failure damaged(const std::filesystem::path& file, const std::string& what) {
    return {ExitCode::bad_data, format_text("{}: {}", file.string(), what)};
}

std::optional<Failure> check_numbers(const StateFile& state, std::span<const char* const> names,
                                     const std::filesystem::path& file) {
    for (const char* const name : names) {
        const auto found = state.numbers.find(name);
        if (found == state.numbers.end())
            return damaged(file, format_text("has no whole number {}", name));
        if (found->second < 0)
            return damaged(file, format_text("{} = {}: is below 0", name, found->second));
    }
    return std::nullopt;
}

Expected<Progress::OfLearner> read_learner(const json& read, const char* text,
                                           const std::filesystem::path& file) {
    Progress::OfLearner learner;
    for (const auto& [name, number] : {std::pair{"epoch", &learner.data.epoch},
                                       std::pair{"samples_done", &learner.data.samples_done},
                                       std::pair{"num_tokens", &learner.num_tokens}}) {
        const json found = field(read, name);
        if (!found.is_number_integer() || found.get<int64_t>() < 0)
            return damaged(file, format_text("text {} has no {}", text, name));
        *number = found.get<int64_t>();
    }
    if (read.contains("sums")) learner.sums = read_sums(read["sums"]);
    if (read.contains("plateau")) {
        learner.plateau = read_plateau(read["plateau"]);
        if (!learner.plateau)
            return damaged(file,
                           format_text("text {}: plateau is no state of a learning rate", text));
    }
    if (!read.contains("last_step")) return learner;
    const json last_step = read["last_step"];
    if (!last_step.is_number_integer() || last_step.get<int64_t>() < 1)
        return damaged(file, format_text("text {}: last_step is no step", text));
    learner.last_step = last_step.get<int64_t>();
    return learner;
}

Expected<std::vector<Progress::OfLearner>> read_learners(const StateFile& state, const char* text,
                                                         const std::filesystem::path& file) {
    const auto found = state.texts.find(text);
    const auto read = found == state.texts.end() ? json() : json_or_null<json>(found->second);
    if (!read.is_array() || read.empty())
        return damaged(file, format_text("text {} is no list", text));
    std::vector<Progress::OfLearner> learners;
    for (const json& one : read) {
        auto learner = read_learner(one, text, file);
        if (!learner) return learner.failure();
        learners.push_back(std::move(learner).value());
    }
    return learners;
}

Expected<std::vector<Progress::OfLearner>> read_earlier_learners(
    const StateFile& state, const std::optional<RunSums>& sums, const std::filesystem::path& file) {
    if (state.texts.contains(earlier_adapters_text))
        return read_learners(state, earlier_adapters_text, file);
    constexpr std::array names{"epoch", "samples_done", "num_tokens"};
    if (auto failure = check_numbers(state, names, file)) return *failure;
    Progress::OfLearner only{{state.numbers.at("epoch"), state.numbers.at("samples_done")},
                             state.numbers.at("num_tokens"),
                             std::nullopt,
                             sums};
    if (const auto plateau = state.texts.find(earlier_plateau_text); plateau != state.texts.end()) {
        only.plateau = read_plateau(json_or_null<json>(plateau->second));
        if (!only.plateau)
            return damaged(
                file, format_text("text {} is no state of a learning rate", earlier_plateau_text));
    }
    return std::vector{only};
}

}  // namespace

std::map<std::string, int64_t> numbers_of(const Progress& progress) {
    return {{"format_version", format_version},
            {"step", progress.step},
            {"num_tokens", progress.num_tokens()}};
}

std::map<std::string, std::string> texts_of(const Progress& progress) {
    json learners = json::array();
    for (const Progress::OfLearner& learner : progress.learners) learners.push_back(print(learner));
    std::map<std::string, std::string> texts{{learners_text, learners.dump()}};
    if (progress.sums) texts[sums_text] = print(*progress.sums).dump();
    return texts;
}

Expected<Progress> read_progress(const StateFile& state, const std::filesystem::path& file) {
    constexpr std::array names{"format_version", "step"};
    if (auto failure = check_numbers(state, names, file)) return *failure;
    const int64_t version = state.numbers.at("format_version");
    if (version != format_version && version != earlier_version)
        return damaged(
            file, format_text("is of format version {}, and this program reads {} and {}", version,
                              earlier_version, format_version));
    Progress progress{state.numbers.at("step")};
    if (const auto sums = state.texts.find(sums_text); sums != state.texts.end())
        progress.sums = read_sums(json_or_null<json>(sums->second));
    auto learners = version == format_version ? read_learners(state, learners_text, file)
                                              : read_earlier_learners(state, progress.sums, file);
    if (!learners) return learners.failure();
    progress.learners = std::move(learners).value();
    return progress;
}

}  // namespace ringshard::checkpoint
