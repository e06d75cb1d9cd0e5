#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "ringshard/base/expected.hpp"

// Atomic files: whole or absent, also after a crash.
namespace ringshard {

// False too where a link goes in circles or a name is too long.
bool file_exists(const std::filesystem::path& file);
bool folder_exists(const std::filesystem::path& folder);

// Returns the path in its plain form: without a slash at its end, and "." and ".." inside.
std::filesystem::path without_slash(const std::filesystem::path& folder);

// Whether two paths are of one folder by their names: one may be relative, or end with a slash.
bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other);

// Returns the entries of a folder, in no order; on an error, those read so far and the error.
std::vector<std::filesystem::path> folder_entries(const std::filesystem::path& folder,
                                                  std::error_code& error);

// Returns nothing if the file is missing or cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& file);

// Writes a temporary file, flushes it to disk and renames it: readers see the old content or the
// new.
std::optional<Failure> write_file_atomically(const std::filesystem::path& file,
                                             std::string_view content);
// Writes a file of a folder, whose name may have a folder of its own, "1_Pooling/config.json".
std::optional<Failure> write_file_in(const std::filesystem::path& folder, const std::string& name,
                                     std::string_view content);

// Stands at the end of a file's name while this process writes it: ".tmp-" and the process's
// number.
std::string work_mark();
bool is_unfinished(std::string_view name);  // it has such a mark, of whatever process

// Returns 12 for "checkpoint-12" with the prefix "checkpoint-"; nothing for other names, such as
// "checkpoint-4.tmp-1".
std::optional<int64_t> number_in_name(std::string_view name, std::string_view prefix);

// Gives a file that is whole, and flushed, its name; removes it if that fails.
std::optional<Failure> rename_atomically(const std::filesystem::path& temporary,
                                         const std::filesystem::path& file);

// Removes unfinished files of these names from a folder; a process that still writes one of them
// fails then.
void remove_unfinished(const std::filesystem::path& folder,
                       const std::function<bool(const std::string& name)>& is_meant);

// One line in one write: lines of several writers do not mix. A line of which the disk takes only a
// part is taken back; where even that fails, the next line begins with a newline. The system has
// taken the line when this returns; it is not flushed to disk, so a crash of the host may lose it.
std::optional<Failure> append_line(const std::filesystem::path& file, std::string_view line);

// Flushes a folder, so that new, renamed and deleted names survive a crash.
std::optional<Failure> flush_folder(const std::filesystem::path& folder);

// An open file descriptor.
class File {
public:
    File() = default;
    static Expected<File> open(const std::filesystem::path& file, int flags);
    ~File();
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;

    std::optional<Failure> write_at(std::span<const std::byte> bytes, int64_t offset);
    std::optional<Failure> read_at(std::span<std::byte> bytes, int64_t offset) const;
    Expected<std::string> read_to_end() const;
    std::optional<Failure> flush();

private:
    std::filesystem::path name_;
    int descriptor_ = -1;
};

// "checkpoint-4/state.h5: No space left on device", from errno.
Failure io_failure(const std::filesystem::path& file, std::string_view what);

}  // namespace ringshard
