#include "inputs.hpp"

namespace ringshard::data {

namespace {

namespace fs = std::filesystem;
using text::Value;

TextKind text_kind(const fs::path& file, const Preparation& preparation,
                   const std::string& format) {
    TextKind kind = text_kind_of(file);
    if (format == "csv" && kind != TextKind::tsv) kind = TextKind::csv;
    if (format == "text" || kind == TextKind::lines)
        kind = preparation.documents ? TextKind::document : TextKind::lines;
    return kind;
}

// Formats "dataset_name = DATA: split 'train[:10%]'".
std::string shown_split(const DatasetName& dataset) {
    return format_text("{} = {}: split '{}'", dataset.setting, shown_name(dataset), dataset.split);
}

// Finds the files of a source, slice by slice. Adds entries to `found`: name, number of the source,
// number of the slice.
std::optional<Failure> find_files_of(const DatasetName& dataset, size_t source, size_t& num_slices,
                                     const HubCache& hub, std::vector<std::string>& warnings,
                                     Value::List& found) {
    const auto slices = read_splits(dataset.split);
    if (!slices)
        return Failure{slices.failure().code,
                       format_text("{}: {}", shown_split(dataset), slices.failure().message)};
    for (const SplitSlice& slice : slices.value()) {
        DatasetName one = dataset;
        one.split = slice.split;
        const auto files = find_dataset_files(one, hub, warnings);
        if (!files) return files.failure();
        for (const fs::path& file : files.value())
            found.emplace_back(Value::List{Value(file.string()),
                                           Value(static_cast<int64_t>(source)),
                                           Value(static_cast<int64_t>(num_slices))});
        ++num_slices;
    }
    return std::nullopt;
}

}  // namespace

comm::Agreed<Inputs> find_inputs(const Preparation& preparation, const HubCache& hub,
                                 const comm::Group& group, std::vector<std::string>& warnings) {
    std::optional<Failure> failure;
    Value::List found;
    size_t num_slices = 0;
    for (size_t i = 0; i < preparation.sources.size() && group.is_root() && !failure; ++i)
        failure =
            find_files_of(preparation.sources[i].dataset, i, num_slices, hub, warnings, found);
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    const auto list = text::read_json(group.broadcast(to_json(Value(std::move(found)))));
    Inputs inputs;
    for (const Source& source : preparation.sources) {
        const auto slices = read_splits(source.dataset.split);
        for (const SplitSlice& slice : slices.value())
            inputs.slices.push_back({slice, shown_split(source.dataset)});
    }
    for (const Value& entry : *list.value().list()) {
        const Value::List& members = *entry.list();
        const fs::path name = *members[0].string();
        const auto source = static_cast<size_t>(*members[1].integer());
        inputs.files.push_back(
            {.name = name,
             .plain = name,
             .source = source,
             .slice = static_cast<size_t>(*members[2].integer()),
             .text = text_kind(name, preparation, preparation.sources[source].dataset.format)});
    }
    return inputs;
}

}  // namespace ringshard::data
