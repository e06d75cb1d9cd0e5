// In place of Arrow and Parquet, for a program that is to be small: the archive of
// scripts/gpu-archive.
#include "ringshard/base/text.hpp"
#include "ringshard/data/score_file.hpp"
#include "row_formats.hpp"
#include "score_reader.hpp"

namespace ringshard::data {

namespace {

Failure has_no_arrow(const std::filesystem::path& file, std::string_view format) {
    return {
        ExitCode::settings,
        format_text("{}: {} needs Arrow, and this program was built with -DRINGSHARD_ARROW=OFF; "
                    "take JSON lines (datasets has to_json), or a program with Arrow",
                    file.string(), format)};
}

}  // namespace

Expected<std::unique_ptr<RowFile>> open_parquet(const std::filesystem::path& file,
                                                const std::vector<std::string>& /*wanted*/) {
    return has_no_arrow(file, "Parquet");
}

Expected<std::unique_ptr<RowFile>> open_arrow(const std::filesystem::path& file,
                                              const std::vector<std::string>& /*wanted*/) {
    return has_no_arrow(file, "the Arrow format");
}

Expected<ScoreFileHead> read_score_head(const std::filesystem::path& file) {
    return has_no_arrow(file, "Parquet");
}

Expected<ScoredGroup> read_score_group(const std::filesystem::path& file, int64_t /*group*/,
                                       ScoreColumns /*columns*/) {
    return has_no_arrow(file, "Parquet");
}

// None of them is ever made.
struct ScoreFile::Parts {
    std::filesystem::path name;
};

ScoreFile::ScoreFile(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ScoreFile::ScoreFile(ScoreFile&&) noexcept = default;
ScoreFile::~ScoreFile() = default;

Expected<ScoreFile> ScoreFile::create(const std::filesystem::path& file, int64_t /*top_k*/,
                                      double /*temperature*/) {
    return has_no_arrow(file, "Parquet");
}

std::optional<Failure> ScoreFile::add(const ScoredRows& /*rows*/) {
    return has_no_arrow(parts_->name, "Parquet");
}

std::optional<Failure> ScoreFile::finish() { return has_no_arrow(parts_->name, "Parquet"); }

std::optional<Failure> ScoreFile::publish() { return has_no_arrow(parts_->name, "Parquet"); }

}  // namespace ringshard::data
