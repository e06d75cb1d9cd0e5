// libFuzzer: a dataset in JSON, one object per line or one list. Every row is read, whatever the
// file holds, and its place is known.
#include "fuzz_folder.hpp"
#include "row_file.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    const std::string_view content = test::text_of(data, size);
    // Parquet and Arrow are read by Arrow's library.
    if (content.starts_with("PAR1") || content.starts_with("ARROW1") ||
        content.starts_with("\xff\xff\xff\xff"))
        return 0;
    const auto opened =
        data::open_row_file(folder.write("rows.json", content), {.wanted = {"text"}});
    if (!opened) return 0;
    const data::RowFile& rows = *opened.value();
    for (int64_t block = 0; block < rows.num_blocks(); ++block) {
        const auto read = rows.read(
            {block, 0}, [&](int64_t row, const Expected<text::Value>&) { (void)rows.place(row); });
        if (!read) return 0;
        RINGSHARD_CHECK(rows.count({block, 0}).value().places == read.value());
    }
    return 0;
}
