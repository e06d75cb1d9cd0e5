// libFuzzer: a table or a text. The first byte says which; every row is read, and counted.
#include "fuzz_folder.hpp"
#include "row_file.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    std::string_view content = test::text_of(data, size);
    if (content.empty()) return 0;
    const char kind = content.front();
    content.remove_prefix(1);
    const data::RowFileSettings settings{.wanted = {"text"},
                                         .text = kind == 'c'   ? data::TextKind::csv
                                                 : kind == 't' ? data::TextKind::tsv
                                                               : data::TextKind::lines};
    const auto opened = data::open_row_file(folder.write("table", content), settings);
    if (!opened) return 0;
    const data::RowFile& rows = *opened.value();
    for (int64_t block = 0; block < rows.num_blocks(); ++block) {
        int64_t used = 0;
        const auto read = rows.read({block, 0}, [&](int64_t row, const Expected<text::Value>&) {
            (void)rows.place(row);
            ++used;
        });
        const auto count = rows.count({block, 0});
        RINGSHARD_CHECK(read.operator bool() == count.operator bool());
        if (!read) return 0;
        RINGSHARD_CHECK(count.value().places == read.value() && count.value().rows == used);
    }
    return 0;
}
