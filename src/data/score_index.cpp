#include "score_index.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::data {

namespace fs = std::filesystem;

Failure refuse_scores(const ScoreChoice& choice, const std::string& why) {
    return {ExitCode::bad_data, format_text("{} = {}: {}", choice.setting, choice.folder, why)};
}

Expected<std::vector<fs::path>> score_files(const ScoreChoice& choice) {
    std::vector<fs::path> files;
    std::error_code error;
    if (fs::is_regular_file(choice.folder, error)) {
        if (fs::path(choice.folder).extension() == ".parquet")
            return std::vector{fs::path(choice.folder)};
        return refuse_scores(choice, format_text("is no file of scores; {}", choice.cure));
    }
    error.clear();
    for (const fs::path& entry : folder_entries(choice.folder, error))
        if (entry.extension() == ".parquet") files.push_back(entry);
    if (error)
        return Failure{ExitCode::missing_input,
                       format_text("{} = {}: cannot be read: {}; name the folder that `trainer "
                                   "score --top_k N` wrote",
                                   choice.setting, choice.folder, error.message())};
    if (files.empty())
        return refuse_scores(choice,
                             format_text("holds no .parquet file of scores; {}", choice.cure));
    std::ranges::sort(files);
    // part-00003-of-00008.parquet
    const std::string last = files.back().stem().string();
    const size_t of = last.find("-of-");
    if (!last.starts_with("part-") || of == std::string::npos) return files;
    const std::string count = last.substr(of + 4);
    if (count.find_first_not_of('0') == std::string::npos ||
        count.substr(count.find_first_not_of('0')) != format_text("{}", files.size()))
        return refuse_scores(choice,
                             format_text("has {} files, and {} is one of {}; score again, "
                                         "or copy the files that are missing",
                                         files.size(), files.back().filename().string(), count));
    return files;
}

namespace {

// Returns how many scores a token has: those of the first one that has some; 0 if none has.
Expected<int64_t> scores_per_token(const std::vector<fs::path>& files, const ScoreGroups& found) {
    for (const ScoreGroups::Group& group : found.groups) {
        const auto read = read_score_group(files[group.file], group.number, ScoreColumns::all);
        if (!read) return read.failure();
        const std::vector<int64_t>& starts = read.value().top_starts;
        for (size_t token = 0; token + 1 < starts.size(); ++token)
            if (starts[token + 1] > starts[token]) return starts[token + 1] - starts[token];
    }
    return 0;
}

Expected<ScoreGroups> look_for_groups(const ScoreChoice& choice,
                                      const std::vector<fs::path>& files) {
    ScoreGroups found;
    for (size_t file = 0; file < files.size(); ++file) {
        const auto head = read_score_head(files[file]);
        if (!head) return head.failure();
        if (head.value().temperature != choice.temperature)
            return refuse_scores(
                choice,
                format_text("the scores in {} are of temperature {}, and the run has "
                            "temperature = {}; {}score again with `trainer score --temperature {}`",
                            files[file].filename().string(), shortest(head.value().temperature),
                            shortest(choice.temperature),
                            choice.setting == "teacher_scores" ? "give the same one, or " : "",
                            shortest(choice.temperature)));
        for (int64_t number = 0; const int64_t rows : head.value().rows_of_groups) {
            found.groups.push_back({file, number++, found.num_rows});
            found.num_rows += rows;
        }
    }
    const auto per_token = scores_per_token(files, found);
    if (!per_token) return per_token.failure();
    if (per_token.value() == 0)
        return refuse_scores(choice, format_text("no token has scores; {}", choice.cure));
    found.per_token = choice.per_token.value_or(per_token.value());
    if (found.per_token > per_token.value())
        return refuse_scores(choice,
                             format_text("a token has {} scores, and loss_top_k = {}; give {} or "
                                         "less, or score again with a larger --top_k",
                                         per_token.value(), found.per_token, per_token.value()));
    return found;
}

}  // namespace

comm::Agreed<ScoreGroups> find_groups(const ScoreChoice& choice, const std::vector<fs::path>& files,
                                      const comm::Group& group) {
    ScoreGroups found;
    const auto head = comm::of_root(group, [&]() -> Expected<std::string> {
        auto looked = look_for_groups(choice, files);
        if (!looked) return looked.failure();
        found = std::move(looked).value();
        return concat(found.num_rows, " ", found.per_token);
    });
    if (!head) return head.failure();
    std::istringstream(head.value()) >> found.num_rows >> found.per_token;
    const std::string bytes = group.broadcast({reinterpret_cast<const char*>(found.groups.data()),
                                               found.groups.size() * sizeof(ScoreGroups::Group)});
    found.groups.resize(bytes.size() / sizeof(ScoreGroups::Group));
    std::memcpy(found.groups.data(), bytes.data(), bytes.size());
    return found;
}

std::optional<comm::AgreedFailure> check_score_heads(const ScoreChoice& choice,
                                                     const comm::Group& group) {
    const auto looked = comm::of_root(group, [&]() -> Expected<std::string> {
        const auto files = score_files(choice);
        if (!files) return files.failure();
        const auto found = look_for_groups(choice, files.value());
        if (!found) return found.failure();
        return std::string();
    });
    return looked ? std::nullopt : std::optional(looked.failure());
}

GroupShare share_of_rank(size_t count, const comm::Group& group) {
    const auto rank = static_cast<size_t>(group.rank());
    const auto size = static_cast<size_t>(group.size());
    return {count * rank / size, count * (rank + 1) / size};
}

uint64_t hash_tokens(std::span<const int32_t> tokens) {
    return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

std::span<const int32_t> tokens_of(const ScoredGroup& group, int64_t row) {
    const auto begin = static_cast<size_t>(group.row_starts[static_cast<size_t>(row)]);
    const auto end = static_cast<size_t>(group.row_starts[static_cast<size_t>(row) + 1]);
    return std::span(group.tokens).subspan(begin, end - begin);
}

comm::Agreed<RowsByTokens> index_rows(const std::vector<fs::path>& files, const ScoreGroups& found,
                                      const comm::Group& group) {
    std::string mine;
    std::optional<Failure> failure;
    const GroupShare share = share_of_rank(found.groups.size(), group);
    for (size_t i = share.first; i < share.last && !failure; ++i) {
        const auto read = read_score_group(files[found.groups[i].file], found.groups[i].number,
                                           ScoreColumns::tokens);
        if (!read) {
            failure = read.failure();
            break;
        }
        for (int64_t row = 0; row + 1 < std::ssize(read.value().row_starts); ++row) {
            const uint64_t hash = hash_tokens(tokens_of(read.value(), row));
            mine.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
        }
    }
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    RowsByTokens rows;
    int64_t row = 0;
    for (const std::string& hashes : group.gather(mine))
        for (size_t at = 0; at < hashes.size(); at += sizeof(uint64_t)) {
            uint64_t hash = 0;
            std::memcpy(&hash, hashes.data() + at, sizeof(hash));
            rows.emplace_back(hash, row++);
        }
    std::ranges::sort(rows);
    return rows;
}

}  // namespace ringshard::data
