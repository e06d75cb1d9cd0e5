#include "stored_scores.hpp"

#include <algorithm>
#include <cmath>

#include "ringshard/base/text.hpp"
#include "ringshard/data/token_store.hpp"
#include "score_index.hpp"

namespace ringshard::data {

namespace fs = std::filesystem;

namespace {

// Consecutive samples whose scores are written at once.
struct SampleBlock {
    int64_t first;
    int64_t last;
    uint64_t begin;  // of its tokens in the store
    uint64_t end;
};
constexpr uint64_t block_entries = uint64_t{1} << 20;

// The same blocks at any number of ranks.
std::vector<SampleBlock> blocks_of(const TokenStore& store, int64_t first_sample,
                                   int64_t per_token) {
    std::vector<SampleBlock> blocks;
    for (int64_t sample = first_sample; sample < store.size(); ++sample) {
        const uint64_t begin = store.sample(sample).begin;
        if (blocks.empty() ||
            (blocks.back().end - blocks.back().begin) * static_cast<uint64_t>(per_token) >=
                block_entries)
            blocks.push_back({sample, sample, begin, begin});
        blocks.back().last = sample + 1;
        blocks.back().end = begin + store.length(sample);
    }
    return blocks;
}

// Fills the scores of blocks.
class BlockFiller {
public:
    BlockFiller(const ScoreChoice& choice, const std::vector<fs::path>& files,
                const ScoreGroups& found, const RowsByTokens& rows, const TokenStore& store)
        : choice_(choice), files_(files), found_(found), rows_(rows), store_(store) {}

    std::optional<Failure> fill(const SampleBlock& block) {
        const auto entries =
            static_cast<size_t>((block.end - block.begin)) * static_cast<size_t>(found_.per_token);
        tokens.assign(entries, 0);
        log_probs.assign(entries, 0);
        has_scores.assign(static_cast<size_t>(block.last - block.first), 0);
        std::vector<std::pair<int64_t, int64_t>> rows;  // of the files, and their samples
        for (int64_t sample = block.first; sample < block.last; ++sample) {
            const std::vector<int32_t> of_sample = sample_tokens(sample);
            const std::pair<uint64_t, int64_t> first{hash_tokens(of_sample), 0};
            const auto row = std::ranges::lower_bound(rows_, first);
            if (row != rows_.end() && row->first == first.first)
                rows.emplace_back(row->second, sample);
        }
        std::ranges::sort(rows);
        for (const auto& [row, sample] : rows)
            if (auto failure = fill_sample(row, sample, block)) return failure;
        return std::nullopt;
    }

    // Of the last block: per_token of each token, and whether a sample has some.
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<uint8_t> has_scores;
    int32_t largest_token = -1;  // of all blocks

private:
    std::vector<int32_t> sample_tokens(int64_t sample) const {
        std::vector<int32_t> of_sample(store_.length(sample));
        for (size_t i = 0; i < of_sample.size(); ++i)
            of_sample[i] = store_.token(store_.sample(sample).begin + i);
        return of_sample;
    }

    std::optional<Failure> fill_sample(int64_t row, int64_t sample, const SampleBlock& block) {
        const auto next =
            std::ranges::upper_bound(found_.groups, row, {}, &ScoreGroups::Group::first_row);
        const auto group = static_cast<size_t>(next - found_.groups.begin()) - 1;
        if (group_ != group) {
            auto read = read_score_group(files_[found_.groups[group].file],
                                         found_.groups[group].number, ScoreColumns::all);
            if (!read) return read.failure();
            read_ = std::move(read).value();
            group_ = group;
        }
        const int64_t in_group = row - found_.groups[group].first_row;
        if (!std::ranges::equal(tokens_of(read_, in_group), sample_tokens(sample)))
            return std::nullopt;  // another row with the same hash
        has_scores[static_cast<size_t>(sample - block.first)] = 1;
        if (store_.length(sample) == 0) return std::nullopt;
        std::vector<bool> begins_document(store_.length(sample), false);
        begins_document[0] = true;
        for (size_t at = 0; const uint32_t length : store_.documents(sample)) {
            if (at < begins_document.size()) begins_document[at] = true;
            at += length;
        }
        const uint64_t begin = store_.sample(sample).begin;
        for (size_t i = 0; i < begins_document.size(); ++i) {
            if (begins_document[i]) continue;
            const auto token = static_cast<size_t>(read_.row_starts[static_cast<size_t>(in_group)] +
                                                   static_cast<int64_t>(i));
            if (auto why = fill_token(token, static_cast<size_t>(begin - block.begin) + i))
                return refuse_scores(
                    choice_, format_text("row {}, token {}: {}; {}", row, i, *why, choice_.cure));
        }
        return std::nullopt;
    }

    // Returns why its scores cannot be used.
    std::optional<std::string> fill_token(size_t token, size_t place) {
        const auto k = static_cast<size_t>(found_.per_token);
        const auto first = static_cast<size_t>(read_.top_starts[token]);
        const size_t count = static_cast<size_t>(read_.top_starts[token + 1]) - first;
        if (count < k)
            return format_text("has {} scores, and others have {}", count, found_.per_token);
        const auto ids = std::span(read_.top_tokens).subspan(first, k);
        const auto values = std::span(read_.top_log_probs).subspan(first, k);
        double mass = 0;
        for (const float value : values) mass += std::exp(static_cast<double>(value));
        constexpr double rounding = 1e-3;
        if (!std::isfinite(mass) || mass > 1 + rounding || std::ranges::min(values) < -1e30F)
            return format_text(
                "its top_logprobs are no logarithms of probabilities: their sum is "
                "{}",
                mass);
        std::vector<int32_t> sorted(ids.begin(), ids.end());
        std::ranges::sort(sorted);
        if (sorted.front() < 0 || std::ranges::adjacent_find(sorted) != sorted.end())
            return "its top_ids are not different tokens";
        largest_token = std::max(largest_token, sorted.back());
        std::ranges::copy(ids, tokens.begin() + static_cast<int64_t>(place * k));
        std::ranges::copy(values, log_probs.begin() + static_cast<int64_t>(place * k));
        return std::nullopt;
    }

    const ScoreChoice& choice_;
    const std::vector<fs::path>& files_;
    const ScoreGroups& found_;
    const RowsByTokens& rows_;
    const TokenStore& store_;
    std::optional<size_t> group_;  // that was read last
    ScoredGroup read_;
};

uint64_t chunks_of_block(const SampleBlock& block, int64_t per_token) {
    const uint64_t bytes =
        (block.end - block.begin) * static_cast<uint64_t>(per_token) * sizeof(int32_t);
    return 2 * chunks_of(bytes) + chunks_of(static_cast<uint64_t>(block.last - block.first));
}

// Writes the blocks of this rank. The file begins with the first block.
std::optional<Failure> write_blocks(std::span<const SampleBlock> blocks, GroupShare share,
                                    int64_t per_token, BlockFiller& filler,
                                    ArrayFileWriter& writer) {
    const auto bytes_at = [&](uint64_t place) {
        return (place - blocks.front().begin) * static_cast<uint64_t>(per_token) * sizeof(int32_t);
    };
    uint64_t first_chunk = 0;
    for (size_t i = 0; i < share.first; ++i) first_chunk += chunks_of_block(blocks[i], per_token);
    for (const SampleBlock& block : blocks.subspan(share.first, share.last - share.first)) {
        if (auto failure = filler.fill(block)) return failure;
        const uint64_t at = bytes_at(block.begin);
        if (auto failure = writer.write("tokens", at, std::as_bytes(std::span(filler.tokens))))
            return failure;
        if (auto failure =
                writer.write("log_probs", at, std::as_bytes(std::span(filler.log_probs))))
            return failure;
        if (auto failure = writer.write("has_scores",
                                        static_cast<uint64_t>(block.first - blocks.front().first),
                                        std::as_bytes(std::span(filler.has_scores))))
            return failure;
    }
    return writer.finish_part(first_chunk);
}

}  // namespace

std::optional<comm::AgreedFailure> make_scores(const ScoreChoice& choice,
                                               const std::vector<fs::path>& files,
                                               const ArrayFile& store_file, int64_t first_sample,
                                               const fs::path& file, text::Value about,
                                               const comm::Group& group) {
    const auto store = comm::agreed(group, TokenStore::of(store_file));
    if (!store) return store.failure();
    const auto found = find_groups(choice, files, group);
    if (!found) return found.failure();
    const int64_t per_token = found.value().per_token;
    const auto rows = index_rows(files, found.value(), group);
    if (!rows) return rows.failure();
    const std::vector<SampleBlock> blocks = blocks_of(store.value(), first_sample, per_token);
    uint64_t num_chunks = 0;
    for (const SampleBlock& block : blocks) num_chunks += chunks_of_block(block, per_token);
    const uint64_t first_place = blocks.empty() ? 0 : blocks.front().begin;
    const uint64_t bytes = (store.value().num_tokens() - first_place) *
                           static_cast<uint64_t>(per_token) * sizeof(int32_t);
    const ArrayLayout layout(
        {{"tokens", bytes},
         {"log_probs", bytes},
         {"has_scores", static_cast<uint64_t>(store.value().size() - first_sample)}},
        num_chunks);
    std::optional<ArrayFileWriter> writer;
    const auto open = [&](Expected<ArrayFileWriter> opened) {
        if (!opened) return std::optional(opened.failure());
        writer.emplace(std::move(opened).value());
        return std::optional<Failure>();
    };
    // The root creates the file before others write to it.
    std::optional<Failure> failure;
    if (group.is_root()) failure = open(ArrayFileWriter::begin(file, layout));
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    if (!group.is_root()) failure = open(ArrayFileWriter::join(file, layout));
    BlockFiller filler(choice, files, found.value(), rows.value(), store.value());
    if (!failure)
        failure =
            write_blocks(blocks, share_of_rank(blocks.size(), group), per_token, filler, *writer);
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    const auto sum = static_cast<uint64_t>(group.sum(static_cast<int64_t>(writer->chunk_sum())));
    about.set("first_place", text::Value(static_cast<int64_t>(first_place)));
    about.set("per_token", text::Value(per_token));
    about.set("largest_token", text::Value(group.maximum(filler.largest_token)));
    if (group.is_root()) failure = writer->write_head(to_json(about), sum);
    return comm::first_failure(group, failure);
}

Expected<StoredScores> scores_in(const ArrayFile& file) {
    const auto about = text::read_json(file.about());
    const text::Value* const per_token = about ? about.value().find("per_token") : nullptr;
    const text::Value* const largest = about ? about.value().find("largest_token") : nullptr;
    const text::Value* const first = about ? about.value().find("first_place") : nullptr;
    if (per_token == nullptr || per_token->integer() == nullptr || *per_token->integer() < 1 ||
        largest == nullptr || largest->integer() == nullptr ||
        file.array<int32_t>("tokens").size() != file.array<float>("log_probs").size())
        return Failure{ExitCode::bad_data,
                       format_text("{} holds no scores of tokens", file.name().string())};
    return StoredScores{.per_token = *per_token->integer(),
                        .largest_token = *largest->integer(),
                        .hash = file.chunk_sum(),
                        .tokens = file.array<int32_t>("tokens"),
                        .log_probs = file.array<float>("log_probs"),
                        .owner = file.owner(),
                        .first_place = first != nullptr && first->integer() != nullptr
                                           ? static_cast<uint64_t>(*first->integer())
                                           : 0};
}

}  // namespace ringshard::data
