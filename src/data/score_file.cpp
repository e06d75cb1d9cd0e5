#include "ringshard/data/score_file.hpp"

#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <fcntl.h>
#include <parquet/arrow/writer.h>

#include <cmath>

#include "ringshard/base/files.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

namespace fs = std::filesystem;

namespace {

std::shared_ptr<arrow::Schema> schema_of(int64_t top_k) {
    arrow::FieldVector fields{arrow::field("row", arrow::int64(), false),
                              arrow::field("input_ids", arrow::list(arrow::int32()), false),
                              arrow::field("logprobs", arrow::list(arrow::float32()), false),
                              arrow::field("learned", arrow::list(arrow::boolean()), false)};
    if (top_k > 0) {
        fields.push_back(arrow::field("top_ids", arrow::list(arrow::list(arrow::int32())), false));
        fields.push_back(
            arrow::field("top_logprobs", arrow::list(arrow::list(arrow::float32())), false));
    }
    return arrow::schema(std::move(fields));
}

// A list of numbers per row.
template <class Builder>
struct ListColumn {
    std::shared_ptr<Builder> items = std::make_shared<Builder>();
    arrow::ListBuilder rows{arrow::default_memory_pool(), items};
};

// A list per token of each row.
template <class Builder>
struct NestedColumn {
    std::shared_ptr<Builder> items = std::make_shared<Builder>();
    std::shared_ptr<arrow::ListBuilder> tokens =
        std::make_shared<arrow::ListBuilder>(arrow::default_memory_pool(), items);
    arrow::ListBuilder rows{arrow::default_memory_pool(), tokens};
};

struct Columns {
    arrow::Int64Builder row;
    ListColumn<arrow::Int32Builder> ids;
    ListColumn<arrow::FloatBuilder> log_probabilities;
    ListColumn<arrow::BooleanBuilder> learned;
    NestedColumn<arrow::Int32Builder> top_ids;
    NestedColumn<arrow::FloatBuilder> top_log_probabilities;
};

// Returns false for the first token of a document: its probability is null, its list empty.
bool has_probability(const ScoredRows& rows, size_t token) {
    return !std::isnan(rows.log_probabilities[token]);
}

}  // namespace

struct ScoreFile::Parts {
    // Entries of a row group: the tokens and their top_k candidates.
    static constexpr int64_t group_entries = int64_t{1} << 20;

    fs::path name;
    fs::path work;
    int64_t top_k;
    double temperature;
    std::shared_ptr<arrow::io::FileOutputStream> stream;
    std::unique_ptr<parquet::arrow::FileWriter> writer;
    Columns columns;
    int64_t entries = 0;  // pending in the columns
    bool is_published = false;

    std::optional<Failure> failed(const arrow::Status& status) const {
        if (status.ok()) return std::nullopt;
        return Failure{ExitCode::io, format_text("{}: {}", name.string(), status.message())};
    }

    arrow::Status open() {
        ARROW_ASSIGN_OR_RAISE(stream, arrow::io::FileOutputStream::Open(work.string()));
        const auto properties = parquet::WriterProperties::Builder()
                                    .compression(arrow::Compression::ZSTD)
                                    ->disable_dictionary()
                                    ->build();
        ARROW_ASSIGN_OR_RAISE(
            writer, parquet::arrow::FileWriter::Open(
                        *schema_of(top_k), arrow::default_memory_pool(), stream, properties));
        return arrow::Status::OK();
    }

    arrow::Status add_token(const ScoredRows& rows, size_t token) {
        ARROW_RETURN_NOT_OK(columns.ids.items->Append(rows.tokens[token]));
        ARROW_RETURN_NOT_OK(columns.learned.items->Append(rows.is_learned[token]));
        if (top_k > 0) {
            ARROW_RETURN_NOT_OK(columns.top_ids.tokens->Append());
            ARROW_RETURN_NOT_OK(columns.top_log_probabilities.tokens->Append());
        }
        if (!has_probability(rows, token)) return columns.log_probabilities.items->AppendNull();
        ARROW_RETURN_NOT_OK(columns.log_probabilities.items->Append(rows.log_probabilities[token]));
        if (top_k == 0) return arrow::Status::OK();
        const size_t first = token * static_cast<size_t>(top_k);
        ARROW_RETURN_NOT_OK(columns.top_ids.items->AppendValues(&rows.top_tokens[first], top_k));
        return columns.top_log_probabilities.items->AppendValues(&rows.top_log_probabilities[first],
                                                                 top_k);
    }

    arrow::Status begin_row(int64_t number) {
        ARROW_RETURN_NOT_OK(columns.row.Append(number));
        ARROW_RETURN_NOT_OK(columns.ids.rows.Append());
        ARROW_RETURN_NOT_OK(columns.log_probabilities.rows.Append());
        ARROW_RETURN_NOT_OK(columns.learned.rows.Append());
        if (top_k == 0) return arrow::Status::OK();
        ARROW_RETURN_NOT_OK(columns.top_ids.rows.Append());
        return columns.top_log_probabilities.rows.Append();
    }

    arrow::Status add(const ScoredRows& rows) {
        size_t token = 0;
        for (size_t i = 0; i < rows.rows.size(); ++i) {
            ARROW_RETURN_NOT_OK(begin_row(rows.rows[i]));
            for (const size_t end = token + static_cast<size_t>(rows.lengths[i]); token < end;
                 ++token)
                ARROW_RETURN_NOT_OK(add_token(rows, token));
            entries += rows.lengths[i] * (1 + top_k);
            if (entries >= group_entries) ARROW_RETURN_NOT_OK(write_group());
        }
        return arrow::Status::OK();
    }

    arrow::Status write_group() {
        std::vector<arrow::ArrayBuilder*> builders{&columns.row, &columns.ids.rows,
                                                   &columns.log_probabilities.rows,
                                                   &columns.learned.rows};
        if (top_k > 0) {
            builders.push_back(&columns.top_ids.rows);
            builders.push_back(&columns.top_log_probabilities.rows);
        }
        arrow::ArrayVector arrays;
        for (arrow::ArrayBuilder* builder : builders) {
            ARROW_ASSIGN_OR_RAISE(auto array, builder->Finish());
            arrays.push_back(std::move(array));
        }
        entries = 0;
        const auto table = arrow::Table::Make(schema_of(top_k), arrays);
        return writer->WriteTable(*table, std::max<int64_t>(1, table->num_rows()));
    }

    arrow::Status finish() {
        if (columns.row.length() > 0) ARROW_RETURN_NOT_OK(write_group());
        const text::Value settings(text::Value::Object{{"temperature", text::Value(temperature)}});
        ARROW_RETURN_NOT_OK(writer->AddKeyValueMetadata(
            arrow::key_value_metadata({{score_settings_key, to_json(settings)}})));
        ARROW_RETURN_NOT_OK(writer->Close());
        return stream->Close();
    }
};

ScoreFile::ScoreFile(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ScoreFile::ScoreFile(ScoreFile&&) noexcept = default;
ScoreFile::~ScoreFile() {
    if (parts_ == nullptr || parts_->is_published) return;
    std::error_code ignored;
    fs::remove(parts_->work, ignored);
}

Expected<ScoreFile> ScoreFile::create(const fs::path& file, int64_t top_k, double temperature) {
    auto parts = std::make_unique<Parts>();
    parts->name = file;
    parts->work = file.string() + work_mark();
    parts->top_k = top_k;
    parts->temperature = temperature;
    if (auto failure = parts->failed(parts->open())) return *failure;
    return ScoreFile(std::move(parts));
}

std::optional<Failure> ScoreFile::add(const ScoredRows& rows) {
    return parts_->failed(parts_->add(rows));
}

std::optional<Failure> ScoreFile::finish() {
    if (auto failure = parts_->failed(parts_->finish())) return failure;
    auto file = File::open(parts_->work, O_RDWR);
    if (!file) return file.failure();
    return file.value().flush();
}

std::optional<Failure> ScoreFile::publish() {
    parts_->is_published = true;
    return rename_atomically(parts_->work, parts_->name);
}

}  // namespace ringshard::data
