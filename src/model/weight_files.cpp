#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringshard/base/text.hpp"
#include "ringshard/model/adapters.hpp"
#include "ringshard/model/export_weights.hpp"
#include "safetensors_header.hpp"

namespace ringshard::model {

namespace {

// For sorting names with their numbers by value: layers.2 before layers.10.
std::vector<std::string> natural_key(const TensorEntry& entry) {
    std::vector<std::string> parts = split(entry.name, '.');
    for (std::string& part : parts)
        if (read_whole_number(part)) part.insert(0, 20 - std::min<size_t>(20, part.size()), '0');
    return parts;
}

std::vector<TensorEntry> all_entries(const std::vector<shard::FlatUnit>& units,
                                     const ExportForm& form) {
    std::vector<TensorEntry> entries;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            const bool belongs = form.content == ExportContent::model
                                     ? !tensor.is_adapter
                                     : unit.role() == shard::Role::trained;
            if (belongs) entries.push_back({tensor.spec.name, form.type, tensor.spec.shape});
        }
    std::ranges::sort(entries, {}, natural_key);
    return entries;
}

// One file, in which names have a prefix.
WeightFiles plan_adapter_file(std::vector<TensorEntry> entries) {
    std::ranges::sort(entries, {}, &TensorEntry::name);
    std::vector<TensorEntry> named = entries;
    for (TensorEntry& entry : named) entry.name = name_in_adapter(entry.name);
    WeightFile file{adapter_weights_name, safetensors_header(named), {}};
    auto offset = static_cast<int64_t>(file.header.size());
    for (const TensorEntry& entry : entries) {
        file.offsets[entry.name] = offset;
        offset += num_bytes(entry);
    }
    return {{std::move(file)}, {}};
}

// A file is closed when the next tensor would make it too large. One that is too large by itself
// gets its own, while the open file stays open.
std::vector<std::vector<TensorEntry>> deal(const std::vector<TensorEntry>& entries,
                                           int64_t max_shard_size) {
    std::vector<std::vector<TensorEntry>> files;
    std::vector<TensorEntry> open;
    int64_t bytes = 0;
    for (const TensorEntry& entry : entries) {
        if (num_bytes(entry) > max_shard_size) {
            files.push_back({entry});
            continue;
        }
        if (bytes + num_bytes(entry) > max_shard_size) {
            files.push_back(std::exchange(open, {}));
            bytes = 0;
        }
        open.push_back(entry);
        bytes += num_bytes(entry);
    }
    if (!open.empty()) files.push_back(std::move(open));
    return files;
}

std::string file_name(size_t number, size_t count) {
    if (count == 1) return "model.safetensors";
    std::ostringstream name;
    name << "model-" << std::setfill('0') << std::setw(5) << number + 1 << "-of-" << std::setw(5)
         << count << ".safetensors";
    return name.str();
}

}  // namespace

WeightFiles plan_weight_files(const std::vector<shard::FlatUnit>& units, const ExportForm& form) {
    if (form.content == ExportContent::adapter) return plan_adapter_file(all_entries(units, form));
    auto dealt = deal(all_entries(units, form), form.max_shard_size);
    WeightFiles planned;
    nlohmann::json weight_map;
    int64_t parameters = 0;
    int64_t total_size = 0;
    for (size_t number = 0; number < dealt.size(); ++number) {
        std::vector<TensorEntry>& entries = dealt[number];
        std::ranges::sort(entries, {}, &TensorEntry::name);
        WeightFile file{file_name(number, dealt.size()), safetensors_header(entries), {}};
        auto offset = static_cast<int64_t>(file.header.size());
        for (const TensorEntry& entry : entries) {
            file.offsets[entry.name] = offset;
            offset += num_bytes(entry);
            total_size += num_bytes(entry);
            parameters += num_elements(entry.shape);
            weight_map[entry.name] = file.name;
        }
        planned.files.push_back(std::move(file));
    }
    if (planned.files.size() == 1) return planned;
    const nlohmann::json index{
        {"metadata", {{"total_parameters", parameters}, {"total_size", total_size}}},
        {"weight_map", weight_map}};
    planned.index = index.dump(2) + "\n";
    return planned;
}

}  // namespace ringshard::model
