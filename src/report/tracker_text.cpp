#include "tracker_text.hpp"

#include <fcntl.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "ringshard/base/text.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::report {

namespace {

std::string utc(double time, const char* pattern) {
    const auto seconds = static_cast<time_t>(std::floor(time));
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 64> text{};
    return {text.data(), std::strftime(text.data(), text.size(), pattern, &parts)};
}

}  // namespace

std::string json_text(const std::string& text) { return text::to_json(text::Value(text)); }

std::string json_value(const std::string& text) {
    if (text == "true" || text == "false" || text == "null") return text;
    if (read_whole_number(text) && text.front() != '+') return text;
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool is_number = !text.empty() && end == text.c_str() + text.size();
    return is_number && std::isfinite(number) ? shortest(number) : json_text(text);
}

std::string json_number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return shortest(value);
}

std::string time_of_folder(double time) { return utc(time, "%Y%m%d_%H%M%S"); }

std::string iso_time(double time) {
    const auto microseconds = static_cast<int64_t>(std::floor((time - std::floor(time)) * 1e6));
    const std::string digits = std::to_string(1000000 + microseconds).substr(1);
    return format_text("{}.{}+00:00", utc(time, "%Y-%m-%dT%H:%M:%S"), digits);
}

Expected<TrackerFile> TrackerFile::create(const std::filesystem::path& file) {
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error)
        return Failure{ExitCode::io, format_text("{} cannot be made: {}",
                                                 file.parent_path().string(), error.message())};
    auto opened = File::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened) return opened.failure();
    return TrackerFile(std::move(opened).value());
}

std::optional<Failure> TrackerFile::append(std::string_view bytes) {
    if (auto failure = file_.write_at(std::as_bytes(std::span(bytes)), end_)) return failure;
    end_ += static_cast<int64_t>(bytes.size());
    return std::nullopt;
}

}  // namespace ringshard::report
