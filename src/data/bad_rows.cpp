#include "bad_rows.hpp"

#include <algorithm>

namespace ringshard::data {

std::string place_of_row(const RowFile& file, const InputFile& input, int64_t row) {
    return place_text(input.name.string(), file.unit(), row);
}

int64_t rows_before_share(const TokenizedShare& share, const comm::Group& group) {
    const int64_t last_file =
        share.parts.empty() ? -1 : static_cast<int64_t>(share.parts.back().file);
    int64_t rows_of_last = 0;
    for (size_t i = 0; i < share.parts.size(); ++i)
        if (static_cast<int64_t>(share.parts[i].file) == last_file)
            rows_of_last += std::max<int64_t>(0, share.num_rows[i]);
    const std::vector<int64_t> last_files = group.gather(last_file);
    const std::vector<int64_t> rows = group.gather(rows_of_last);
    if (share.parts.empty()) return 0;
    int64_t before = 0;
    for (size_t rank = 0; rank < static_cast<size_t>(group.rank()); ++rank)
        if (last_files[rank] == static_cast<int64_t>(share.parts.front().file))
            before += rows[rank];
    return before;
}

namespace {

constexpr int64_t most_told = 100;

// Counts the rows of unread parts of a file, up to the last item: ranks stop reading when all give
// up. Only this file is read again, and only if one of its rows ends the run.
std::optional<Failure> count_unread(TokenizedShare& share, const WorkList& work, size_t number,
                                    int64_t last_item) {
    std::unique_ptr<RowFile> file;
    for (size_t i = 0; i < share.parts.size(); ++i) {
        const WorkPart& part = share.parts[i];
        if (part.file != number || part.item > last_item || share.num_rows[i] >= 0) continue;
        if (file == nullptr) {
            auto opened = work.open(number);
            if (!opened) return opened.failure();
            file = std::move(opened).value();
        }
        const auto rows = file->count(work.place_of(part));
        if (!rows) return rows.failure();
        share.num_rows[i] = rows.value().places;
    }
    return std::nullopt;
}

// Formats "chat.jsonl:17: is no JSON: ..." for the first `count` bad rows of a share, one per line.
Expected<std::string> describe(const TokenizedShare& share, const WorkList& work, size_t count,
                               int64_t before_share) {
    std::string lines;
    std::unique_ptr<RowFile> file;
    int64_t before = before_share;  // rows of the file in the parts before this one
    size_t bad = 0;
    for (size_t i = 0; i < share.parts.size() && bad < count; ++i) {
        const WorkPart& part = share.parts[i];
        const bool is_new = i > 0 && share.parts[i - 1].file != part.file;
        if (is_new) before = 0;
        if (is_new) file.reset();
        for (; bad < count && share.bad_rows[bad].part == i; ++bad) {
            if (file == nullptr) {
                auto opened = work.open(part.file);
                if (!opened) return opened.failure();
                file = std::move(opened).value();
            }
            lines += format_text("{}: {}\n",
                                 place_of_row(*file, work.files[part.file],
                                              work.slices[part.file].places_before + before +
                                                  share.bad_rows[bad].row),
                                 share.bad_rows[bad].what);
        }
        before += std::max<int64_t>(0, share.num_rows[i]);
    }
    return lines;
}

// Fails with the first bad row of the lowest rank with one. Collective over the group.
comm::AgreedFailure refuse(TokenizedShare& share, const WorkList& work, int64_t allowed,
                           const comm::Group& group) {
    const bool has_bad = !share.bad_rows.empty();
    const auto root = group.minimum(has_bad ? group.rank() : group.size());
    const WorkPart mine =
        group.rank() == root ? share.parts[share.bad_rows.front().part] : WorkPart();
    const int64_t item = group.maximum(mine.item);
    if (auto failure =
            comm::first_failure(group, count_unread(share, work, work.file_of(item), item)))
        return *failure;
    const int64_t before = rows_before_share(share, group);
    std::optional<Failure> failure;
    if (group.rank() == root) {
        const auto line = describe(share, work, 1, before);
        const std::string how_many =
            allowed == 0
                ? ""
                : format_text(" (more than skip_bad_rows = {} rows cannot be used)", allowed);
        failure = line ? Failure{ExitCode::bad_data, split(line.value(), '\n').front() + how_many}
                       : line.failure();
    }
    const std::string message =
        group.broadcast(failure ? failure->message : "", static_cast<int>(root));
    return comm::found_by_all({ExitCode::bad_data, message});
}

}  // namespace

std::optional<comm::AgreedFailure> judge_bad_rows(TokenizedShare& share, const WorkList& work,
                                                  int64_t allowed, const comm::Group& group,
                                                  std::vector<std::string>& warnings) {
    const std::vector<int64_t> numbers = group.gather(static_cast<int64_t>(share.bad_rows.size()));
    int64_t total = 0;
    int64_t before = 0;  // in the shares of earlier ranks
    for (size_t rank = 0; rank < numbers.size(); ++rank) {
        if (static_cast<int>(rank) < group.rank()) before += numbers[rank];
        total += numbers[rank];
    }
    if (total == 0) return std::nullopt;
    if (total > allowed) return refuse(share, work, allowed, group);
    const int64_t mine = numbers[static_cast<size_t>(group.rank())];
    const auto told = static_cast<size_t>(std::clamp<int64_t>(most_told - before, 0, mine));
    const auto lines =
        comm::agreed(group, describe(share, work, told, rows_before_share(share, group)));
    if (!lines) return lines.failure();
    for (const std::string& some : group.gather_to_root(lines.value()))
        for (const std::string& line : split(some, '\n'))
            if (!line.empty()) warnings.push_back("left out: " + line);
    if (total > most_told)
        warnings.push_back(format_text("left out: {} more rows", total - most_told));
    return std::nullopt;
}

}  // namespace ringshard::data
