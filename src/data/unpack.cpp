#include <fcntl.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "row_file.hpp"

namespace ringshard::data {

namespace {

constexpr size_t piece_bytes = 1U << 20U;

// The destination of the unpacked bytes.
class Output {
public:
    static Expected<Output> open(const std::filesystem::path& path) {
        auto file = File::open(path, O_WRONLY | O_CREAT | O_TRUNC);
        if (!file) return file.failure();
        return Output(std::move(file).value(), path);
    }
    std::optional<Failure> write(std::span<const char> bytes) {
        if (at_ >= checked_to_)
            if (auto failure = check_free_space()) return failure;
        auto failure = file_.write_at(std::as_bytes(bytes), at_);
        at_ += static_cast<int64_t>(bytes.size());
        return failure;
    }

private:
    Output(File file, std::filesystem::path path)
        : file_(std::move(file)), path_(std::move(path)) {}
    // A small file may unpack to a thousand times its size: others use the disk of the cache, too.
    std::optional<Failure> check_free_space() {
        constexpr int64_t at_once = int64_t{64} << 20;
        constexpr auto most_kept_free = uintmax_t{1} << 30;
        checked_to_ = at_ + at_once;
        std::error_code error;
        const auto space = std::filesystem::space(path_, error);
        if (error || space.available > std::min(most_kept_free, space.capacity / 20))
            return std::nullopt;
        return Failure{
            ExitCode::io,
            format_text("{}: the disk has {} left after {} of this file, and unpacking "
                        "ends here; make room, or name another data_cache_dir",
                        path_.string(), human_bytes(static_cast<double>(space.available)),
                        human_bytes(static_cast<double>(at_)))};
    }
    File file_;
    std::filesystem::path path_;
    int64_t at_ = 0;
    int64_t checked_to_ = 0;
};

Failure damaged(const std::filesystem::path& file, std::string_view what) {
    return {ExitCode::bad_data, format_text("{} cannot be unpacked: {}", file.string(), what)};
}

std::optional<Failure> unpack_gzip(const std::filesystem::path& file, Output& output) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> packed(gzopen(file.c_str(), "rb"), gzclose);
    if (packed == nullptr) return io_failure(file, "cannot be opened");
    std::vector<char> piece(piece_bytes);
    while (true) {
        const int count = gzread(packed.get(), piece.data(), static_cast<unsigned>(piece.size()));
        int error = Z_OK;
        const char* message = gzerror(packed.get(), &error);
        if (count < 0 || (error != Z_OK && error != Z_STREAM_END)) return damaged(file, message);
        if (count == 0) return std::nullopt;
        if (auto failure = output.write(std::span(piece).first(static_cast<size_t>(count))))
            return failure;
    }
}

std::optional<Failure> unpack_zstd(const std::filesystem::path& file, Output& output) {
    const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                          ZSTD_freeDStream);
    // Allow windows of up to 2 GiB, which `zstd --long=31` makes.
    ZSTD_DCtx_setParameter(stream.get(), ZSTD_d_windowLogMax, 31);
    std::ifstream packed(file, std::ios::binary);
    std::vector<char> piece(piece_bytes);
    std::vector<char> unpacked(piece_bytes);
    size_t missing = 0;  // of the current frame; 0 between frames
    while (packed.read(piece.data(), static_cast<std::streamsize>(piece.size())),
           packed.gcount() > 0) {
        ZSTD_inBuffer in{piece.data(), static_cast<size_t>(packed.gcount()), 0};
        bool may_hold_more = true;
        while (in.pos < in.size || may_hold_more) {
            ZSTD_outBuffer out{unpacked.data(), unpacked.size(), 0};
            missing = ZSTD_decompressStream(stream.get(), &out, &in);
            if (ZSTD_isError(missing) != 0) return damaged(file, ZSTD_getErrorName(missing));
            may_hold_more = out.pos == out.size;
            if (auto failure = output.write(std::span(unpacked).first(out.pos))) return failure;
            if (missing == 0 && in.pos == in.size) break;
        }
    }
    if (packed.bad()) return io_failure(file, "cannot be read");
    if (missing != 0) return damaged(file, "it is cut short");
    return std::nullopt;
}

}  // namespace

std::optional<Failure> unpack(const std::filesystem::path& file,
                              const std::filesystem::path& into) {
    auto output = Output::open(into);
    if (!output) return output.failure();
    std::ifstream stream(file, std::ios::binary);
    return stream.get() == 0x1f ? unpack_gzip(file, output.value())
                                : unpack_zstd(file, output.value());
}

}  // namespace ringshard::data
