#include "cache_description.hpp"

#include <algorithm>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hash.hpp"

namespace ringshard::data {

namespace fs = std::filesystem;
using text::Value;

Value describe_file(const fs::path& file) {
    std::error_code error;
    const auto absolute = fs::absolute(file, error);
    const auto size = fs::file_size(file, error);
    const auto time = fs::last_write_time(file, error).time_since_epoch().count();
    return Value(Value::List{Value(absolute.string()), Value(static_cast<int64_t>(size)),
                             Value(static_cast<int64_t>(time))});
}

namespace {

// Increment when equal settings produce other files.
constexpr int64_t version = 6;
constexpr int64_t version_of_rows = 6;

// Returns names and hashes of a file, or of the files of a folder from which a tokenizer and its
// chat templates are read; for small files.
Value describe_content(const fs::path& path) {
    Value::Object files;
    const auto add = [&](const fs::path& file) {
        if (const auto content = read_file(file))
            files.emplace_back(file.filename().string(), Value(hash_of(*content)));
    };
    if (!is_directory(path)) {
        add(path);
        return Value(std::move(files));
    }
    for (const auto* name :
         {"tokenizer.json", "tekken.json", "tokenizer_config.json", "special_tokens_map.json",
          "chat_template.jinja", "chat_template.json"})
        add(path / name);
    std::error_code ignored;
    std::vector<fs::path> templates = folder_entries(path / "additional_chat_templates", ignored);
    std::ranges::sort(templates);
    for (const fs::path& file : templates)
        if (file.extension() == ".jinja") add(file);
    const auto config = text::read_json(read_file(path / "config.json").value_or(""));
    for (const char* name : {"tokenizer_class", "model_type"})
        if (const Value* const member = config ? config.value().find(name) : nullptr)
            files.emplace_back(name, *member);
    return Value(std::move(files));
}

// Returns the bounds of a slice: the same rows are the same tokens under any split name.
std::string bounds_of(SplitSlice slice) {
    slice.split.clear();
    return to_text(slice);
}

}  // namespace

Value describe_tokens(const Preparation& preparation, const Inputs& inputs) {
    const FormatSettings& format = preparation.format;
    Value::List sources;
    for (size_t i = 0; i < preparation.sources.size(); ++i) {
        Value::List list;
        for (const InputFile& file : inputs.files)
            if (file.source == i)
                list.emplace_back(Value::List{describe_file(file.name),
                                              Value(static_cast<int64_t>(file.text)),
                                              Value(static_cast<int64_t>(file.slice)),
                                              Value(bounds_of(inputs.slices[file.slice].slice))});
        sources.emplace_back(Value::Object{{"files", Value(std::move(list))},
                                           {"mapping", to_value(preparation.sources[i].mapping)}});
    }
    const auto only = format.completion_only_loss;
    Value::Object all{
        {"version", Value(version)},
        {"sources", Value(std::move(sources))},
        {"tokenizer", Value(fs::absolute(format.tokenizer).string())},
        {"tokenizer_files", describe_content(format.tokenizer)},
        {"chat_template", describe_content(format.chat_template)},
        {"chat_template_folder",
         Value(is_directory(format.chat_template) ? fs::absolute(format.chat_template).string()
                                                  : std::string())},
        {"chat_template_text", Value(format.chat_template_text)},
        {"system_prompt", Value(format.system_prompt)},
        {"added_tokens", text::to_list(format.added_tokens)},
        {"eos_token", Value(format.eos_token)},
        {"dataset_text_field", Value(format.text_field)},
        {"completion_only_loss", only ? Value(*only) : Value()},
        {"assistant_only_loss", Value(format.assistant_only_loss)},
        {"roles_to_train", text::to_list(format.roles_to_train)},
        {"train_on_last_turn_only", Value(format.train_on_last_turn_only)},
        {"mask_reasoning", text::to_list(format.mask_reasoning)},
        {"text_only", Value(format.text_only)},
        {"skip_bad_rows", Value(preparation.skip_bad_rows)},
    };
    if (!format.loss_scale.empty())
        all.emplace_back("loss_scale", text::to_list(format.loss_scale));
    if (!format.agent_template.empty())
        all.emplace_back("agent_template", Value(format.agent_template));
    if (preparation.has_anchor) all.emplace_back("has_anchor", Value(true));
    if (format.content.is_pair) all.emplace_back("has_pairs", Value(true));
    if (format.content.learns_prompts) all.emplace_back("learns_prompts", Value(true));
    if (format.content.is_embedded) all.emplace_back("is_embedded", Value(true));
    if (format.content.has_numbers) all.emplace_back("has_numbers", Value(true));
    if (format.content.is_judged) all.emplace_back("is_judged", Value(true));
    if (format.content.is_scored) {
        all.emplace_back("is_scored", Value(true));
        all.emplace_back("num_labels", Value(format.num_labels));
        all.emplace_back("class_names", text::to_list(format.class_names));
        if (format.has_label_sets) all.emplace_back("has_label_sets", Value(true));
    }
    return Value(std::move(all));
}

Value describe_rows(const Preparation& preparation, const std::string& store) {
    const RowSettings& rows = preparation.rows;
    Value::List taken;
    const auto number = [](const std::optional<double>& one) {
        return one ? Value(*one) : Value();
    };
    for (const Source& source : preparation.sources)
        taken.emplace_back(Value::List{Value(shown_name(source.dataset)), number(source.fraction),
                                       number(source.weight), number(source.epochs)});
    const Drawing& drawing = preparation.drawing;
    Value::Object all{
        {"version", Value(version_of_rows)},
        {"tokens", Value(store)},
        {"sources", Value(std::move(taken))},
        {"stopping_strategy", Value(static_cast<int64_t>(drawing.stops))},
        {"temperature", number(drawing.temperature)},
        {"drawing_seed", Value(drawing.seed)},
        {"shuffle_seed", preparation.shuffle_seed ? Value(*preparation.shuffle_seed) : Value()},
        {"side", Value(static_cast<int64_t>(preparation.side))},
        {"test_size", Value(preparation.test_size)},
        {"split_seed", Value(preparation.split_seed)},
        {"max_length", rows.max_length ? Value(*rows.max_length) : Value()},
        {"truncation", Value(static_cast<int64_t>(rows.truncation))},
        {"packing", Value(rows.packs)},
        {"packing_strategy", Value(static_cast<int64_t>(rows.strategy))},
        {"packing_scope", Value(static_cast<int64_t>(rows.scope))},
        {"shuffle", Value(rows.shuffles)},
        {"seed", Value(rows.seed)},
        {"keeps_all", Value(rows.keeps_all)},
    };
    if (preparation.drops_copies) all.emplace_back("drops_copies", Value(true));
    if (rows.content.is_pair) all.emplace_back("has_pairs", Value(true));
    if (rows.content.is_embedded)
        all.emplace_back("pooling", Value(static_cast<int64_t>(rows.content.pooling)));
    if (rows.content.has_numbers) all.emplace_back("has_numbers", Value(true));
    if (rows.content.is_judged) all.emplace_back("is_judged", Value(true));
    if (rows.content.is_scored) all.emplace_back("is_scored", Value(true));
    if (preparation.has_anchor) all.emplace_back("has_anchor", Value(true));
    if (rows.min_length > 0) all.emplace_back("min_length", Value(rows.min_length));
    return Value(std::move(all));
}

}  // namespace ringshard::data
