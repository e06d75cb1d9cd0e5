#include "tokenize_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "progress.hpp"
#include "ringshard/base/shared_file.hpp"

namespace ringshard::data {

size_t WorkList::file_of(int64_t item) const {
    return static_cast<size_t>(std::ranges::upper_bound(first_items, item) - first_items.begin()) -
           1;
}

Expected<std::unique_ptr<RowFile>> WorkList::open(size_t file) const {
    const InputFile& input = files[file];
    if (input.plain != input.name)
        if (auto failure = wait_until_visible(input.plain)) return *failure;
    return open_row_file(input.plain, wanted);
}

namespace {

// The work of one thread: takes items until there are none.
class Worker {
public:
    struct Shared {
        const TokensToMake& tokens;
        const WorkList& work;
        const RowEncoder& encoder;
        std::span<const DatasetFormat> formats;
        std::vector<std::unique_ptr<RowFile>>& files;  // by number; opened before
        TokenSpool& spool;
        Progress& progress;
        int64_t first;
        int64_t last;
        const std::filesystem::path& give_up;
        std::vector<SpooledBlock>& blocks;
        std::atomic<int64_t> next;
        std::atomic<int64_t> num_bad = 0;
        std::atomic<bool> stops = false;
    };
    explicit Worker(Shared& shared) : shared_(shared), scratch_(shared.encoder) {}

    void run() {
        while (!shared_.stops) {
            const int64_t item = shared_.next++;
            if (item >= shared_.last) return;
            failure_ = tokenize(item);
            if (failure_ || shared_.num_bad > shared_.tokens.skip_bad_rows)
                std::ofstream(shared_.give_up).put('x');
            if (failure_ || exists(shared_.give_up)) shared_.stops = true;
        }
    }
    std::optional<Failure> failure_;
    std::vector<BadRow> bad_rows;

private:
    std::optional<Failure> tokenize(int64_t item) {
        const size_t number = shared_.work.file_of(item);
        const size_t source = shared_.work.files[number].source;
        SampleList samples;
        int64_t rows = 0;
        const auto use = [&](int64_t row, const Expected<text::Value>& content) {
            ++rows;
            const auto wrong =
                content ? add(content.value(), source, samples) : std::optional(content.failure());
            if (!wrong) return;
            ++shared_.num_bad;
            const auto kept = static_cast<int64_t>(bad_rows.size());
            if (kept <= shared_.tokens.skip_bad_rows)
                bad_rows.push_back({item, row, wrong->message});
        };
        const int64_t block = item - shared_.work.first_items[number];
        if (auto failure = shared_.files[number]->read(block, use)) return failure;
        auto spooled = shared_.spool.put(std::move(samples));
        if (!spooled) return spooled.failure();
        shared_.blocks[static_cast<size_t>(item - shared_.first)] = std::move(spooled).value();
        shared_.progress.add(1, rows);
        return std::nullopt;
    }

    std::optional<Failure> add(const text::Value& row, size_t source, SampleList& samples) {
        if (auto wrong = shared_.encoder.encode(only_columns(row, shared_.tokens.columns[source]),
                                                shared_.formats[source], scratch_, encoded_))
            return wrong;
        samples.add(encoded_.tokens, encoded_.labels, encoded_.document_lengths);
        return std::nullopt;
    }

    Shared& shared_;
    RowEncoder::Scratch scratch_;
    EncodedRow encoded_;
};

}  // namespace

Expected<TokenizedPart> tokenize_blocks(const TokensToMake& tokens, const WorkList& work,
                                        int64_t first, int64_t last, const RowEncoder& encoder,
                                        std::span<const DatasetFormat> formats, TokenSpool& spool,
                                        const Workshop& workshop, int num_ranks,
                                        const std::filesystem::path& give_up) {
    std::vector<std::unique_ptr<RowFile>> files(work.files.size());
    for (int64_t item = first; item < last;) {
        const size_t number = work.file_of(item);
        auto file = work.open(number);
        if (!file) return file.failure();
        files[number] = std::move(file).value();
        item = work.first_items[number + 1];
    }
    TokenizedPart part;
    part.blocks.resize(static_cast<size_t>(last - first));
    Progress progress("tokenizing", last - first, num_ranks, workshop.shows_progress);
    Worker::Shared shared{tokens,   work,  encoder, formats, files,       spool,
                          progress, first, last,    give_up, part.blocks, first};
    std::vector<Worker> workers;
    for (int i = 0; i < workshop.threads; ++i) workers.emplace_back(shared);
    {
        std::vector<std::jthread> threads;
        for (size_t i = 1; i < workers.size(); ++i)
            threads.emplace_back([&worker = workers[i]] { worker.run(); });
        workers.front().run();
    }
    for (Worker& worker : workers) {
        if (worker.failure_) return *worker.failure_;
        std::ranges::move(worker.bad_rows, std::back_inserter(part.bad_rows));
    }
    std::ranges::sort(part.bad_rows, {},
                      [](const BadRow& bad) { return std::pair(bad.item, bad.row); });
    for (int64_t item = first; item < last; ++item)
        part.sources.push_back(work.files[work.file_of(item)].source);
    part.merged_prompts = encoder.num_merged_prompts();
    return part;
}

}  // namespace ringshard::data
