// libFuzzer: prepared data. The heads of the two files are whole, the arrays hold anything: invalid
// plans of rows are refused, and no row reaches outside the arrays or the vocabulary.
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
    std::vector<data::NamedBytes> contents;
    for (const Array& array : arrays)
        contents.push_back({array.name, std::as_bytes(std::span(array.bytes))});
    (void)data::write_array_file(file, R"({"largest_token": 1000})", contents);
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
            for (const int64_t token : batch.tokens) RINGSHARD_CHECK(token >= 0 && token <= 1000);
            for (const int64_t target : batch.targets)
                RINGSHARD_CHECK(target == data::no_label || (target >= 0 && target <= 1000));
        }
    } catch (const Error& error) {
        if (error.code() != ExitCode::bad_data) throw;
    }
    return 0;
}
