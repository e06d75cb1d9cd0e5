#include "ringshard/offload/scratch_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::offload {

namespace {

// Creates a file in the folder and unlinks it. Returns its descriptor, or -1.
int open_without_name(const std::filesystem::path& folder) {
    std::string name = folder / "ringshard-offload-XXXXXX";
    const int descriptor = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) unlink(name.c_str());
    return descriptor;
}

std::unique_ptr<FileQueue> make_queue(int descriptor, QueueKind preferred) {
    if (preferred == QueueKind::io_uring)
        if (auto queue = make_uring_queue(descriptor)) return queue;
    return make_thread_queue(descriptor);
}

}  // namespace

Expected<ScratchFile> ScratchFile::open(const std::filesystem::path& folder, QueueKind preferred) {
    const int descriptor = open_without_name(folder);
    if (descriptor < 0) {
        Failure failure = io_failure(folder, "no file can be made in this folder");
        if (errno == ENOENT || errno == ENOTDIR) failure.code = ExitCode::missing_input;
        return failure;
    }
    // Some file systems do not support O_DIRECT.
    const bool is_direct = fcntl(descriptor, F_SETFL, O_DIRECT) == 0;
    return ScratchFile(folder, is_direct, make_queue(descriptor, preferred));
}

namespace {

class NoQueue final : public FileQueue {
public:
    int descriptor() const override { return -1; }
    const char* name() const override { return "imaginary"; }
    Operation start(const FileRequest&) override { return 0; }
    int wait(Operation) override { return 0; }
};

}  // namespace

ScratchFile ScratchFile::imaginary() { return {"", false, std::make_unique<NoQueue>()}; }

ScratchFile::ScratchFile(std::filesystem::path folder, bool is_direct,
                         std::unique_ptr<FileQueue> queue)
    : folder_(std::move(folder)), is_direct_(is_direct), queue_(std::move(queue)) {}

int64_t ScratchFile::reserve(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += whole_pages(bytes);
    return offset;
}

std::optional<Failure> ScratchFile::allocate() {
    const int descriptor = queue_->descriptor();
    if (bytes_ == 0 || descriptor < 0) return std::nullopt;
    if (fallocate(descriptor, 0, 0, bytes_) == 0) return std::nullopt;
    // Without fallocate, a full file system shows only when it is written to.
    if (errno == EOPNOTSUPP && ftruncate(descriptor, bytes_) == 0) return std::nullopt;
    return io_failure(
        folder_,
        format_text("a file of {} bytes for offloaded state has no room here; name another folder",
                    bytes_));
}

Operation ScratchFile::read(std::span<std::byte> bytes, int64_t offset) {
    return queue_->start({false, bytes.data(), bytes.size(), offset});
}

Operation ScratchFile::write(std::span<const std::byte> bytes, int64_t offset) {
    return queue_->start({true, const_cast<std::byte*>(bytes.data()), bytes.size(), offset});
}

void ScratchFile::wait(Operation operation) {
    const Timer timer;
    const int error = queue_->wait(operation);
    seconds_waited_ += timer.seconds();
    if (error == 0) return;
    throw Error(
        ExitCode::io,
        format_text("{}: the file of offloaded state here cannot be written or read back: {}",
                    folder_.string(), std::strerror(error)));
}

std::string ScratchFile::describe() const {
    return format_text("{}, {}{}", folder_.string(), queue_->name(),
                       is_direct_ ? ", past the page cache" : ", through the page cache");
}

}  // namespace ringshard::offload
