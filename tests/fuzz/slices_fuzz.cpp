// libFuzzer: a sum of slices, and after a zero byte a row of JSON that is mapped. A slice lies
// within its split, and is the same when it is written and read again.
#include <algorithm>

#include "fuzz_folder.hpp"
#include "ringshard/data/left_aside.hpp"
#include "ringshard/data/row_mapping.hpp"
#include "split_slice.hpp"

namespace {

using namespace ringshard;
using namespace ringshard::data;

void try_slices(const std::string& text) {
    const auto slices = read_splits(text);
    if (!slices) return;
    for (const SplitSlice& slice : slices.value()) {
        const auto again = read_splits(to_text(slice));
        RINGSHARD_CHECK(again && again.value().size() == 1);
        for (const int64_t rows : {0, 1, 99, 100, 12'345'678}) {
            const auto range = rows_of(slice, rows);
            if (!range) continue;
            RINGSHARD_CHECK(range.value().begin >= 0 && range.value().begin <= rows);
            RINGSHARD_CHECK(range.value().end >= 0 && range.value().end <= rows);
            RINGSHARD_CHECK(rows_of(again.value().front(), rows).value() == range.value());
        }
    }
}

void try_row(std::string_view json) {
    auto row = text::read_json(json);
    if (!row || row.value().object() == nullptr) return;
    const RowMapping mapping{.column_map = {{"messages", "conversations"}, {"tools", "images"}},
                             .role_key = "from",
                             .content_key = "value",
                             .roles = {{"user", "human"}}};
    auto mapped = map_row(std::move(row).value(), mapping);
    if (!mapped) return;
    std::vector<Unused> unused;
    for (auto& [name, value] : *mapped.value().object())
        if (name == "messages" && value.list() != nullptr)
            RINGSHARD_CHECK(!take_text(value, true, unused));
}

}  // namespace

int try_reader(const uint8_t* data, size_t size) {
    const std::string_view content = test::text_of(data, size);
    const size_t end = std::min(content.size(), content.find('\0'));
    try_slices(std::string(content.substr(0, end)));
    if (end < content.size()) try_row(content.substr(end + 1));
    return 0;
}
