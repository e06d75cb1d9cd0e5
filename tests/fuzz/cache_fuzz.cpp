// libFuzzer: prepared data. The heads of the two files are whole, the arrays hold anything: what is
// no plan of rows is refused, and no row reaches outside the arrays.
#include <algorithm>
#include <span>

#include "fuzz_folder.hpp"
#include "ringshard/data/rows.hpp"

namespace {

using namespace ringshard;

struct Array {
    std::string name;
    std::vector<uint8_t> bytes;
};

std::filesystem::path write_arrays(const test::FuzzFolder& folder, const std::string& name,
                                   const std::vector<Array>& arrays) {
    const auto file = folder.path() / name;
    std::filesystem::remove(file);
    std::vector<data::ArrayPlace> places;
    for (const Array& array : arrays) places.push_back({array.name, array.bytes.size(), 0});
    // The writer plans the places by itself; reading them back tells where they are.
    auto writer = data::ArrayFileWriter::open(file, "{}", places, true);
    for (const Array& array : arrays)
        if (writer && !array.bytes.empty())
            (void)writer.value().write(array.name, 0, std::as_bytes(std::span(array.bytes)));
    return file;
}

// Takes bytes from the beginning of the input, as many as its last byte says, and that byte.
std::vector<uint8_t> take_bytes(std::span<const uint8_t>& input) {
    if (input.empty()) return {};
    const size_t wanted = input.back();
    input = input.first(input.size() - 1);
    const auto bytes = input.first(std::min(wanted, input.size()));
    input = input.subspan(bytes.size());
    return {bytes.begin(), bytes.end()};
}

}  // namespace

int try_reader(const uint8_t* data, size_t size) {
    static const test::FuzzFolder folder;
    std::span input(data, size);
    const auto take = [&](const char* name) { return Array{name, take_bytes(input)}; };
    const auto store = write_arrays(folder, "tokens",
                                    {take("tokens"), take("labels"), take("samples"),
                                     take("document_ends"), take("document_lengths")});
    const auto plan = write_arrays(folder, "rows", {take("row_starts"), take("pieces")});
    const auto rows = data::Rows::map(store, plan);
    if (!rows) return 0;
    const data::TokenStore& tokens = rows.value().store();
    try {
        for (int64_t sample = 0; sample < std::min<int64_t>(tokens.size(), 8); ++sample) {
            (void)tokens.length(sample);
            (void)tokens.documents(sample);
        }
        for (int64_t row = 0; row < std::min<int64_t>(rows.value().size(), 8); ++row) {
            data::FlatBatch batch;
            rows.value().append(row, batch);
        }
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_data) throw;
    }
    return 0;
}
