#include <algorithm>

#include "resolver.hpp"
#include "value_text.hpp"

// Values that only other programs have, and what is taken in their place.
namespace ringshard::config {

namespace {

// Trackers of transformers whose files are not written here: the words of report_to that are left
// out.
const std::vector<std::string>& other_trackers() {
    static const std::vector<std::string> names{"azure_ml", "clearml", "codecarbon", "comet",
                                                "comet_ml", "dagshub", "dvclive",    "flyte",
                                                "kubeflow", "neptune", "swanlab"};
    return names;
}

// Returns the rule that a word of a list breaks.
std::string unknown_word(const Option& option, const std::string& word) {
    std::vector<std::string> known = option.kept_words;
    known.insert(known.end(), other_trackers().begin(), other_trackers().end());
    const std::string nearest = nearest_name(lower_case(word), known);
    return format_text("{} is none of {}{}", word, join(known, ", "),
                       nearest.empty() ? "" : format_text("; did you mean {}?", nearest));
}

}  // namespace

bool Resolver::asks_for_nothing(const Option& option, const std::string& value) {
    return same_meaning(option.shape, value, option.default_text) || is_null(value) ||
           std::ranges::any_of(option.harmless_values, [&](const std::string& harmless) {
               return same_meaning(option.shape, value, harmless);
           });
}

// Returns the text with the values of this program.
std::string Resolver::take_replacements(const Option& option, const std::string& text,
                                        const Statement& statement) {
    const auto found = option.replacements.find(lower_with_underscores(text));
    if (found != option.replacements.end()) {
        replaced_.push_back({&option, statement, found->second.note});
        return found->second.value;
    }
    std::vector<std::string> words;
    if (option.kept_words.empty() || read_value(text, words)) return text;
    std::vector<std::string> kept;
    const auto is_among = [](const std::vector<std::string>& list, const std::string& word) {
        return std::ranges::find(list, lower_case(word)) != list.end();
    };
    for (const std::string& word : words) {
        if (is_among(option.kept_words, word))
            kept.push_back(word);
        else if (!is_among(other_trackers(), word))
            result_.problems.push_back(complaint(statement, unknown_word(option, word)));
    }
    if (kept.size() == words.size()) return text;
    replaced_.push_back({&option, statement, option.reason});
    return write_value(kept);
}

// `bf16: false` beside `fp16: true` says that the run is in fp16: it chooses no precision itself.
void Resolver::drop_bf16_beside_fp16() {
    const auto is_fp16 = [](const Assignment& assignment) {
        return assignment.option->name == "mixed_precision" &&
               assignment.statement.name.starts_with("fp16");
    };
    if (std::ranges::none_of(assignments_, is_fp16)) return;
    std::erase_if(assignments_, [](const Assignment& assignment) {
        return assignment.statement.name.starts_with("bf16") && assignment.text == "no";
    });
}

// Prints a note, which with strict_launch is a refusal.
void Resolver::say_or_refuse(const Statement& statement, const std::string& note) {
    if (result_.settings.values.parallel.strict_launch)
        return result_.problems.push_back(
            complaint(statement, format_text("{} (strict_launch = true refuses it)", note)));
    const std::string line = format_text("{} = {} [{}]: {}", statement.name, statement.text,
                                         statement.origin.place, note);
    if (std::ranges::find(result_.notes, line) == result_.notes.end())
        result_.notes.push_back(line);
}

void Resolver::report_replacements() {
    for (const Replaced& replaced : replaced_) {
        const Assignment* strongest_one = strongest(replaced.option->name);
        if (strongest_one != nullptr && strongest_one->statement.name == replaced.statement.name &&
            strongest_one->statement.origin.place == replaced.statement.origin.place)
            say_or_refuse(replaced.statement, replaced.note);
    }
    for (const Assignment& assignment : assignments_) {
        const Option& option = *assignment.option;
        const bool counts = option.is_replaced && strongest(option.name) == &assignment;
        if (!counts || asks_for_nothing(option, assignment.text)) continue;
        if (option.shape == Shape::integer && !read_whole_number(assignment.text))
            result_.problems.push_back(complaint(assignment.statement, "must be a whole number"));
        else
            say_or_refuse(assignment.statement, option.reason);
    }
}

// The ranks that would split layers or the list of layers (tp_size, pp_size) shard the model:
// dp_shard_size grows by them, and a layout without a family of settings is FSDP.
void Resolver::shard_over_ranks_of_other_splits() {
    Settings& settings = result_.settings;
    for (const char* name : {"tp_size", "pp_size"}) {
        const Assignment* split = strongest(name);
        const auto ranks = split != nullptr ? read_whole_number(split->text) : std::nullopt;
        if (ranks.value_or(1) <= 1) continue;
        ParallelSettings& parallel = settings.values.parallel;
        const Origin origin = split->statement.origin;
        const auto give = [&](const char* setting, const std::string& text) {
            if (table_.find(setting)->read(text, settings.values)) return;
            settings.given[setting] = {text, origin};
        };
        if (parallel.dp_shard_size)
            give("dp_shard_size", write_value(*parallel.dp_shard_size * *ranks));
        if (!settings.given.contains("distributed_type")) give("distributed_type", "FSDP");
    }
}

}  // namespace ringshard::config
