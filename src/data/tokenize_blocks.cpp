#include "tokenize_blocks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "progress.hpp"
#include "unpaired.hpp"

namespace ringshard::data {

namespace {

// The work of one thread: takes items until none is left.
class Worker {
public:
    struct Shared {
        const TokensToMake& tokens;
        const WorkList& work;
        const RowEncoder& encoder;
        std::span<const DatasetFormat> formats;
        std::vector<std::unique_ptr<RowFile>>& files;  // by number, already open
        TokenSpool& spool;
        Progress& progress;
        const std::filesystem::path& give_up;
        TokenizedShare& share;
        std::atomic<size_t> next = 0;
        std::atomic<int64_t> num_bad = 0;
        std::atomic<bool> stops = false;
    };
    explicit Worker(Shared& shared)
        : left_aside(shared.formats.size()), shared_(shared), scratch_(shared.encoder) {}

    void run() {
        while (!shared_.stops) {
            const size_t part = shared_.next++;
            if (part >= shared_.share.parts.size()) return;
            failure_ = tokenize(part);
            if (failure_ || shared_.num_bad > shared_.tokens.skip_bad_rows)
                std::ofstream(shared_.give_up).put('x');
            if (failure_ || exists(shared_.give_up)) shared_.stops = true;
        }
    }
    std::optional<Failure> failure_;
    std::vector<BadRow> bad_rows;
    std::vector<LeftAside> left_aside;  // per source

private:
    std::optional<Failure> tokenize(size_t number) {
        const WorkPart& part = shared_.share.parts[number];
        const size_t source = shared_.work.files[part.file].source;
        SampleList samples;
        std::vector<RowRun>& runs = shared_.share.runs[number];
        int64_t number_of_row = 0;
        const auto use = [&](int64_t row, Expected<text::Value> content) {
            if (!part.takes(number_of_row++)) return;
            const size_t first = samples.samples.size();
            const auto wrong = content ? add(std::move(content).value(), source, samples)
                                       : std::optional(content.failure());
            if (!wrong) {
                for (size_t sample = first; sample < samples.samples.size(); ++sample)
                    note_row(sample, row, runs);
                return;
            }
            ++shared_.num_bad;
            const auto kept = static_cast<int64_t>(bad_rows.size());
            if (kept <= shared_.tokens.skip_bad_rows)
                bad_rows.push_back({number, row, wrong->message});
        };
        const auto rows = shared_.files[part.file]->read(shared_.work.place_of(part), use);
        if (!rows) return rows.failure();
        auto spooled = shared_.spool.put(std::move(samples));
        if (!spooled) return spooled.failure();
        shared_.share.blocks[number] = std::move(spooled).value();
        shared_.share.num_rows[number] = rows.value();
        shared_.progress.add(1, rows.value());
        return std::nullopt;
    }

    static void note_row(uint64_t sample, int64_t row, std::vector<RowRun>& runs) {
        if (!runs.empty() &&
            row - runs.back().row == static_cast<int64_t>(sample - runs.back().sample))
            return;
        runs.push_back({sample, row});
    }

    std::optional<Failure> add(text::Value row, size_t source, SampleList& samples) {
        const auto mapped = map_row(std::move(row), shared_.tokens.mappings[source]);
        if (!mapped) return mapped.failure();
        if (!shared_.formats[source].is_taken_apart) {
            if (auto wrong = encode(mapped.value(), source, encoded_)) return wrong;
            keep(encoded_, source, samples);
            return std::nullopt;
        }
        const auto answers = take_apart(mapped.value());
        if (!answers) return answers.failure();
        std::array<EncodedRow, 2> encoded;
        for (size_t side = 0; side < encoded.size(); ++side)
            if (auto wrong = encode(answers.value()[side], source, encoded[side])) return wrong;
        for (const EncodedRow& answer : encoded) keep(answer, source, samples);
        return std::nullopt;
    }

    std::optional<Failure> encode(const text::Value& row, size_t source, EncodedRow& into) {
        return shared_.encoder.encode(row, shared_.formats[source], scratch_, into);
    }

    void keep(const EncodedRow& row, size_t source, SampleList& samples) {
        samples.add(row.tokens, row.labels, row.document_lengths, row.weights);
        for (const Unused& unused : row.unused) left_aside[source].add(unused);
    }

    Shared& shared_;
    RowEncoder::Scratch scratch_;
    EncodedRow encoded_;
};

}  // namespace

Expected<TokenizedShare> tokenize_blocks(const TokensToMake& tokens, const WorkList& work,
                                         int64_t first, int64_t last, const RowEncoder& encoder,
                                         std::span<const DatasetFormat> formats, TokenSpool& spool,
                                         const PrepareResources& resources, int num_ranks,
                                         const std::filesystem::path& give_up) {
    TokenizedShare share;
    std::vector<std::unique_ptr<RowFile>> files(work.files.size());
    for (int64_t item = first; item < last; ++item) {
        const size_t number = work.file_of(item);
        if (files[number] == nullptr) {
            auto file = work.open(number);
            if (!file) return file.failure();
            files[number] = std::move(file).value();
        }
        const auto parts = work.parts_of(item, *files[number]);
        if (!parts) return parts.failure();
        share.parts.insert(share.parts.end(), parts.value().begin(), parts.value().end());
        share.units.resize(share.parts.size(), files[number]->unit());
    }
    share.blocks.resize(share.parts.size());
    share.num_rows.resize(share.parts.size(), -1);
    share.runs.resize(share.parts.size());
    Progress progress("tokenizing", static_cast<int64_t>(share.parts.size()), num_ranks,
                      resources.shows_progress);
    Worker::Shared shared{tokens, work, encoder, formats, files, spool, progress, give_up, share};
    std::vector<Worker> workers;
    for (int i = 0; i < resources.threads; ++i) workers.emplace_back(shared);
    {
        std::vector<std::jthread> threads;
        for (size_t i = 1; i < workers.size(); ++i)
            threads.emplace_back([&worker = workers[i]] { worker.run(); });
        workers.front().run();
    }
    share.left_aside.resize(formats.size());
    for (Worker& worker : workers) {
        for (size_t source = 0; source < formats.size(); ++source)
            share.left_aside[source].add(worker.left_aside[source]);
        if (worker.failure_) return *worker.failure_;
        std::ranges::move(worker.bad_rows, std::back_inserter(share.bad_rows));
    }
    std::ranges::sort(share.bad_rows, {},
                      [](const BadRow& bad) { return std::pair(bad.part, bad.row); });
    share.merged_prompts = encoder.num_merged_prompts();
    return share;
}

}  // namespace ringshard::data
