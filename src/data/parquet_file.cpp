#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "arrow_value.hpp"
#include "class_labels.hpp"
#include "ringshard/data/left_aside.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

// A part is up to part_rows rows of a row group. A block is a fraction of a group, so that several
// ranks can share a large one. Each rank reads the group from its beginning, so there are few
// blocks.
constexpr int64_t part_rows = 1000;
constexpr int64_t blocks_per_group = 8;
constexpr int64_t buffer_bytes = 1 << 20;  // per column

struct RowBlock {
    int group = 0;
    int64_t first = 0;  // within the group
    int64_t count = 0;
};

constexpr int64_t parts_of(int64_t rows) { return (rows + part_rows - 1) / part_rows; }

std::vector<RowBlock> blocks_of(const parquet::FileMetaData& file) {
    std::vector<RowBlock> blocks;
    for (int group = 0; group < file.num_row_groups(); ++group) {
        const int64_t rows = file.RowGroup(group)->num_rows();
        const int64_t step = (parts_of(rows) + blocks_per_group - 1) / blocks_per_group * part_rows;
        for (int64_t first = 0; first < rows; first += step)
            blocks.push_back({group, first, std::min(step, rows - first)});
    }
    return blocks;
}

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// Reads a row group once, for all threads that need parts of it.
class GroupReader {
public:
    // `first_part`: skip the parts before it.
    GroupReader(std::unique_ptr<parquet::arrow::FileReader> file,
                std::unique_ptr<arrow::RecordBatchReader> batches, int64_t rows, int64_t first_part)
        : file_(std::move(file)),
          batches_(std::move(batches)),
          rows_(rows),
          first_part_(first_part) {}

    // Returns the rows of a part, once; nothing if the reader has passed it.
    arrow::Result<std::optional<Batches>> take(int64_t part) {
        const std::lock_guard lock(mutex_);
        const int64_t end = std::min(rows_, (part + 1) * part_rows);
        if (next_row_ >= end && !waiting_.contains(part)) return std::nullopt;
        while (next_row_ < end) {
            std::shared_ptr<arrow::RecordBatch> batch;
            ARROW_RETURN_NOT_OK(batches_->ReadNext(&batch));
            if (batch == nullptr) return arrow::Status::Invalid("a row group ends early");
            ARROW_RETURN_NOT_OK(batch->Validate());
            put_aside(*batch);
        }
        return std::optional(std::move(waiting_.extract(part).mapped()));
    }

    bool is_used_up() const {
        const std::lock_guard lock(mutex_);
        return next_row_ >= rows_ && waiting_.empty();
    }

private:
    // Splits batches at the borders of parts.
    void put_aside(const arrow::RecordBatch& batch) {
        for (int64_t done = 0; done < batch.num_rows();) {
            const int64_t part = next_row_ / part_rows;
            const int64_t count =
                std::min(batch.num_rows() - done, (part + 1) * part_rows - next_row_);
            if (part >= first_part_) waiting_[part].push_back(batch.Slice(done, count));
            done += count;
            next_row_ += count;
        }
    }

    mutable std::mutex mutex_;
    std::unique_ptr<parquet::arrow::FileReader> file_;  // owns the data of batches_
    std::unique_ptr<arrow::RecordBatchReader> batches_;
    int64_t rows_;
    int64_t first_part_;
    int64_t next_row_ = 0;
    std::map<int64_t, Batches> waiting_;
};

class ParquetRows : public RowFile {
public:
    ParquetRows(std::filesystem::path name, std::shared_ptr<parquet::FileMetaData> file,
                std::vector<int> leaves, std::vector<std::string> columns,
                std::vector<std::string> wanted, ClassLabels labels)
        : RowFile(std::move(name), RowUnit::row),
          file_(std::move(file)),
          leaves_(std::move(leaves)),
          columns_(std::move(columns)),
          wanted_(std::move(wanted)),
          labels_(std::move(labels)),
          blocks_(blocks_of(*file_)) {}

    int64_t num_blocks() const override { return static_cast<int64_t>(blocks_.size()); }
    int64_t num_parts(int64_t block) const override {
        return parts_of(blocks_[static_cast<size_t>(block)].count);
    }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        const arrow::Status status = read_part(part, use);
        if (!status.ok()) return arrow_failure(name_.string(), status);
        return rows_in(part);
    }

    Expected<Count> count(const Part& part) const override {
        return Count{rows_in(part), rows_in(part)};
    }

private:
    int64_t rows_in(const Part& part) const {
        return std::min(part_rows,
                        blocks_[static_cast<size_t>(part.block)].count - part.part * part_rows);
    }
    arrow::Status read_part(const Part& part, const Use& use) const {
        const RowBlock& block = blocks_[static_cast<size_t>(part.block)];
        const int64_t in_group = block.first / part_rows + part.part;
        ARROW_ASSIGN_OR_RAISE(const Batches batches, take(block.group, in_group));
        int64_t row = 0;
        for (const auto& batch : batches)
            for (int64_t i = 0; i < batch->num_rows(); ++i)
                use(row++, with_all_columns(row_of(*batch, i, wanted_)));
        return arrow::Status::OK();
    }

    // Returns the rows of a part of a group. Reads the group again if the reader has passed the
    // part.
    arrow::Result<Batches> take(int group, int64_t part) const {
        std::shared_ptr<GroupReader> reader;
        {
            const std::lock_guard lock(mutex_);
            std::shared_ptr<GroupReader>& shared = readers_[group];
            if (shared == nullptr) {
                ARROW_ASSIGN_OR_RAISE(shared, open_group(group, part));
            }
            reader = shared;
        }
        ARROW_ASSIGN_OR_RAISE(std::optional<Batches> batches, reader->take(part));
        if (!batches) {
            ARROW_ASSIGN_OR_RAISE(reader, open_group(group, part));
            ARROW_ASSIGN_OR_RAISE(batches, reader->take(part));
        }
        const std::lock_guard lock(mutex_);
        const auto found = readers_.find(group);
        if (found != readers_.end() && found->second->is_used_up()) readers_.erase(found);
        return *std::move(batches);
    }

    arrow::Result<std::shared_ptr<GroupReader>> open_group(int group, int64_t first_part) const {
        parquet::ReaderProperties properties;
        properties.enable_buffered_stream();
        properties.set_buffer_size(buffer_bytes);
        parquet::ArrowReaderProperties arrow_properties;
        arrow_properties.set_batch_size(part_rows);
        arrow_properties.set_pre_buffer(false);
        parquet::arrow::FileReaderBuilder builder;
        ARROW_RETURN_NOT_OK(builder.OpenFile(name_.string(), false, properties, file_));
        builder.properties(arrow_properties);
        ARROW_ASSIGN_OR_RAISE(auto file, builder.Build());
        ARROW_ASSIGN_OR_RAISE(auto batches, file->GetRecordBatchReader({group}, leaves_));
        return std::make_shared<GroupReader>(std::move(file), std::move(batches),
                                             file_->RowGroup(group)->num_rows(), first_part);
    }

    // Adds the names of columns that were not read.
    Expected<text::Value> with_all_columns(Expected<text::Value> row) const {
        if (!row) return row;
        for (const std::string& name : columns_)
            if (row.value().find(name) == nullptr)
                row.value().object()->emplace_back(name, text::Value());
        labels_.add(row.value(), wanted_);
        return row;
    }

    std::shared_ptr<parquet::FileMetaData> file_;
    std::vector<int> leaves_;
    std::vector<std::string> columns_;
    std::vector<std::string> wanted_;
    ClassLabels labels_;
    std::vector<RowBlock> blocks_;
    mutable std::mutex mutex_;
    mutable std::map<int, std::shared_ptr<GroupReader>> readers_;  // by group
};

// Returns the indices of the leaf columns of the wanted columns; nested columns have several. For
// images, audio and video, selects one leaf, without the bytes if possible: it shows whether there
// is media.
std::vector<int> wanted_leaves(const parquet::SchemaDescriptor& schema,
                               const std::vector<std::string>& wanted) {
    std::vector<int> leaves;
    std::map<std::string, int> media;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
        const std::string& name = schema.GetColumnRoot(leaf)->name();
        if (std::ranges::find(wanted, name) != wanted.end()) {
            leaves.push_back(leaf);
        } else if (is_media_column(name)) {
            const auto& type = schema.Column(leaf)->logical_type();
            const bool is_text = type != nullptr && type->is_string();
            if (is_text || !media.contains(name)) media[name] = leaf;
        }
    }
    for (const auto& [name, leaf] : media) leaves.push_back(leaf);
    std::ranges::sort(leaves);
    return leaves;
}

arrow::Result<std::shared_ptr<parquet::FileMetaData>> read_metadata(
    const std::filesystem::path& path) {
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.OpenFile(path.string()));
    return builder.raw_reader()->metadata();
}

}  // namespace

Expected<std::unique_ptr<RowFile>> open_parquet(const std::filesystem::path& path,
                                                const std::vector<std::string>& wanted) {
    auto metadata = read_metadata(path);
    if (!metadata.ok()) return arrow_failure(path.string(), metadata.status());
    const auto& file = *metadata;
    const auto& texts = file->key_value_metadata();
    const std::string about =
        texts != nullptr ? texts->Get("huggingface").ValueOr(std::string()) : std::string();
    std::vector<std::string> columns;
    const auto& root = *file->schema()->group_node();
    for (int i = 0; i < root.field_count(); ++i) columns.push_back(root.field(i)->name());
    return std::unique_ptr<RowFile>(
        std::make_unique<ParquetRows>(path, file, wanted_leaves(*file->schema(), wanted),
                                      std::move(columns), wanted, ClassLabels::of(about)));
}

}  // namespace ringshard::data
