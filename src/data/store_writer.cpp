#include "store_writer.hpp"

#include "bad_rows.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/data/array_file.hpp"

namespace ringshard::data {

namespace {

// A count over the ranks before this one, and over all ranks. Collective over the group.
struct Count {
    uint64_t before = 0;
    uint64_t total = 0;
};
Count count(const comm::Group& group, uint64_t mine) {
    Count count;
    const std::vector<int64_t> all = group.gather(static_cast<int64_t>(mine));
    for (size_t rank = 0; rank < all.size(); ++rank) {
        if (static_cast<int>(rank) < group.rank()) count.before += static_cast<uint64_t>(all[rank]);
        count.total += static_cast<uint64_t>(all[rank]);
    }
    return count;
}

// Writes this rank's part of the store. Collective over the group.
class StoreWriter {
public:
    StoreWriter(TokenizedShare& share, const WorkList& work, const TokenSpool& spool,
                size_t num_sources, const comm::Group& group)
        : share_(share), work_(work), spool_(spool), group_(group), per_source_(num_sources) {}

    // `about`: of the root.
    std::optional<comm::AgreedFailure> write(const std::filesystem::path& file, text::Value about) {
        find_first_rows();
        const ArrayLayout layout = plan();
        // The root creates the file before others write to it, and writes the head after they have
        // finished.
        std::optional<ArrayFileWriter> writer;
        const auto open = [&](Expected<ArrayFileWriter> opened) {
            if (!opened) return std::optional(opened.failure());
            writer.emplace(std::move(opened).value());
            return std::optional<Failure>();
        };
        std::optional<Failure> failure;
        if (group_.is_root()) failure = open(ArrayFileWriter::begin(file, layout));
        if (auto agreed = comm::first_failure(group_, failure)) return agreed;
        if (!group_.is_root()) failure = open(ArrayFileWriter::join(file, layout));
        if (!failure) failure = write_part(*writer);
        if (auto agreed = comm::first_failure(group_, failure)) return agreed;
        const auto sum = group_.sum(static_cast<int64_t>(writer->chunk_sum()));
        about.set("places_sum", text::Value(group_.sum(static_cast<int64_t>(places_sum_))));
        if (group_.is_root())
            failure = writer->write_head(to_json(about), static_cast<uint64_t>(sum));
        return comm::first_failure(group_, failure);
    }

private:
    // Counts the rows of a file before each part. Collective over the group.
    void find_first_rows() {
        int64_t before = rows_before_share(share_, group_);
        for (size_t i = 0; i < share_.parts.size(); ++i) {
            const size_t file = share_.parts[i].file;
            if (i > 0 && share_.parts[i - 1].file != file) before = 0;
            first_rows_.push_back(work_.slices[file].places_before + before);
            before += share_.num_rows[i];
        }
    }

    // Agrees on the sizes. Collective over the group.
    ArrayLayout plan() {
        uint64_t tokens = 0;
        uint64_t samples = 0;
        uint64_t documents = 0;
        uint64_t runs = 0;
        has_labels_ = has_weights_ = has_documents_ = false;
        for (SpooledBlock& block : share_.blocks) {
            has_labels_ = has_labels_ || block.has_labels;
            has_weights_ = has_weights_ || block.has_weights;
            has_documents_ = has_documents_ || block.has_documents();
        }
        has_labels_ = group_.maximum(has_labels_ ? 1 : 0) == 1;
        has_weights_ = group_.maximum(has_weights_ ? 1 : 0) == 1;
        has_documents_ = group_.maximum(has_documents_ ? 1 : 0) == 1;
        for (size_t i = 0; i < share_.blocks.size(); ++i) {
            SpooledBlock& block = share_.blocks[i];
            if (has_documents_) block.rest.give_documents(block.num_tokens);
            tokens += block.num_tokens;
            samples += block.rest.samples.size();
            documents += block.rest.document_lengths.size();
            runs += share_.runs[i].size();
            per_source_[work_.files[share_.parts[i].file].source] +=
                static_cast<double>(block.rest.samples.size());
        }
        per_source_ = group_.sum(per_source_);
        tokens_ = count(group_, tokens);
        samples_ = count(group_, samples);
        documents_ = count(group_, documents);
        runs_ = count(group_, runs);
        std::vector<ArrayPlace> arrays{{"source_ends", per_source_.size() * sizeof(uint64_t)},
                                       {"tokens", tokens_.total * sizeof(int32_t)},
                                       {"samples", samples_.total * sizeof(Sample)}};
        if (has_labels_) arrays.push_back({"labels", tokens_.total * sizeof(int32_t)});
        if (has_weights_) arrays.push_back({"weights", tokens_.total * sizeof(float)});
        if (has_documents_) {
            arrays.push_back({"document_ends", samples_.total * sizeof(uint64_t)});
            arrays.push_back({"document_lengths", documents_.total * sizeof(uint32_t)});
        }
        // The last one, so that the places of the others, which their hashes cover, are those of a
        // store without it.
        arrays.push_back({"places", runs_.total * sizeof(SampleRun)});
        chunks_ = count(group_, count_chunks());
        return {std::move(arrays), chunks_.total};
    }

    // Returns the number of chunks that write_part() makes on this rank.
    uint64_t count_chunks() const {
        uint64_t chunks = group_.is_root() ? chunks_of(per_source_.size() * sizeof(uint64_t)) : 0;
        for (const std::vector<RowRun>& runs : share_.runs)
            chunks += chunks_of(runs.size() * sizeof(SampleRun));
        for (const SpooledBlock& block : share_.blocks) {
            const uint64_t samples = block.rest.samples.size();
            chunks += chunks_of(block.num_tokens * sizeof(int32_t)) * (has_labels_ ? 2 : 1) +
                      chunks_of(samples * sizeof(Sample));
            if (has_weights_) chunks += chunks_of(block.num_tokens * sizeof(float));
            if (has_documents_)
                chunks += chunks_of(samples * sizeof(uint64_t)) +
                          chunks_of(block.rest.document_lengths.size() * sizeof(uint32_t));
        }
        return chunks;
    }

    // Chunks end with blocks, so they are the same at any number of ranks.
    std::optional<Failure> write_part(ArrayFileWriter& file) {
        if (group_.is_root()) {
            std::vector<uint64_t> ends;
            uint64_t end = 0;
            for (const double number : per_source_)
                ends.push_back(end += static_cast<uint64_t>(number));
            if (auto failure = file.write("source_ends", 0, std::as_bytes(std::span(ends))))
                return failure;
        }
        for (size_t i = 0; i < share_.blocks.size(); ++i) {
            if (auto failure = write_places(i, file)) return failure;
            if (auto failure = write_block(share_.blocks[i], file)) return failure;
        }
        return file.finish_part(chunks_.before);
    }

    // The content of a store does not depend on the places of its samples.
    std::optional<Failure> write_places(size_t part, ArrayFileWriter& file) {
        std::vector<SampleRun> runs;
        for (const RowRun& run : share_.runs[part])
            runs.push_back({samples_.before + run.sample,
                            static_cast<uint64_t>(first_rows_[part] + run.row),
                            static_cast<uint32_t>(share_.parts[part].file), share_.units[part]});
        const uint64_t sum_before = file.chunk_sum();
        if (auto failure = file.write("places", runs_.before * sizeof(SampleRun),
                                      std::as_bytes(std::span(runs))))
            return failure;
        places_sum_ += file.chunk_sum() - sum_before;
        runs_.before += runs.size();
        return std::nullopt;
    }

    std::optional<Failure> write_block(SpooledBlock& block, ArrayFileWriter& file) {
        SampleList list = std::move(block.rest);
        if (auto failure = spool_.get(block, list)) return failure;
        if (has_labels_) list.give_labels();
        if (has_weights_) list.give_weights();
        for (Sample& sample : list.samples) sample.begin += tokens_.before;
        for (uint64_t& end : list.document_ends) end += documents_.before;
        const auto put = [&]<class T>(const char* array, const std::vector<T>& items,
                                      uint64_t before) {
            return file.write(array, before * sizeof(T), std::as_bytes(std::span(items)));
        };
        if (auto failure = put("tokens", list.tokens, tokens_.before)) return failure;
        if (auto failure = put("samples", list.samples, samples_.before)) return failure;
        if (has_labels_)
            if (auto failure = put("labels", list.labels, tokens_.before)) return failure;
        if (has_weights_)
            if (auto failure = put("weights", list.weights, tokens_.before)) return failure;
        if (has_documents_) {
            if (auto failure = put("document_ends", list.document_ends, samples_.before))
                return failure;
            if (auto failure = put("document_lengths", list.document_lengths, documents_.before))
                return failure;
        }
        tokens_.before += list.tokens.size();
        samples_.before += list.samples.size();
        documents_.before += list.document_lengths.size();
        return std::nullopt;
    }

    TokenizedShare& share_;
    const WorkList& work_;
    const TokenSpool& spool_;
    const comm::Group& group_;
    std::vector<double> per_source_;   // samples over all ranks
    std::vector<int64_t> first_rows_;  // of the parts
    uint64_t places_sum_ = 0;          // of the chunks of places
    Count tokens_, samples_, documents_, runs_, chunks_;
    bool has_labels_ = false;
    bool has_weights_ = false;
    bool has_documents_ = false;
};

}  // namespace

std::optional<comm::AgreedFailure> write_store(TokenizedShare& share, const WorkList& work,
                                               const TokenSpool& spool, size_t num_sources,
                                               const std::filesystem::path& file, text::Value about,
                                               const comm::Group& group) {
    return StoreWriter(share, work, spool, num_sources, group).write(file, std::move(about));
}

}  // namespace ringshard::data
