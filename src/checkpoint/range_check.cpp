#include "range_check.hpp"

#include <fcntl.h>

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/finite.hpp"
#include "ringshard/base/hash.hpp"
#include "ringshard/base/shared_file.hpp"

namespace ringshard::checkpoint {

namespace {

constexpr int64_t piece_bytes = int64_t{4} << 20;

Failure damaged(const std::filesystem::path& file, const std::string& dataset,
                const std::string& what) {
    return {ExitCode::bad_data, format_text("{}: {} {}", file.string(), dataset, what)};
}

}  // namespace

Hash::Hash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

void Hash::add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Hash::digits() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    std::ostringstream digits;
    digits << std::hex << std::setfill('0') << std::setw(16) << hash.high64 << std::setw(16)
           << hash.low64;
    return digits.str();
}

bool are_finite(std::span<const std::byte> bytes, ElementType type) {
    if (type == ElementType::u8) return true;  // every code stands for a number
    if (type == ElementType::bf16)
        return all_finite(std::span(reinterpret_cast<const uint16_t*>(bytes.data()),
                                    bytes.size() / sizeof(uint16_t)));
    return all_finite(
        std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)));
}

namespace {

std::optional<Failure> check_dataset(const Manifest& manifest, const std::filesystem::path& file,
                                     const std::string& name, const StateFile::Placed& placed,
                                     const std::map<int64_t, const WrittenRange*>& written) {
    const auto bytes = bytes_of(placed);
    if (!bytes) return damaged(file, name, "has sizes beyond any file");
    const int64_t element = bytes_of(placed.type);
    const Failure is_not_covered =
        damaged(file, name, "is not covered by the ranges of manifest.json");
    int64_t covered_to = 0;  // element
    for (const auto& [first, range] : written) {
        const auto size = manifest.file_sizes.find(range->file);
        const bool is_inside = size != manifest.file_sizes.end() && range->offset >= 0 &&
                               range->offset <= size->second - range->length;
        if (!is_inside) return damaged(file, name, "lies beyond the end of " + range->file);
        if (first != covered_to || range->length % element != 0) return is_not_covered;
        const bool is_in_place =
            placed.offset == StateFile::elsewhere ||
            (range->file == file.filename() && range->offset - first * element == placed.offset);
        if (!is_in_place) return damaged(file, name, "is not where manifest.json has it");
        covered_to += range->length / element;
    }
    if (covered_to * element != *bytes) return is_not_covered;
    return std::nullopt;
}

}  // namespace

std::optional<Failure> check_coverage(const std::filesystem::path& file, const StateFile& state,
                                      const Manifest& manifest) {
    std::map<std::string, std::map<int64_t, const WrittenRange*>> written;
    for (const WrittenRange& range : manifest.ranges) {
        if (!state.datasets.contains(range.dataset))
            return damaged(file, range.dataset, "is missing, and manifest.json has it");
        if (range.length > 0) written[range.dataset][range.first] = &range;
    }
    for (const auto& [name, placed] : state.datasets)
        if (auto failure = check_dataset(manifest, file, name, placed, written[name]))
            return failure;
    return std::nullopt;
}

Expected<std::string> metadata_hash(const std::filesystem::path& file,
                                    const std::vector<WrittenRange>& ranges) {
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(file, error));
    std::map<int64_t, int64_t> written;  // length by begin
    for (const WrittenRange& range : ranges) {
        if (range.file != file.filename() || range.length <= 0) continue;
        if (range.offset < 0 || range.offset > size - range.length)
            return damaged(file, range.dataset, "lies beyond the end of " + range.file);
        written[range.offset] = range.length;
    }
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return opened.failure();
    written[size] = 0;
    Hash hash;
    std::vector<std::byte> piece;
    int64_t at = 0;
    for (const auto& [begin, length] : written) {
        while (at < begin) {
            piece.resize(static_cast<size_t>(std::min(piece_bytes, begin - at)));
            if (auto failure = opened.value().read_at(piece, at)) return *failure;
            hash.add(piece);
            at += static_cast<int64_t>(piece.size());
        }
        at = std::max(at, begin + length);
    }
    return hash.digits();
}

std::optional<Failure> check_metadata_hashes(const std::filesystem::path& folder,
                                             const Manifest& manifest) {
    for (const auto& [name, size] : manifest.file_sizes)
        if (name.ends_with(".h5") && !manifest.metadata_hashes.contains(name))
            return Failure{ExitCode::bad_data,
                           format_text("{}: manifest.json has no hash of HDF5's own bytes",
                                       (folder / name).string())};
    for (const auto& [name, hash] : manifest.metadata_hashes) {
        const auto found = metadata_hash(folder / name, manifest.ranges);
        if (!found) return found.failure();
        if (found.value() != hash)
            return Failure{
                ExitCode::bad_data,
                format_text(
                    "{}: HDF5's own bytes are not what was written: the hash is {} instead of {}",
                    (folder / name).string(), found.value(), hash)};
    }
    return std::nullopt;
}

std::optional<Failure> check_file_hashes(const std::filesystem::path& folder,
                                         const Manifest& manifest) {
    for (const auto& [name, hash] : manifest.file_hashes) {
        const auto content = read_file(folder / name);
        if (!content) return io_failure(folder / name, "cannot be read");
        if (const std::string found = hash_of(*content); found != hash)
            return Failure{ExitCode::bad_data,
                           format_text("{}: is not what was written: it has the hash {} instead of "
                                       "{}",
                                       (folder / name).string(), found, hash)};
    }
    return std::nullopt;
}

std::optional<Failure> check_content(const std::filesystem::path& folder, const StateFile& state,
                                     const std::vector<WrittenRange>& ranges, ByteCounter& read) {
    std::map<std::string, File> files;
    std::vector<std::byte> piece(piece_bytes);
    for (const WrittenRange& range : ranges) {
        const auto file = folder / range.file;
        if (!files.contains(range.file)) {
            auto opened = open_when_visible(file, O_RDONLY);  // rank 0 has seen the file
            if (!opened) return opened.failure();
            files[range.file] = std::move(opened).value();
        }
        const ElementType type = state.datasets.at(range.dataset).type;
        Hash hash;
        bool is_finite = true;
        for (int64_t done = 0; done < range.length;) {
            const auto part = std::span(piece).first(
                static_cast<size_t>(std::min(piece_bytes, range.length - done)));
            if (auto failure = files[range.file].read_at(part, range.offset + done)) return failure;
            read.add(std::ssize(part));
            hash.add(part);
            is_finite = is_finite && are_finite(part, type);
            done += static_cast<int64_t>(part.size());
        }
        if (hash.digits() != range.hash)
            return damaged(file, range.dataset,
                           format_text("is not what was written: the {} bytes from byte {} have "
                                       "the hash {} instead of {}",
                                       range.length, range.offset, hash.digits(), range.hash));
        if (!is_finite) return damaged(file, range.dataset, "holds NaN or infinite numbers");
    }
    return std::nullopt;
}

}  // namespace ringshard::checkpoint
