#include "ringshard/checkpoint/write_rate.hpp"

#include <unistd.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "direct_file.hpp"
#include "range_check.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::checkpoint {

namespace {

// A file that its destructor removes.
class PassingFile {
public:
    static Expected<PassingFile> make(const std::filesystem::path& folder) {
        std::string name = (folder / "write-rate.XXXXXX").string();
        const int descriptor = ::mkstemp(name.data());
        if (descriptor < 0) return io_failure(folder, "takes no files");
        ::close(descriptor);
        return PassingFile(name);
    }
    ~PassingFile() {
        std::error_code error;
        if (!name_.empty()) std::filesystem::remove(name_, error);
    }
    PassingFile(PassingFile&& other) noexcept : name_(std::exchange(other.name_, {})) {}
    PassingFile& operator=(PassingFile&&) = delete;
    const std::filesystem::path& name() const { return name_; }

private:
    explicit PassingFile(std::filesystem::path name) : name_(std::move(name)) {}
    std::filesystem::path name_;
};

}  // namespace

Expected<double> measure_write_rate(const std::filesystem::path& folder) {
    constexpr double long_enough = 1;  // seconds, before the flush
    constexpr int64_t enough = int64_t{1} << 30;
    const auto passing = PassingFile::make(folder);
    if (!passing) return passing.failure();
    auto opened = DirectFile::open(passing.value().name());
    if (!opened) return opened.failure();
    DirectFile& file = opened.value();
    // Larger than the caches: a save reads data that was copied some time before.
    const std::vector<float> numbers(size_t{1} << 24, 1.5F);
    const std::span<const std::byte> all = std::as_bytes(std::span(numbers));
    Hash hash;
    int64_t written = 0;
    const Timer timer;
    while (written < enough && timer.seconds() < long_enough) {
        const auto part = all.subspan(static_cast<size_t>(written) % all.size(),
                                      static_cast<size_t>(DirectFile::part_bytes));
        RINGSHARD_CHECK(are_finite(part, ElementType::fp32));
        hash.add(part);
        if (auto failure = file.write_at(part, written)) return *failure;
        written += DirectFile::part_bytes;
    }
    if (auto failure = file.flush()) return *failure;
    return static_cast<double>(written) / timer.seconds();
}

}  // namespace ringshard::checkpoint
