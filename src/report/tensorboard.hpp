#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ringshard/base/files.hpp"

namespace ringshard::report {

// Returns TensorBoard's name of a metric: "train/loss" for loss, "eval/loss" for eval_loss, by
// transformers' rule.
std::string tensorboard_tag(std::string_view key);

struct Scalar {
    std::string tag;
    double value;  // stored as fp32
};

// An event file of TensorBoard: events.out.tfevents.<time>.<host>.<pid>. add() writes to the file
// at once; flush() makes the data survive a crash of the machine.
class TensorBoardFile {
public:
    // Creates the file, and its folder. TensorBoard then hides points of earlier files in the
    // folder from `first_step` on: a run that resumes from a checkpoint repeats these steps. Times
    // are seconds since 1970.
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
    int64_t end_ = 0;  // bytes written so far
};

}  // namespace ringshard::report
