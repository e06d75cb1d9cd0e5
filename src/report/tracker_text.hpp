#pragma once

#include <string>

#include "ringshard/base/files.hpp"
#include "ringshard/report/tracker.hpp"

namespace ringshard::report {

std::string json_text(const std::string& text);
// The text of a setting: true, false, null and numbers as they are, all else as a text.
std::string json_value(const std::string& text);
// NaN and infinity as Python's json writes them.
std::string json_number(double value);
// "20261126_151726", of UTC.
std::string time_of_folder(double time);
// "2026-11-26T15:17:32.558495+00:00".
std::string iso_time(double time);

// A file that is written anew, one record after another.
class TrackerFile {
public:
    // Creates the file, and its folder.
    static Expected<TrackerFile> create(const std::filesystem::path& file);
    std::optional<Failure> append(std::string_view bytes);
    int64_t size() const { return end_; }

private:
    explicit TrackerFile(File file) : file_(std::move(file)) {}
    File file_;
    int64_t end_ = 0;
};

}  // namespace ringshard::report
