#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "arrow_value.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

// Rows of one row group. Large groups are shared by several blocks: reading past rows is much
// cheaper than what is done with them.
struct Block {
    int group = 0;
    int64_t first = 0;  // in the group
    int64_t count = 0;
    int64_t rows_before = 0;  // in the file
};
constexpr int64_t blocks_per_group = 8;
constexpr int64_t least_rows = 1000;

std::vector<Block> blocks_of(const parquet::FileMetaData& file) {
    std::vector<Block> blocks;
    int64_t rows_before = 0;
    for (int group = 0; group < file.num_row_groups(); ++group) {
        const int64_t rows = file.RowGroup(group)->num_rows();
        const int64_t step = std::max(least_rows, (rows + blocks_per_group - 1) / blocks_per_group);
        for (int64_t first = 0; first < rows; first += step)
            blocks.push_back({group, first, std::min(step, rows - first), rows_before + first});
        rows_before += rows;
    }
    return blocks;
}

class ParquetRows : public RowFile {
public:
    ParquetRows(std::filesystem::path name, std::shared_ptr<parquet::FileMetaData> file,
                std::vector<int> leaves, std::vector<std::string> columns,
                std::vector<std::string> wanted)
        : name_(std::move(name)),
          file_(std::move(file)),
          leaves_(std::move(leaves)),
          columns_(std::move(columns)),
          wanted_(std::move(wanted)),
          blocks_(blocks_of(*file_)) {}

    int64_t num_blocks() const override { return static_cast<int64_t>(blocks_.size()); }

    std::optional<Failure> read(int64_t number, const Use& use) const override {
        const arrow::Status status = read_block(blocks_[static_cast<size_t>(number)], use);
        return status.ok() ? std::nullopt : std::optional(arrow_failure(name_.string(), status));
    }

    std::string place(int64_t block, int64_t row) const override {
        return concat(name_.string(), ", row ",
                      blocks_[static_cast<size_t>(block)].rows_before + row + 1);
    }

private:
    arrow::Status read_block(const Block& block, const Use& use) const {
        parquet::ReaderProperties properties;
        properties.enable_buffered_stream();
        parquet::ArrowReaderProperties arrow_properties;
        arrow_properties.set_batch_size(least_rows);
        arrow_properties.set_pre_buffer(false);
        parquet::arrow::FileReaderBuilder builder;
        ARROW_RETURN_NOT_OK(builder.OpenFile(name_.string(), false, properties, file_));
        builder.properties(arrow_properties);
        ARROW_ASSIGN_OR_RAISE(const auto file, builder.Build());
        ARROW_ASSIGN_OR_RAISE(const auto reader,
                              file->GetRecordBatchReader({block.group}, leaves_));
        const int64_t end = block.first + block.count;
        for (int64_t at = 0; at < end;) {
            std::shared_ptr<arrow::RecordBatch> batch;
            ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
            if (batch == nullptr) return arrow::Status::Invalid("a row group ends early");
            ARROW_RETURN_NOT_OK(batch->Validate());
            const int64_t first = std::clamp<int64_t>(block.first - at, 0, batch->num_rows());
            for (int64_t i = first; i < std::min(batch->num_rows(), end - at); ++i)
                use(at + i - block.first, with_all_columns(row_of(*batch, i, wanted_)));
            at += batch->num_rows();
        }
        return arrow::Status::OK();
    }

    // The columns that were not read keep their names.
    Expected<text::Value> with_all_columns(Expected<text::Value> row) const {
        if (!row) return row;
        for (const std::string& name : columns_)
            if (row.value().find(name) == nullptr)
                row.value().object()->emplace_back(name, text::Value());
        return row;
    }

    std::filesystem::path name_;
    std::shared_ptr<parquet::FileMetaData> file_;
    std::vector<int> leaves_;
    std::vector<std::string> columns_;
    std::vector<std::string> wanted_;
    std::vector<Block> blocks_;
};

// The numbers of the stored columns that make up the wanted ones: nested columns have several.
std::vector<int> wanted_leaves(const parquet::SchemaDescriptor& schema,
                               const std::vector<std::string>& wanted) {
    std::vector<int> leaves;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf)
        if (std::ranges::find(wanted, schema.GetColumnRoot(leaf)->name()) != wanted.end())
            leaves.push_back(leaf);
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
    std::vector<std::string> columns;
    const auto& root = *file->schema()->group_node();
    for (int i = 0; i < root.field_count(); ++i) columns.push_back(root.field(i)->name());
    return std::unique_ptr<RowFile>(std::make_unique<ParquetRows>(
        path, file, wanted_leaves(*file->schema(), wanted), std::move(columns), wanted));
}

}  // namespace ringshard::data
