#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include "arrow_value.hpp"
#include "class_labels.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// All batches of the file, memory-mapped: the system reads a batch with its first row.
class ArrowRows : public RowFile {
public:
    ArrowRows(std::filesystem::path name, Batches batches, std::vector<std::string> wanted)
        : RowFile(std::move(name), RowUnit::row),
          batches_(std::move(batches)),
          wanted_(std::move(wanted)) {}

    int64_t num_blocks() const override { return static_cast<int64_t>(batches_.size()); }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        const arrow::RecordBatch& batch = *batches_[static_cast<size_t>(part.block)];
        const auto& texts = batch.schema()->metadata();
        const auto labels = ClassLabels::of(
            texts != nullptr ? texts->Get("huggingface").ValueOr(std::string()) : std::string());
        for (int64_t i = 0; i < batch.num_rows(); ++i) {
            auto row = row_of(batch, i, wanted_);
            if (row) labels.add(row.value(), wanted_);
            use(i, std::move(row));
        }
        return batch.num_rows();
    }

    Expected<Count> count(const Part& part) const override {
        const int64_t rows = batches_[static_cast<size_t>(part.block)]->num_rows();
        return Count{rows, rows};
    }

private:
    Batches batches_;
    std::vector<std::string> wanted_;
};

arrow::Result<Batches> read_stream(const std::shared_ptr<arrow::io::InputStream>& file) {
    ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchStreamReader::Open(file));
    return reader->ToRecordBatches();
}

arrow::Result<Batches> read_batches_of_file(
    const std::shared_ptr<arrow::io::RandomAccessFile>& file) {
    ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchFileReader::Open(file));
    Batches batches;
    for (int i = 0; i < reader->num_record_batches(); ++i) {
        ARROW_ASSIGN_OR_RAISE(batches.emplace_back(), reader->ReadRecordBatch(i));
    }
    return batches;
}

arrow::Result<Batches> read_batches(const std::filesystem::path& path) {
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::MemoryMappedFile::Open(
                                               path.string(), arrow::io::FileMode::READ));
    ARROW_ASSIGN_OR_RAISE(const auto start, file->ReadAt(0, 6));
    const bool is_file = start->ToString() == "ARROW1";
    ARROW_ASSIGN_OR_RAISE(const Batches batches,
                          is_file ? read_batches_of_file(file) : read_stream(file));
    for (const auto& batch : batches) ARROW_RETURN_NOT_OK(batch->Validate());
    return batches;
}

}  // namespace

Expected<std::unique_ptr<RowFile>> open_arrow(const std::filesystem::path& path,
                                              const std::vector<std::string>& wanted) {
    auto batches = read_batches(path);
    if (!batches.ok()) return arrow_failure(path.string(), batches.status());
    return std::unique_ptr<RowFile>(
        std::make_unique<ArrowRows>(path, std::move(batches).ValueUnsafe(), wanted));
}

}  // namespace ringshard::data
