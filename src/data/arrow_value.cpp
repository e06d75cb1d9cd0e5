#include "arrow_value.hpp"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <algorithm>

#include "ringshard/base/utf8.hpp"
#include "ringshard/data/left_aside.hpp"

namespace ringshard::data {

namespace {

using text::Value;

Expected<Value> value_of(const arrow::Array& array, int64_t i);

template <class Array>
Value number_of(const arrow::Array& array, int64_t i) {
    const auto number = static_cast<const Array&>(array).Value(i);
    if constexpr (std::is_floating_point_v<decltype(number)>)
        return Value(static_cast<double>(number));
    else
        return Value(static_cast<int64_t>(number));
}

template <class Array>
Expected<Value> text_of(const arrow::Array& array, int64_t i) {
    const auto words = static_cast<const Array&>(array).GetView(i);
    if (!is_utf8(words)) return Failure{ExitCode::bad_data, "holds text that is not UTF-8"};
    return Value(std::string(words));
}

Expected<Value> list_of(const arrow::Array& items, int64_t begin, int64_t end) {
    Value::List list;
    list.reserve(static_cast<size_t>(end - begin));
    for (int64_t i = begin; i < end; ++i) {
        auto item = value_of(items, i);
        if (!item) return item;
        list.push_back(std::move(item).value());
    }
    return Value(std::move(list));
}

template <class Array>
Expected<Value> list_of(const arrow::Array& array, int64_t i) {
    const auto& lists = static_cast<const Array&>(array);
    return list_of(*lists.values(), lists.value_offset(i),
                   lists.value_offset(i) + lists.value_length(i));
}

Expected<Value> object_of(const arrow::StructArray& array, int64_t i) {
    Value::Object members;
    for (int member = 0; member < array.num_fields(); ++member) {
        auto value = value_of(*array.field(member), i);
        if (!value) return value;
        members.emplace_back(array.struct_type()->field(member)->name(), std::move(value).value());
    }
    return Value(std::move(members));
}

// `datasets` writes columns whose rows have different shapes as JSON texts.
Expected<Value> extension_of(const arrow::ExtensionArray& array, int64_t i) {
    auto stored = value_of(*array.storage(), i);
    const bool is_json =
        static_cast<const arrow::ExtensionType&>(*array.type()).extension_name() == "arrow.json";
    if (!stored || !is_json || stored.value().string() == nullptr) return stored;
    return text::read_json(*stored.value().string());
}

Expected<Value> value_of(const arrow::Array& array, int64_t i) {
    using Type = arrow::Type;
    if (array.IsNull(i)) return Value();
    switch (array.type_id()) {
        case Type::NA: return Value();
        case Type::BOOL: return Value(static_cast<const arrow::BooleanArray&>(array).Value(i));
        case Type::INT8: return number_of<arrow::Int8Array>(array, i);
        case Type::INT16: return number_of<arrow::Int16Array>(array, i);
        case Type::INT32: return number_of<arrow::Int32Array>(array, i);
        case Type::INT64: return number_of<arrow::Int64Array>(array, i);
        case Type::UINT8: return number_of<arrow::UInt8Array>(array, i);
        case Type::UINT16: return number_of<arrow::UInt16Array>(array, i);
        case Type::UINT32: return number_of<arrow::UInt32Array>(array, i);
        case Type::UINT64: return number_of<arrow::UInt64Array>(array, i);
        case Type::FLOAT: return number_of<arrow::FloatArray>(array, i);
        case Type::DOUBLE: return number_of<arrow::DoubleArray>(array, i);
        case Type::STRING: return text_of<arrow::StringArray>(array, i);
        case Type::LARGE_STRING: return text_of<arrow::LargeStringArray>(array, i);
        case Type::STRING_VIEW: return text_of<arrow::StringViewArray>(array, i);
        case Type::LIST: return list_of<arrow::ListArray>(array, i);
        case Type::LARGE_LIST: return list_of<arrow::LargeListArray>(array, i);
        case Type::FIXED_SIZE_LIST: return list_of<arrow::FixedSizeListArray>(array, i);
        case Type::STRUCT: return object_of(static_cast<const arrow::StructArray&>(array), i);
        case Type::EXTENSION:
            return extension_of(static_cast<const arrow::ExtensionArray&>(array), i);
        case Type::DICTIONARY: {
            const auto& words = static_cast<const arrow::DictionaryArray&>(array);
            return value_of(*words.dictionary(), words.GetValueIndex(i));
        }
        default: break;
    }
    return Failure{ExitCode::bad_data,
                   format_text("has the type {}, which is not text, number, list or object",
                               array.type()->ToString())};
}

}  // namespace

namespace {

// Returns true if a value of a media column has content; does not read its bytes.
bool holds_anything(const arrow::Array& array, int64_t i) {
    using Type = arrow::Type;
    if (array.IsNull(i)) return false;
    switch (array.type_id()) {
        case Type::NA: return false;
        case Type::LIST: return static_cast<const arrow::ListArray&>(array).value_length(i) > 0;
        case Type::LARGE_LIST:
            return static_cast<const arrow::LargeListArray&>(array).value_length(i) > 0;
        case Type::STRING: return static_cast<const arrow::StringArray&>(array).value_length(i) > 0;
        case Type::EXTENSION:
            return holds_anything(*static_cast<const arrow::ExtensionArray&>(array).storage(), i);
        default: return true;
    }
}

}  // namespace

Expected<Value> row_of(const arrow::RecordBatch& batch, int64_t row,
                       const std::vector<std::string>& wanted) {
    Value::Object columns;
    for (int column = 0; column < batch.num_columns(); ++column) {
        const std::string& name = batch.column_name(column);
        if (std::ranges::find(wanted, name) == wanted.end()) {
            const bool has_media =
                is_media_column(name) && holds_anything(*batch.column(column), row);
            columns.emplace_back(name, has_media ? Value(true) : Value());
            continue;
        }
        auto value = value_of(*batch.column(column), row);
        if (!value)
            return Failure{ExitCode::bad_data,
                           format_text("column {} {}", name, value.failure().message)};
        columns.emplace_back(name, std::move(value).value());
    }
    return Value(std::move(columns));
}

Failure arrow_failure(const std::string& file, const arrow::Status& status) {
    const bool is_io = status.IsIOError() && status.detail() != nullptr;
    return {is_io ? ExitCode::io : ExitCode::bad_data,
            format_text("{}: {}", file, status.message())};
}

}  // namespace ringshard::data
