#include "range_check.hpp"

#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/finite.hpp"

namespace ringshard::checkpoint {

namespace {

constexpr int64_t element_bytes = 4;
constexpr int64_t piece_bytes = int64_t{4} << 20;

std::string digits_of(const XXH128_hash_t& hash) {
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << hash.high64 << std::setw(16)
           << hash.low64;
    return digits.str();
}

Failure damaged(const std::filesystem::path& file, const std::string& dataset,
                const std::string& what) {
    return {ExitCode::bad_data, concat(file.string(), ": ", dataset, " ", what)};
}

// Bytes of a dataset; nothing where sizes are beyond any file.
std::optional<int64_t> bytes_of(const StateFile::Placed& placed) {
    int64_t bytes = element_bytes;
    for (const int64_t size : placed.shape)
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
    return bytes;
}

}  // namespace

std::string hash_of(std::span<const std::byte> bytes) {
    return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::optional<Failure> check_coverage(const std::filesystem::path& file, const StateFile& state,
                                      const std::vector<WrittenRange>& ranges) {
    std::map<std::string, std::map<int64_t, int64_t>> written;  // of a dataset: begin, end
    for (const WrittenRange& range : ranges)
        if (range.length > 0) written[range.dataset][range.offset] = range.offset + range.length;
    std::error_code error;
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(file, error));
    for (const auto& [name, placed] : state.datasets) {
        const auto bytes = bytes_of(placed);
        if (!bytes || placed.offset < 0 || error || placed.offset > file_bytes - *bytes)
            return damaged(file, name, "lies beyond the end of the file");
        int64_t covered_to = placed.offset;
        for (const auto& [begin, end] : written[name]) {
            if (begin != covered_to) break;
            covered_to = end;
        }
        if (covered_to != placed.offset + *bytes)
            return damaged(file, name, "is not covered by the ranges of manifest.json");
    }
    return std::nullopt;
}

std::optional<Failure> check_content(const std::filesystem::path& file,
                                     const std::vector<WrittenRange>& ranges, int first,
                                     int stride) {
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return opened.failure();
    std::vector<float> piece(piece_bytes / element_bytes);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                        XXH3_freeState);
    for (size_t i = static_cast<size_t>(first); i < ranges.size();
         i += static_cast<size_t>(stride)) {
        const WrittenRange& range = ranges[i];
        XXH3_128bits_reset(hash.get());
        bool is_finite = true;
        for (int64_t done = 0; done < range.length;) {
            const auto bytes = static_cast<size_t>(std::min(piece_bytes, range.length - done));
            const auto part = std::as_writable_bytes(std::span(piece)).first(bytes);
            if (auto failure = opened.value().read_at(part, range.offset + done)) return failure;
            XXH3_128bits_update(hash.get(), part.data(), part.size());
            is_finite = is_finite && all_finite(std::span(piece).first(bytes / element_bytes));
            done += static_cast<int64_t>(bytes);
        }
        if (digits_of(XXH3_128bits_digest(hash.get())) != range.hash)
            return damaged(file, range.dataset,
                           concat("is not what was written: the ", range.length,
                                  " bytes from byte ", range.offset, " have another hash"));
        if (!is_finite) return damaged(file, range.dataset, "holds NaN or infinite numbers");
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
