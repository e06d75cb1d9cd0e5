#include "publish.hpp"

#include <cstdio>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/manifest.hpp"

namespace ringshard::checkpoint {

Publication::Publication(std::filesystem::path output_dir, int64_t step, int64_t attempt)
    : output_dir_(std::move(output_dir)),
      step_(step),
      attempt_(attempt),
      temporary_(output_dir_ / concat(checkpoint_name(step), ".tmp-", attempt)),
      final_(output_dir_ / checkpoint_name(step)) {}

// A newer attempt owns the run as soon as it has its folder.
std::optional<Failure> Publication::check_newest() const {
    const int64_t newest = Attempts(output_dir_).newest();
    if (newest == attempt_) return std::nullopt;
    return Failure{ExitCode::superseded, concat(output_dir_.string(), ": attempt ", newest,
                                                " of this run has begun, and this is attempt ",
                                                attempt_, "; it leaves the run alone")};
}

std::optional<Failure> Publication::begin(const std::vector<std::filesystem::path>& files) const {
    if (auto failure = check_newest()) return failure;
    std::error_code error;
    std::filesystem::remove_all(temporary_, error);  // of a save that failed before
    if (!std::filesystem::create_directory(temporary_, error) && error)
        return Failure{ExitCode::io,
                       concat(temporary_.string(), " cannot be made: ", error.message())};
    for (const auto& file : files) {
        const auto content = read_file(file);
        if (!content) return Failure{ExitCode::io, concat(file.string(), " cannot be read")};
        if (auto failure = write_file_atomically(temporary_ / file.filename(), *content))
            return failure;
    }
    return std::nullopt;
}

// What stands under the name already is void: this attempt started before that step.
std::optional<Failure> Publication::make_way() const {
    if (!exists(final_)) return std::nullopt;
    const auto there = read_manifest(final_);
    const int64_t attempt = there ? there.value().attempt : 0;
    for (int64_t copy = 0;; ++copy) {
        const auto aside = output_dir_ / concat("superseded-", step_, "-", attempt,
                                                copy == 0 ? "" : concat(".", copy));
        if (exists(aside)) continue;
        if (std::rename(final_.c_str(), aside.c_str()) != 0)
            return io_failure(final_, "cannot be set aside");
        return std::nullopt;
    }
}

std::optional<Failure> Publication::finish(const std::vector<std::string>& ranges_of_all) const {
    Manifest manifest{step_, attempt_, {}, {}};
    for (const std::string& ranges : ranges_of_all)
        for (WrittenRange& range : ranges_from_text(ranges))
            manifest.ranges.push_back(std::move(range));
    for (const auto& entry : std::filesystem::directory_iterator(temporary_))
        manifest.file_sizes[entry.path().filename()] = static_cast<int64_t>(entry.file_size());
    if (auto failure = write_manifest(temporary_, manifest)) return failure;
    if (auto failure = flush_folder(temporary_)) return failure;
    if (auto failure = check_newest()) return failure;
    if (auto failure = make_way()) return failure;
    if (std::rename(temporary_.c_str(), final_.c_str()) != 0)
        return io_failure(temporary_, "cannot get its name");
    if (auto failure = flush_folder(output_dir_)) return failure;
    return write_file_atomically(output_dir_ / "latest", final_.filename().string() + "\n");
}

}  // namespace ringshard::checkpoint
