#include "ringshard/data/show_rows.hpp"

#include "inputs.hpp"
#include "ringshard/data/row_mapping.hpp"
#include "row_file.hpp"

namespace ringshard::data {

namespace {

std::vector<std::string> columns_of(const Preparation& preparation, const RowMapping& mapping) {
    std::vector<std::string> columns = mapping.template_columns();
    if (mapping.row_template == nullptr) columns = known_columns(preparation.format);
    for (const auto& [ours, theirs] : mapping.column_map) columns.push_back(theirs);
    return columns;
}

void take_out_empty(text::Value& row) {
    std::erase_if(*row.object(), [](const auto& column) { return column.second.is_null(); });
}

// Adds rows of a file until there are `wanted`.
std::optional<Failure> add_rows(const InputFile& input, const RowMapping& mapping,
                                const std::vector<std::string>& columns, size_t wanted,
                                std::vector<ShownRow>& shown) {
    const auto file = open_row_file(input.name, {.wanted = columns, .text = input.text});
    if (!file) return file.failure();
    const RowFile& rows = *file.value();
    int64_t before = 0;
    for (int64_t block = 0; block < rows.num_blocks(); ++block)
        for (int64_t part = 0; part < rows.num_parts(block) && shown.size() < wanted; ++part) {
            const auto use = [&](int64_t row, Expected<text::Value> content) {
                if (shown.size() == wanted) return;
                ShownRow one{rows.place(before + row), {}, {}};
                if (content) {
                    auto after = map_row(content.value(), mapping);
                    one.before = std::move(content).value();
                    take_out_empty(one.before);
                    if (after)
                        one.after = std::move(after).value();
                    else
                        one.wrong = after.failure().message;
                } else {
                    one.wrong = content.failure().message;
                }
                shown.push_back(std::move(one));
            };
            const auto read = rows.read({block, part}, use);
            if (!read) return read.failure();
            before += read.value();
        }
    return std::nullopt;
}

}  // namespace

comm::Agreed<std::vector<ShownRow>> show_rows(const Preparation& preparation, const HubCache& hub,
                                              const comm::Group& group, int64_t rows_of_each) {
    std::vector<std::string> warnings;
    const auto inputs = find_inputs(preparation, hub, group, warnings);
    if (!inputs) return inputs.failure();
    std::vector<ShownRow> shown;
    std::optional<Failure> failure;
    for (size_t source = 0; source < preparation.sources.size() && group.is_root(); ++source) {
        const RowMapping& mapping = preparation.sources[source].mapping;
        const size_t wanted = shown.size() + static_cast<size_t>(rows_of_each);
        for (const InputFile& file : inputs.value().files)
            if (file.source == source && shown.size() < wanted && !failure)
                failure = add_rows(file, mapping, columns_of(preparation, mapping), wanted, shown);
    }
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    return shown;
}

}  // namespace ringshard::data
