#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ringshard/base/text.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

namespace {

// For sorting names with their numbers by value: layers.2 before layers.10.
std::vector<std::string> natural_key(const std::string& name) {
    std::vector<std::string> parts = split(name, '.');
    for (std::string& part : parts)
        if (read_whole_number(part)) part.insert(0, 20 - std::min<size_t>(20, part.size()), '0');
    return parts;
}

// A tensor of the units, or one that passes through.
struct Entry {
    TensorEntry written;
    std::string name;  // in the units, or in the files that it comes from
    bool passes_through = false;
};

std::vector<Entry> entries_of_adapter(const std::vector<shard::FlatUnit>& units,
                                      const ExportForm& form) {
    std::vector<Entry> entries;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors())
            if (auto found = form.adapter->in_file(unit, tensor))
                entries.push_back(
                    {{std::move(found->name), form.type_of(unit), std::move(found->shape)},
                     tensor.spec.name});
    return entries;
}

std::vector<Entry> entries_of_model(const std::vector<shard::FlatUnit>& units,
                                    const ExportForm& form) {
    std::vector<Entry> entries;
    for (const shard::FlatUnit& unit : units)
        for (const shard::PlacedTensor& tensor : unit.tensors()) {
            const std::string& name = tensor.spec.name;
            if (tensor.begins_before || tensor.is_made_by_run) continue;
            entries.push_back({{form.wrapped == nullptr ? name : form.wrapped->stored_name(name),
                                form.type_of(unit), tensor.spec.shape},
                               name});
        }
    if (form.wrapped == nullptr) return entries;
    for (const auto& [name, tensor] : form.wrapped->stored().others())
        entries.push_back({{name, tensor.type, tensor.shape}, name, true});
    return entries;
}

// The file of these tensors, in the order of their names. Constants stand before them, and are
// written with the header.
WeightFile plan_file(std::string name, std::vector<Entry> entries, const ExportForm& form,
                     const std::vector<model::Constant>& constants) {
    std::ranges::sort(entries, {}, [](const Entry& entry) { return entry.written.name; });
    std::vector<TensorEntry> written;
    std::string bytes;
    for (const auto& [constant, value] : constants) {
        written.push_back({constant, form.type, {}});
        for (const std::byte byte : from_fp32(form.type, std::span(&value, 1)))
            bytes.push_back(static_cast<char>(byte));
    }
    for (const Entry& entry : entries) written.push_back(entry.written);
    WeightFile file{std::move(name), safetensors_header(written) + bytes, {}, {}};
    auto offset = static_cast<int64_t>(file.header.size());
    for (const Entry& entry : entries) {
        (entry.passes_through ? file.others : file.offsets)[entry.name] = offset;
        offset += num_bytes(entry.written);
    }
    return file;
}

// A file is closed when the next tensor would make it too large. One that is too large by itself
// gets its own, while the open file stays open.
std::vector<std::vector<Entry>> deal(const std::vector<Entry>& entries, int64_t max_shard_size) {
    std::vector<std::vector<Entry>> files;
    std::vector<Entry> open;
    int64_t bytes = 0;
    for (const Entry& entry : entries) {
        const int64_t of_entry = num_bytes(entry.written);
        if (of_entry > max_shard_size) {
            files.push_back({entry});
            continue;
        }
        if (bytes + of_entry > max_shard_size) {
            files.push_back(std::exchange(open, {}));
            bytes = 0;
        }
        open.push_back(entry);
        bytes += of_entry;
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
    if (form.adapter)
        return {{plan_file(adapter_weights_name, entries_of_adapter(units, form), form, {})}, {}};
    std::vector<Entry> entries = entries_of_model(units, form);
    std::ranges::sort(entries, {},
                      [](const Entry& entry) { return natural_key(entry.written.name); });
    auto dealt = deal(entries, form.max_shard_size);
    WeightFiles planned;
    nlohmann::json weight_map;
    int64_t parameters = 0;
    int64_t total_size = 0;
    for (size_t number = 0; number < dealt.size(); ++number) {
        const std::string name = file_name(number, dealt.size());
        for (const Entry& entry : dealt[number]) {
            total_size += num_bytes(entry.written);
            parameters += num_elements(entry.written.shape);
            weight_map[entry.written.name] = name;
        }
        const bool is_first = number == 0;
        planned.files.push_back(
            plan_file(name, std::move(dealt[number]), form,
                      is_first ? form.constants : std::vector<model::Constant>()));
    }
    for (const model::Constant& constant : form.constants) {
        total_size += num_bytes({constant.name, form.type, {}});
        weight_map[constant.name] = planned.files.front().name;
    }
    if (planned.files.size() == 1) return planned;
    const nlohmann::json index{
        {"metadata", {{"total_parameters", parameters}, {"total_size", total_size}}},
        {"weight_map", weight_map}};
    planned.index = index.dump(2) + "\n";
    return planned;
}

}  // namespace ringshard::hub
