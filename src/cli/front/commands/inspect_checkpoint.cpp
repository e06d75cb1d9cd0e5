#include "inspect_checkpoint.hpp"

#include <algorithm>
#include <iostream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/frozen_weights.hpp"
#include "ringshard/checkpoint/survey.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using checkpoint::FrozenWeights;
using checkpoint::Survey;
using text::Value;

std::string name_of(checkpoint::ElementType type) {
    if (type == checkpoint::ElementType::u8) return "u8";
    return type == checkpoint::ElementType::bf16 ? "bf16" : "fp32";
}

Value shape_value(const std::vector<int64_t>& sizes) {
    Value::List shape;
    for (const int64_t size : sizes) shape.emplace_back(size);
    return Value(std::move(shape));
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
    std::vector<std::string> shape;
    for (const int64_t size : sizes) shape.push_back(concat(size));
    return join(shape, " x ");
}

Value to_value(const FrozenWeights& frozen) {
    Value::Object tensors;
    for (const auto& [name, tensor] : frozen.tensors)
        tensors.emplace_back(name, Value(Value::Object{{"shape", shape_value(tensor.shape)},
                                                       {"hash", Value(tensor.hash)}}));
    return Value(
        Value::Object{{"base", Value(frozen.base)}, {"tensors", Value(std::move(tensors))}});
}

// Returns the files of which only the size is known.
std::vector<std::string> not_covered(const checkpoint::Manifest& manifest) {
    std::vector<std::string> names;
    for (const auto& [name, size] : manifest.file_sizes)
        if (!name.ends_with(".h5") && !manifest.file_hashes.contains(name)) names.push_back(name);
    return names;
}

Value to_value(const Survey& survey, const FrozenWeights& frozen) {
    Value::Object files;
    for (const auto& [name, size] : survey.manifest.file_sizes) files.emplace_back(name, size);
    Value::Object numbers;
    for (const auto& [name, number] : survey.state.numbers) numbers.emplace_back(name, number);
    Value::Object datasets;
    for (const auto& [name, placed] : survey.state.datasets) {
        datasets.emplace_back(name, Value(Value::Object{{"shape", shape_value(placed.shape)},
                                                        {"type", Value(name_of(placed.type))}}));
    }
    return Value(Value::Object{{"step", Value(survey.manifest.step)},
                               {"attempt", Value(survey.manifest.attempt)},
                               {"whole", Value(true)},
                               {"has_moments", Value(survey.manifest.has_moments)},
                               {"numbers", Value(std::move(numbers))},
                               {"files", Value(std::move(files))},
                               {"not_compared", text::to_list(not_covered(survey.manifest))},
                               {"datasets", Value(std::move(datasets))},
                               {"frozen", to_value(frozen)}});
}

std::string for_people(const fs::path& folder, const Survey& survey, const FrozenWeights& frozen) {
    std::string out = format_text("{}: step {} of attempt {}\n", folder.filename().string(),
                                  survey.manifest.step, survey.manifest.attempt);
    for (const auto& [name, number] : survey.state.numbers)
        if (name != "step" && name != "attempt") out += format_text("  {} {}\n", name, number);
    for (const auto& [name, size] : survey.manifest.file_sizes)
        out += format_text("  {}  {}\n", name, human_bytes(static_cast<double>(size)));
    for (const auto& [name, placed] : survey.state.datasets) {
        out += format_text("  {}  {}  {}\n", name, sizes_text(placed.shape), name_of(placed.type));
    }
    for (const auto& [name, tensor] : frozen.tensors)
        out +=
            format_text("  {}  {}  frozen, hash {}\n", name, sizes_text(tensor.shape), tensor.hash);
    if (!frozen.tensors.empty())
        out += format_text("{} frozen tensors, which are not in the checkpoint, of {}\n",
                           frozen.tensors.size(), frozen.base);
    out += format_text("{} tensors in {} ranges; every byte is what was written\n",
                       survey.state.datasets.size(), survey.manifest.ranges.size());
    std::vector<std::string> others;
    for (const auto& [name, hash] : survey.manifest.file_hashes) others.push_back(name);
    if (!others.empty()) out += format_text("as it was written, too: {}\n", join(others, ", "));
    if (const auto unknown = not_covered(survey.manifest); !unknown.empty())
        out += format_text("not compared, since the manifest has no hash of it: {}\n",
                           join(unknown, ", "));
    return out;
}

}  // namespace

bool is_run(const fs::path& folder) {
    std::error_code ignored;
    return std::ranges::any_of(folder_entries(folder, ignored), [](const fs::path& entry) {
        return entry.filename().string().starts_with("checkpoint-");
    });
}

int inspect_checkpoint(const fs::path& folder, bool as_json) {
    const fs::path named = without_slash(folder);
    const auto found = checkpoint::survey(named);
    if (!found) return report_failure(found.failure());
    const auto frozen = frozen_weights_of(found.value().state, named.string());
    if (!frozen) return report_failure(frozen.failure());
    if (as_json)
        std::cout << to_json(to_value(found.value(), frozen.value())) << '\n';
    else
        std::cout << for_people(named, found.value(), frozen.value());
    return number(ExitCode::done);
}

int inspect_run(const fs::path& output_dir, bool as_json) {
    std::vector<std::string> damaged;
    const auto valid = checkpoint::valid_checkpoints(output_dir, damaged);
    if (!valid) return report_failure(valid.failure());
    Value::List lines;
    int64_t num_good = 0;
    for (const checkpoint::CheckpointEntry& entry : valid.value()) {
        const auto found = checkpoint::survey(entry.folder);
        if (!found) damaged.push_back(found.failure().message);
        if (!found) continue;
        ++num_good;
        lines.emplace_back(Value::Object{{"checkpoint", Value(entry.folder.filename().string())},
                                         {"step", Value(entry.step)},
                                         {"attempt", Value(entry.attempt)},
                                         {"has_moments", Value(entry.has_moments)}});
        if (!as_json)
            std::cout << format_text("{}  whole, of attempt {}{}\n",
                                     entry.folder.filename().string(), entry.attempt,
                                     entry.has_moments ? "" : ", weights alone (save_only_model)");
    }
    Value::List bad;
    for (const std::string& message : damaged) {
        bad.emplace_back(message);
        if (!as_json) std::cout << "damaged: " << message << '\n';
    }
    if (as_json)
        std::cout << to_json(Value(Value::Object{{"checkpoints", Value(std::move(lines))},
                                                 {"damaged", Value(std::move(bad))}}))
                  << '\n';
    if (num_good > 0) return number(ExitCode::done);
    return report_failure({ExitCode::bad_data, format_text("{}: no checkpoint of this run is good",
                                                           output_dir.string())});
}

}  // namespace ringshard::cli
