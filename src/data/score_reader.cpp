#include "score_reader.hpp"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/table.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "arrow_value.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/data/score_file.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

namespace {

arrow::Result<ScoreFileHead> read_head(const std::filesystem::path& path) {
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.OpenFile(path.string()));
    const auto file = builder.raw_reader()->metadata();
    ScoreFileHead head;
    for (int group = 0; group < file->num_row_groups(); ++group)
        head.rows_of_groups.push_back(file->RowGroup(group)->num_rows());
    const auto& texts = file->key_value_metadata();
    const auto about =
        texts != nullptr ? texts->Get(score_settings_key) : arrow::Status::KeyError("");
    if (!about.ok()) return head;
    const auto read = text::read_json(*about);
    const text::Value* const found = read ? read.value().find("temperature") : nullptr;
    if (found == nullptr || found->real() == nullptr)
        return arrow::Status::Invalid(score_settings_key, " names no temperature");
    head.temperature = *found->real();
    return head;
}

arrow::Result<std::shared_ptr<arrow::ListArray>> as_lists(
    const std::shared_ptr<arrow::Array>& array, const std::string& column) {
    if (array->type_id() != arrow::Type::LIST || array->null_count() > 0)
        return arrow::Status::Invalid("the column ", column,
                                      " has no lists as `trainer score` writes them");
    return std::static_pointer_cast<arrow::ListArray>(array);
}

arrow::Result<std::shared_ptr<arrow::ListArray>> lists_of(const arrow::Table& table,
                                                          const std::string& column) {
    const auto found = table.GetColumnByName(column);
    if (found == nullptr)
        return arrow::Status::Invalid("has no column ", column,
                                      "; `trainer score --top_k N` writes it");
    ARROW_ASSIGN_OR_RAISE(const auto whole, arrow::Concatenate(found->chunks()));
    return as_lists(whole, column);
}

// Returns the numbers of all lists, one behind the other.
template <class Array>
arrow::Result<std::vector<typename Array::value_type>> numbers_of(const arrow::ListArray& lists,
                                                                  const std::string& column) {
    using Number = typename Array::value_type;
    const auto values = std::dynamic_pointer_cast<Array>(lists.values());
    if (values == nullptr || values->null_count() > 0)
        return arrow::Status::Invalid("the column ", column, " has ",
                                      lists.values()->type()->ToString(),
                                      " or null where `trainer score` writes ",
                                      arrow::CTypeTraits<Number>::type_singleton()->ToString());
    const Number* const first = values->raw_values();
    return std::vector<Number>(first + lists.value_offset(0),
                               first + lists.value_offset(lists.length()));
}

// Returns where each list begins, and the end of the last one.
std::vector<int64_t> starts_of(const arrow::ListArray& lists) {
    std::vector<int64_t> starts;
    for (int64_t i = 0; i <= lists.length(); ++i)
        starts.push_back(lists.value_offset(i) - lists.value_offset(0));
    return starts;
}

// Returns the lists of the tokens of all rows. Checks that there is one for each token.
arrow::Result<std::shared_ptr<arrow::ListArray>> lists_of_tokens(
    const arrow::Table& table, const std::string& column, const std::vector<int64_t>& row_starts) {
    ARROW_ASSIGN_OR_RAISE(const auto rows, lists_of(table, column));
    if (starts_of(*rows) != row_starts)
        return arrow::Status::Invalid("the column ", column, " has not one list for each token");
    return as_lists(rows->values()->Slice(rows->value_offset(0), row_starts.back()), column);
}

arrow::Result<ScoredGroup> read_group(const std::filesystem::path& path, int64_t number,
                                      ScoreColumns columns) {
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.OpenFile(path.string()));
    std::vector<int> leaves;
    const auto& schema = *builder.raw_reader()->metadata()->schema();
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
        const std::string& name = schema.GetColumnRoot(leaf)->name();
        const bool is_top = name == "top_ids" || name == "top_logprobs";
        if (name == "input_ids" || (columns == ScoreColumns::all && is_top)) leaves.push_back(leaf);
    }
    ARROW_ASSIGN_OR_RAISE(const auto file, builder.Build());
    ARROW_ASSIGN_OR_RAISE(const auto table, file->ReadRowGroup(narrow<int>(number), leaves));
    ScoredGroup group;
    ARROW_ASSIGN_OR_RAISE(const auto rows, lists_of(*table, "input_ids"));
    group.row_starts = starts_of(*rows);
    ARROW_ASSIGN_OR_RAISE(group.tokens, numbers_of<arrow::Int32Array>(*rows, "input_ids"));
    if (columns == ScoreColumns::tokens) return group;
    ARROW_ASSIGN_OR_RAISE(const auto tokens, lists_of_tokens(*table, "top_ids", group.row_starts));
    ARROW_ASSIGN_OR_RAISE(const auto log_probs,
                          lists_of_tokens(*table, "top_logprobs", group.row_starts));
    group.top_starts = starts_of(*tokens);
    if (starts_of(*log_probs) != group.top_starts)
        return arrow::Status::Invalid("top_ids and top_logprobs have not as many numbers");
    ARROW_ASSIGN_OR_RAISE(group.top_tokens, numbers_of<arrow::Int32Array>(*tokens, "top_ids"));
    ARROW_ASSIGN_OR_RAISE(group.top_log_probs,
                          numbers_of<arrow::FloatArray>(*log_probs, "top_logprobs"));
    return group;
}

}  // namespace

Expected<ScoreFileHead> read_score_head(const std::filesystem::path& file) {
    auto head = read_head(file);
    if (!head.ok()) return arrow_failure(file.string(), head.status());
    return *std::move(head);
}

Expected<ScoredGroup> read_score_group(const std::filesystem::path& file, int64_t group,
                                       ScoreColumns columns) {
    auto read = read_group(file, group, columns);
    if (!read.ok()) return arrow_failure(file.string(), read.status());
    return *std::move(read);
}

}  // namespace ringshard::data
