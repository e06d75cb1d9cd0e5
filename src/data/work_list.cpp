#include "work_list.hpp"

#include <algorithm>
#include <numeric>

#include "csv_records.hpp"
#include "ringshard/base/shared_file.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

size_t WorkList::file_of(int64_t item) const {
    return static_cast<size_t>(std::ranges::upper_bound(first_items, item) - first_items.begin()) -
           1;
}

Expected<std::unique_ptr<RowFile>> WorkList::open(size_t file) const {
    const InputFile& input = files[file];
    if (input.plain != input.name)
        if (auto failure = wait_until_visible(input.plain)) return *failure;
    return open_row_file(input.plain, {wanted, input.text}, cuts[file]);
}

Expected<std::vector<WorkPart>> WorkList::parts_of(int64_t item, const RowFile& file) const {
    const size_t number = file_of(item);
    const FileSlice& slice = slices[number];
    const bool is_first = item == first_items[number] && slice.first_row > 0;
    const bool is_last = item + 1 == first_items[number + 1] && slice.end_in_last_block < INT64_MAX;
    std::vector<WorkPart> parts;
    int64_t before = 0;  // rows in earlier parts of the block
    const int64_t num_parts = file.num_parts(place_of({number, item, 0}).block);
    for (int64_t part = 0; part < num_parts; ++part) {
        WorkPart& added = parts.emplace_back(WorkPart{number, item, part});
        if (is_first) added.rows.begin = std::max<int64_t>(0, slice.first_row - before);
        if (is_last) added.rows.end = std::max<int64_t>(0, slice.end_in_last_block - before);
        if (num_parts == 1 || (!is_first && !is_last)) continue;
        const auto count = file.count(place_of(added));
        if (!count) return count.failure();
        before += count.value().rows;
    }
    return parts;
}

Share share_of(int64_t total, const comm::Group& group) {
    return {total * group.rank() / group.size(), total * (group.rank() + 1) / group.size()};
}

namespace {

bool is_table(const InputFile& file) {
    return file.text == TextKind::csv || file.text == TextKind::tsv;
}

// Finds where records begin in the blocks of tables; the ranks share the blocks of all tables.
// Collective over the group.
std::optional<comm::AgreedFailure> scan_tables(WorkList& work, const comm::Group& group) {
    std::vector<size_t> tables;
    std::vector<int64_t> ends{0};  // cumulative blocks of all tables
    for (size_t file = 0; file < work.files.size(); ++file) {
        const int64_t num_blocks = work.first_items[file + 1] - work.first_items[file];
        if (!is_table(work.files[file]) || num_blocks < 2) continue;
        tables.push_back(file);
        ends.push_back(ends.back() + num_blocks);
    }
    if (tables.empty()) return std::nullopt;
    const Share share = share_of(ends.back(), group);
    std::optional<Failure> failure;
    std::string letters;
    for (size_t i = 0; i < tables.size() && !failure; ++i) {
        const int64_t first = std::max(share.first, ends[i]) - ends[i];
        const int64_t last = std::min(share.last, ends[i + 1]) - ends[i];
        if (first >= last) continue;
        const InputFile& file = work.files[tables[i]];
        if (file.plain != file.name) failure = wait_until_visible(file.plain);
        if (failure) break;
        const char separator = file.text == TextKind::csv ? ',' : '\t';
        auto some = scan_csv(file.plain, separator, first, last);
        if (!some)
            failure = some.failure();
        else
            letters += some.value();
    }
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    std::string all;
    for (const std::string& some : group.gather(letters)) all += some;
    for (size_t i = 0; i < tables.size(); ++i) {
        const auto begin = static_cast<size_t>(ends[i]) * CsvState::num_places;
        const auto end = static_cast<size_t>(ends[i + 1]) * CsvState::num_places;
        work.cuts[tables[i]] = join_csv_scans(std::string_view(all).substr(begin, end - begin));
    }
    return std::nullopt;
}

}  // namespace

comm::Agreed<WorkList> list_work(std::vector<InputFile> files, std::vector<std::string> wanted,
                                 const comm::Group& group) {
    std::vector<double> counts(files.size());
    text::Value::List cuts;
    std::optional<Failure> failure;
    for (size_t i = static_cast<size_t>(group.rank()); i < files.size() && !failure;
         i += static_cast<size_t>(group.size())) {
        if (is_table(files[i])) {
            counts[i] = static_cast<double>(num_csv_blocks(files[i].plain));
            continue;
        }
        const auto file = open_row_file(files[i].plain, {wanted, files[i].text});
        if (!file) {
            failure = file.failure();
            break;
        }
        counts[i] = static_cast<double>(file.value()->num_blocks());
        if (std::string of_file = file.value()->cuts(); !of_file.empty())
            cuts.emplace_back(text::Value::List{text::Value(static_cast<int64_t>(i)),
                                                text::Value(std::move(of_file))});
    }
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    WorkList work{.files = std::move(files),
                  .cuts = {},
                  .first_items = {0},
                  .slices = {},
                  .wanted = std::move(wanted)};
    for (const double count : group.sum(counts))
        work.first_items.push_back(work.first_items.back() + static_cast<int64_t>(count));
    work.cuts.resize(work.files.size());
    work.slices.resize(work.files.size());
    for (const std::string& some : group.gather(to_json(text::Value(std::move(cuts))))) {
        const auto list = text::read_json(some);
        for (const text::Value& entry : *list.value().list())
            work.cuts[static_cast<size_t>(*(*entry.list())[0].integer())] =
                *(*entry.list())[1].string();
    }
    if (auto agreed = scan_tables(work, group)) return *agreed;
    return work;
}

namespace {

using Counts = std::vector<RowFile::Count>;

// Counts the rows of this rank's share of the items from `first` on.
std::optional<Failure> count_share(const WorkList& work, const Share& share, int64_t first,
                                   std::vector<double>& rows, std::vector<double>& places) {
    std::unique_ptr<RowFile> file;
    size_t open_number = 0;
    for (int64_t item = first + share.first; item < first + share.last; ++item) {
        const size_t number = work.file_of(item);
        if (file == nullptr || number != open_number) {
            auto opened = work.open(number);
            if (!opened) return opened.failure();
            file = std::move(opened).value();
            open_number = number;
        }
        const auto at = static_cast<size_t>(item - first);
        const int64_t block = work.place_of({number, item, 0}).block;
        for (int64_t part = 0; part < file->num_parts(block); ++part) {
            const auto count = file->count({block, part});
            if (!count) return count.failure();
            rows[at] += static_cast<double>(count.value().rows);
            places[at] += static_cast<double>(count.value().places);
        }
    }
    return std::nullopt;
}

// Appends the counts of the items up to `last`. Collective over the group.
std::optional<comm::AgreedFailure> count_more(const WorkList& work, int64_t first, int64_t last,
                                              const comm::Group& group, Counts& counts) {
    const int64_t begin = first + std::ssize(counts);
    std::vector<double> rows(static_cast<size_t>(last - begin));
    std::vector<double> places(rows.size());
    const auto failure = count_share(work, share_of(last - begin, group), begin, rows, places);
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    rows = group.sum(std::move(rows));
    places = group.sum(std::move(places));
    for (size_t i = 0; i < rows.size(); ++i)
        counts.push_back({static_cast<int64_t>(places[i]), static_cast<int64_t>(rows[i])});
    return std::nullopt;
}

int64_t rows_in(const Counts& counts) {
    int64_t rows = 0;
    for (const RowFile::Count& count : counts) rows += count.rows;
    return rows;
}

// Counts as many blocks as the slice needs, in rounds of doubling size, so that the first rows of a
// large file need no pass over all of it. Collective over the group.
comm::Agreed<Counts> count_for(const WorkList& work, const SplitSlice& slice, int64_t first,
                               int64_t last, const comm::Group& group) {
    const int64_t needed = slice.rows_to_count().value_or(INT64_MAX);
    Counts counts;
    while (std::ssize(counts) < last - first && rows_in(counts) < needed) {
        const int64_t done = std::ssize(counts);
        const bool counts_all = needed == INT64_MAX;
        const int64_t round =
            counts_all ? last - first : std::max<int64_t>(4 * int64_t{group.size()}, done);
        if (auto failure =
                count_more(work, first, std::min(last, first + done + round), group, counts))
            return *failure;
    }
    return counts;
}

// Finds the blocks of a file with rows of the range, which is relative to the file's first row.
// Returns their number.
int64_t take_blocks(std::span<const RowFile::Count> blocks, const RowRange& range,
                    FileSlice& slice) {
    int64_t before = 0;
    int64_t places = 0;
    int64_t taken = 0;
    for (size_t block = 0; block < blocks.size(); ++block) {
        const int64_t end = before + blocks[block].rows;
        if (end > range.begin && before < range.end && blocks[block].rows > 0) {
            if (taken == 0)
                slice = {.first_block = static_cast<int64_t>(block),
                         .places_before = places,
                         .first_row = std::max<int64_t>(0, range.begin - before)};
            taken = static_cast<int64_t>(block) - slice.first_block + 1;
            slice.end_in_last_block = end > range.end ? range.end - before : INT64_MAX;
        }
        before = end;
        places += blocks[block].places;
    }
    return taken;
}

}  // namespace

std::optional<comm::AgreedFailure> apply_slices(WorkList& work, std::span<const InputSlice> slices,
                                                const comm::Group& group,
                                                std::vector<std::string>& warnings) {
    std::vector<int64_t> taken(work.files.size());
    for (size_t i = 0; i < taken.size(); ++i)
        taken[i] = work.first_items[i + 1] - work.first_items[i];
    for (size_t number = 0; number < slices.size(); ++number) {
        const SplitSlice& slice = slices[number].slice;
        if (slice.takes_all()) continue;
        const auto [first, last] =
            std::ranges::equal_range(work.files, number, {}, &InputFile::slice);
        const auto first_file = static_cast<size_t>(first - work.files.begin());
        const auto last_file = static_cast<size_t>(last - work.files.begin());
        const int64_t first_item = work.first_items[first_file];
        const auto counts = count_for(work, slice, first_item, work.first_items[last_file], group);
        if (!counts) return counts.failure();
        const int64_t num_rows = rows_in(counts.value());
        const auto range = rows_of(slice, num_rows);
        const auto refuse = [&](const Failure& why) {
            return comm::found_by_all(
                {why.code, format_text("{}: {}", slices[number].shown, why.message)});
        };
        if (!range) return refuse(range.failure());
        const bool is_counted =
            std::ssize(counts.value()) == work.first_items[last_file] - first_item;
        const std::string has = format_text("{}{}{} rows", slice.split,
                                            is_counted ? " has " : " has at least ", num_rows);
        if (range.value().begin >= range.value().end)
            return refuse({ExitCode::bad_data,
                           format_text("{} holds no row: {}; name others", to_text(slice), has)});
        if (reaches_beyond(slice, num_rows))
            warnings.push_back(format_text("{}: {} names rows beyond the last one: {}",
                                           slices[number].shown, to_text(slice), has));
        int64_t before = 0;  // rows of earlier files
        for (size_t file = first_file; file < last_file; ++file) {
            const int64_t counted = std::ssize(counts.value());
            const int64_t begin = std::min(counted, work.first_items[file] - first_item);
            const int64_t end = std::min(counted, work.first_items[file + 1] - first_item);
            const auto blocks =
                std::span(counts.value())
                    .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
            taken[file] =
                take_blocks(blocks, {range.value().begin - before, range.value().end - before},
                            work.slices[file]);
            for (const RowFile::Count& count : blocks) before += count.rows;
        }
    }
    std::partial_sum(taken.begin(), taken.end(), work.first_items.begin() + 1);
    return std::nullopt;
}

}  // namespace ringshard::data
