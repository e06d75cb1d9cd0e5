#include "ringshard/base/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard {

Failure io_failure(const std::filesystem::path& file, std::string_view what) {
    return {ExitCode::io, format_text("{} {}: {}", file.string(), what, std::strerror(errno))};
}

bool file_exists(const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::exists(file, ignored);
}

std::filesystem::path without_slash(const std::filesystem::path& folder) {
    const std::filesystem::path normal = folder.lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
}

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
    std::error_code ignored;
    return without_slash(std::filesystem::absolute(one, ignored)) ==
           without_slash(std::filesystem::absolute(other, ignored));
}

bool folder_exists(const std::filesystem::path& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
}

std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder,
                                                  std::error_code& error) {
    std::vector<std::filesystem::path> entries;
    std::filesystem::directory_iterator entry(folder, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
        entries.push_back(entry->path());
        entry.increment(error);
    }
    return entries;
}

std::optional<std::string> read_file(const std::filesystem::path& file) {
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return std::nullopt;
    auto content = opened.value().read_to_end();
    return content ? std::optional(std::move(content).value()) : std::nullopt;
}

Expected<File> File::open(const std::filesystem::path& file, int flags) {
    File opened;
    opened.name_ = file;
    opened.descriptor_ = ::open(file.c_str(), flags | O_CLOEXEC, 0666);
    if (opened.descriptor_ < 0) return io_failure(file, "cannot be opened");
    return opened;
}

File::~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
}
File::File(File&& other) noexcept
    : name_(std::move(other.name_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
File& File::operator=(File&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

std::optional<Failure> File::write_at(std::span<const std::byte> bytes, int64_t offset) {
    constexpr size_t piece = size_t{64} << 20;
    while (!bytes.empty()) {
        const ssize_t written =
            ::pwrite(descriptor_, bytes.data(), std::min(piece, bytes.size()), offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return io_failure(name_, "cannot be written");
        bytes = bytes.subspan(static_cast<size_t>(written));
        offset += written;
    }
    return std::nullopt;
}

std::optional<Failure> File::read_at(std::span<std::byte> bytes, int64_t offset) const {
    constexpr size_t piece = size_t{64} << 20;
    while (!bytes.empty()) {
        const ssize_t read =
            ::pread(descriptor_, bytes.data(), std::min(piece, bytes.size()), offset);
        if (read < 0 && errno == EINTR) continue;
        if (read < 0) return io_failure(name_, "cannot be read");
        if (read == 0)
            return Failure{ExitCode::bad_data, format_text("{} ends at byte {}: it is cut short",
                                                           name_.string(), offset)};
        bytes = bytes.subspan(static_cast<size_t>(read));
        offset += read;
    }
    return std::nullopt;
}

Expected<std::string> File::read_to_end() const {
    std::string content;
    std::array<char, size_t{1} << 16> piece{};
    for (;;) {
        const ssize_t read = ::read(descriptor_, piece.data(), piece.size());
        if (read < 0 && errno == EINTR) continue;
        if (read < 0) return io_failure(name_, "cannot be read");
        if (read == 0) return content;
        content.append(piece.data(), static_cast<size_t>(read));
    }
}

std::optional<Failure> File::flush() {
    if (fsync(descriptor_) != 0) return io_failure(name_, "cannot be flushed to disk");
    return std::nullopt;
}

std::optional<Failure> flush_folder(const std::filesystem::path& folder) {
    auto opened = File::open(folder, O_RDONLY | O_DIRECTORY);
    if (!opened) return opened.failure();
    return opened.value().flush();
}

namespace {

constexpr std::string_view work_sign = ".tmp-";

std::optional<Failure> write_flushed(const std::filesystem::path& file, std::string_view content) {
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    if (auto failure = opened.value().write_at(std::as_bytes(std::span(content)), 0))
        return failure;
    return opened.value().flush();
}

}  // namespace

std::string work_mark() { return concat(work_sign, getpid()); }

bool is_unfinished(std::string_view name) { return name.find(work_sign) != name.npos; }

std::optional<int64_t> number_in_name(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix)) return std::nullopt;
    const auto number = read_whole_number(name.substr(prefix.size()));
    return number && *number >= 0 ? number : std::nullopt;
}

std::optional<Failure> write_file_atomically(const std::filesystem::path& file,
                                             std::string_view content) {
    std::filesystem::path temporary = file;
    temporary += work_mark();
    if (auto failure = write_flushed(temporary, content)) {
        std::remove(temporary.c_str());
        return failure;
    }
    return rename_atomically(temporary, file);
}

std::optional<Failure> write_file_in(const std::filesystem::path& folder, const std::string& name,
                                     std::string_view content) {
    const std::filesystem::path file = folder / name;
    const bool has_own_folder = file.parent_path() != folder;
    if (has_own_folder) {
        std::error_code error;
        std::filesystem::create_directories(file.parent_path(), error);
        if (error)
            return Failure{ExitCode::io, format_text("{} cannot be made: {}",
                                                     file.parent_path().string(), error.message())};
    }
    auto failure = write_file_atomically(file, content);
    if (!failure && has_own_folder) failure = flush_folder(file.parent_path());
    return failure;
}

std::optional<Failure> rename_atomically(const std::filesystem::path& temporary,
                                         const std::filesystem::path& file) {
    if (std::rename(temporary.c_str(), file.c_str()) != 0) {
        const Failure failure = io_failure(file, "cannot be replaced");
        std::remove(temporary.c_str());
        return failure;
    }
    return flush_folder(file.has_parent_path() ? file.parent_path() : ".");
}

void remove_unfinished(const std::filesystem::path& folder,
                       const std::function<bool(const std::string& name)>& is_meant) {
    std::error_code ignored;
    for (const std::filesystem::path& entry : folder_entries(folder, ignored)) {
        const std::string name = entry.filename();
        const size_t mark = name.rfind(work_sign);
        if (mark == std::string::npos) continue;
        const bool is_work = read_whole_number(name.substr(mark + work_sign.size())).has_value();
        if (is_work && is_meant(name.substr(0, mark))) std::filesystem::remove(entry, ignored);
    }
}

namespace {

bool ends_inside_a_line(int descriptor, off_t size) {
    char last = '\n';
    return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

off_t size_of(int descriptor) {
    struct stat status {};
    return ::fstat(descriptor, &status) == 0 ? status.st_size : -1;
}

}  // namespace

std::optional<Failure> append_line(const std::filesystem::path& file, std::string_view line) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) return io_failure(file, "cannot be opened");
    const off_t before = size_of(descriptor);
    const std::string whole =
        (ends_inside_a_line(descriptor, before) ? "\n" : "") + std::string(line) + "\n";
    const ssize_t written = ::write(descriptor, whole.data(), whole.size());
    std::optional<Failure> failure;
    if (written < 0) {
        failure = io_failure(file, "cannot be written");
    } else if (static_cast<size_t>(written) < whole.size()) {
        failure = Failure{ExitCode::io, format_text("{} took {} of {} bytes: is the disk full?",
                                                    file.string(), written, whole.size())};
        // Takes the part back, unless another writer has appended since.
        if (before >= 0 && size_of(descriptor) == before + written)
            static_cast<void>(::ftruncate(descriptor, before));
    }
    // A network file system may tell of a full disk only here.
    if (::close(descriptor) != 0 && !failure) failure = io_failure(file, "cannot be written");
    return failure;
}

}  // namespace ringshard
