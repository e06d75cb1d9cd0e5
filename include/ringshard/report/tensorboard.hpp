#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ringshard/base/files.hpp"

namespace ringshard::report {

// Where TensorBoard shows a metric: "train/loss" for loss, "eval/loss" for eval_loss, as
// transformers rewrites names for it.
std::string tensorboard_tag(std::string_view key);

struct Scalar {
    std::string tag;
    double value;  // kept as fp32
};

// A file of events that TensorBoard reads: events.out.tfevents.<time>.<host>.<pid>. What was added
// is in the file at once; flush() makes it survive a crash of the machine.
class TensorBoardFile {
public:
    // Makes the file, and the folder. Points of earlier files in the folder are no longer shown
    // from `first_step` on: a run that goes on from a checkpoint does these steps again. Times are
    // seconds since 1970.
    static Expected<TensorBoardFile> create(const std::filesystem::path& folder,
                                            const std::string& host, double wall_time,
                                            int64_t first_step);

    std::optional<Failure> add(int64_t step, double wall_time, std::span<const Scalar> scalars);
    std::optional<Failure> flush();

    const std::filesystem::path& path() const { return path_; }

private:
    TensorBoardFile(std::filesystem::path path, File file)
        : path_(std::move(path)), file_(std::move(file)) {}
    std::optional<Failure> append(std::string_view event);

    std::filesystem::path path_;
    File file_;
    int64_t end_ = 0;  // of what was written, in bytes
};

}  // namespace ringshard::report
