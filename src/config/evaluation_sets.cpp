#include "ringshard/config/evaluation_sets.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"

namespace ringshard::config {

namespace {

// A name becomes part of keys in metrics.jsonl and of tags in TensorBoard.
bool is_name(const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
}

}  // namespace

Expected<std::vector<EvaluationSet>> evaluation_sets(const std::string& eval_dataset_name) {
    const std::string text(trim(eval_dataset_name));
    if (text.empty()) return std::vector<EvaluationSet>();
    if (!text.starts_with('{')) return std::vector<EvaluationSet>{{"", eval_dataset_name}};
    const auto refuse = [&](const std::string& rule) {
        return Failure{ExitCode::settings,
                       format_text("eval_dataset_name = {}: {}", eval_dataset_name, rule)};
    };
    const auto mapping = parse_json<nlohmann::ordered_json>(text);
    if (!mapping || !mapping.value().is_object() || mapping.value().empty())
        return refuse(
            "must be a dataset, or a mapping from names to datasets such as {\"easy\": "
            "\"easy.jsonl\", \"hard\": \"hard.jsonl\"}");
    std::vector<EvaluationSet> sets;
    for (const auto& [name, dataset] : mapping.value().items()) {
        if (!is_name(name))
            return refuse(format_text(
                "the name '{}' becomes a part of eval_<name>_loss: letters, digits, '_', '-' and "
                "'.' are allowed",
                name));
        if (!dataset.is_string())
            return refuse(format_text(
                "{} must be a file, a folder, a glob or the name of a hub dataset", name));
        sets.push_back({name, dataset.get<std::string>()});
    }
    return sets;
}

}  // namespace ringshard::config
