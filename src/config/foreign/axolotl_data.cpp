#include <algorithm>
#include <array>

#include "../value_text.hpp"
#include "axolotl_answers.hpp"
#include "axolotl_parts.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Reads the entries of `datasets`.
class AxolotlData {
public:
    explicit AxolotlData(ForeignImport& import) : import_(import) {}

    void read() {
        const bool pretrains = !import_.has("datasets") && import_.has("pretraining_dataset");
        const std::string path = pretrains ? "pretraining_dataset" : "datasets";
        const ordered_json entries = list_at(path);
        ordered_json sources = ordered_json::array();
        for (const ordered_json& entry : entries)
            if (auto source = read_entry(path, entry); !source.is_null())
                sources.push_back(std::move(source));
        if (!sources.empty()) import_.set(path, "datasets", sources);
        if (pretrains && !sources.empty()) {
            import_.set_default("packing", "true");
            import_.set_default("packing_strategy", "wrapped");
        }
        if (has_conversations_ && !has_pairs() && !import_.is_on("train_on_inputs"))
            import_.set(path, "roles_to_train", ordered_json::array({"assistant"}));
        read_evaluation();
        read_excess();
    }

private:
    bool has_pairs() const { return learns_pairs(import_); }

    ordered_json list_at(const std::string& path) const {
        const ordered_json& value = import_.at(path);
        if (value.is_array()) return value;
        return value.is_null() ? ordered_json::array() : ordered_json::array({value});
    }

    void read_excess() {
        const std::string excess = import_.text("excess_length_strategy");
        if (excess == "truncate")
            import_.set("excess_length_strategy", "truncation_mode", std::string("keep_start"));
        else if (!excess.empty() && excess != "drop")
            import_.refuse("excess_length_strategy", "rows that are too long are dropped or cut");
    }

    void read_evaluation() {
        const ordered_json tests = list_at("test_datasets");
        if (tests.size() > 1)
            return import_.refuse("test_datasets", "one dataset is evaluated; leave one of them");
        if (tests.size() == 1) {
            const auto source = read_entry("test_datasets", tests.front());
            if (source.is_null()) return;
            import_.set("test_datasets", "eval_dataset_name", source["path"]);
            import_.set("test_datasets", "dataset_test_split", source["split"]);
            return;
        }
        if (import_.number("val_set_size", 0) > 0)
            import_.set("val_set_size", "test_split_size", import_.at("val_set_size"));
    }

    ordered_json read_entry(const std::string& path, const ordered_json& entry) {
        if (entry.is_string()) return {{"path", entry}, {"split", "train"}};
        if (!entry.is_object() || !entry.contains("path")) {
            import_.refuse(path, "each dataset needs a path");
            return nullptr;
        }
        ordered_json source = {{"path", entry["path"]}};
        source["split"] = entry.value("split", ordered_json("train"));
        for (const auto& [key, value] : entry.items()) {
            if (value.is_null() || key == "path" || key == "split") continue;
            if (key == "name" || key == "data_files")
                source[key] = value;
            else if (!is_read_by_type(key))
                import_.refuse(path, format_text("the key {} of a dataset", key));
        }
        if (entry.value("shards", ordered_json(1)) != 1)
            import_.refuse(path, "one of some shards; a slice of split takes a part: train[:10%]");
        if (entry.value("revision", ordered_json("main")) != "main")
            import_.refuse(path, "the revision of a dataset; give the folder of its files as path");
        if (entry.contains("conversation"))
            import_.note(path, "conversation of a dataset: the template of the run is used");
        if (entry.contains("ds_type") && entry.contains("data_files"))
            source["path"] = entry["ds_type"];
        read_type(path, entry, source);
        return source;
    }

    static bool is_read_by_type(const std::string& key) {
        static constexpr std::array known{"type",
                                          "ds_type",
                                          "field",
                                          "text_column",
                                          "field_messages",
                                          "message_property_mappings",
                                          "roles",
                                          "roles_to_train",
                                          "message_field_role",
                                          "message_field_content",
                                          "conversation",
                                          "field_tools",
                                          "train_on_eos",
                                          "field_chosen",
                                          "field_rejected",
                                          "field_thinking",
                                          "template_thinking_key",
                                          "chat_template",
                                          "trust_remote_code",
                                          "preprocess_shards",
                                          "shards",
                                          "drop_system_message",
                                          "field_human",
                                          "field_model",
                                          "revision"};
        return std::ranges::find(known, key) != known.end();
    }

    void read_type(const std::string& path, const ordered_json& entry, ordered_json& source) {
        const ordered_json type = entry.value("type", ordered_json());
        const bool learns_prompt = import_.is_on("train_on_inputs");
        const std::string name = type.is_string() ? type.get<std::string>() : "";
        if (learns_rewards(import_)) return read_rewards(path, name, source);
        if (judges_answers(import_)) return read_answers(path, setting_text(type), source);
        if (has_pairs() &&
            (name == "chat_template.argilla" || name == "chat_template.argilla_chat"))
            return read_two_conversations(path, entry, source);
        const bool is_odds = import_.text("rl") == "orpo";
        if (const std::string row = is_odds ? "" : template_of_pairs(name);
            has_pairs() && !row.empty()) {
            source["row_template"] = row;
            return;
        }
        if (has_pairs() && (is_odds || !name.starts_with("chat_template")))
            return import_.refuse(
                path,
                format_text("the type {} of a dataset of pairs; use {}, or row_template, "
                            "which makes rows of any columns",
                            setting_text(type),
                            is_odds ? "chat_template.argilla"
                                    : "chat_template.default, or those of chatml and llama3"));
        if (type.is_object()) return read_user_defined(type, learns_prompt, source);
        if (name.starts_with("chat_template") || name.starts_with("sharegpt"))
            return read_conversation(path, entry, name.starts_with("sharegpt"), source);
        if (name == "alpaca") {
            source["row_template"] = alpaca_segments(learns_prompt);
        } else if (name == "alpaca:chat" || name == "alpaca:phi" || name == "alpaca:chatml") {
            source["row_template"] = styled_alpaca(name.substr(7), learns_prompt);
        } else if (name == "completion" || name == "pretrain" || name.empty()) {
            const std::string field =
                entry.value("field", entry.value("text_column", std::string("text")));
            if (field != "text") source["column_map"] = {{"text", field}};
        } else if (name == "input_output") {
            source["columns"] = {"segments"};
        } else {
            import_.refuse(path, format_text("the type {} of a dataset; row_template makes rows of "
                                             "any columns",
                                             name));
        }
    }

    // They begin alike, and have the names of columns and of messages that ours have.
    void read_two_conversations(const std::string& path, const ordered_json& entry,
                                ordered_json& source) {
        for (const char* key : {"field_messages", "message_property_mappings", "roles",
                                "message_field_role", "message_field_content", "field_tools"})
            if (entry.contains(key) && !entry[key].is_null())
                import_.refuse(path, format_text("the key {} of two conversations", key));
        ordered_json columns = ordered_json::object();
        for (const char* side : {"chosen", "rejected"}) {
            const ordered_json field = entry.value(format_text("field_{}", side), ordered_json());
            if (field.is_string() && field != side) columns[side] = field;
        }
        if (!columns.empty()) source["column_map"] = columns;
    }

    void read_answers(const std::string& path, const std::string& type, ordered_json& source) {
        const std::string row = template_of_answers(type);
        if (row.empty())
            return import_.refuse(
                path, format_text("the type {} of a dataset of single answers; use one of chatml "
                                  "and llama3, as chatml.argilla, or row_template, which makes "
                                  "rows of any columns",
                                  type));
        source["row_template"] = row;
    }

    // A turn of a conversation, with the system's message before it, and two answers.
    void read_rewards(const std::string& path, const std::string& type, ordered_json& source) {
        if (type != "bradley_terry.chat_template")
            return import_.refuse(path, format_text("the type {} of a dataset of rewards; use "
                                                    "bradley_terry.chat_template, or row_template, "
                                                    "which makes rows of any columns",
                                                    type));
        source["row_template"] = pair_template(
            R"({% if system is defined and system %}{"role": "system", "content": )"
            R"({{ system | tojson }}}, {% endif %}{"role": "user", "content": {{ input | tojson }}})",
            "chosen", "rejected");
    }

    static ordered_json styled_alpaca(const std::string& style, bool learns_prompt) {
        const std::string has = "{% if input is defined and input %}";
        const std::string system = "Below is an instruction that describes a task" + has +
                                   ", paired with an input that provides further context{% endif "
                                   "%}. Write a response that "
                                   "appropriately completes the request.";
        if (style == "chat")
            return segments_of("SYSTEM: " + system + "\nUSER: {{ instruction }}\n" + has +
                                   "{{ input }}\n{% endif %}ASSISTANT:",
                               "{{ output }}", learns_prompt);
        if (style == "chatml")
            return segments_of("<|im_start|>system\n" + system +
                                   "<|im_end|>\n<|im_start|>user\n{{ instruction }}" + has +
                                   "{{ '\\n' }}{{ input }}{% endif %}<|im_end|>\n"
                                   "<|im_start|>assistant\n",
                               "{{ output }}", learns_prompt);
        return segments_of("<|system|>\n" + system + "<|end|>\n<|user|>\n{{ instruction }}<|end|>" +
                               has +
                               "{{ input }}<|assistant|>{% else %}{{ '\\n' }}<|assistant|>"
                               "{{ '\\n' }}{% endif %}",
                           "{{ output }}", learns_prompt);
    }

    static void read_user_defined(const ordered_json& type, bool learns_prompt,
                                  ordered_json& source) {
        const auto text = [&](const char* key, const char* otherwise) {
            const ordered_json value = type.value(key, ordered_json());
            return value.is_string() ? value.get<std::string>() : std::string(otherwise);
        };
        const std::string input = text("field_input", "input");
        const std::map<std::string, std::string> columns{
            {"instruction", text("field_instruction", "instruction")}, {"input", input}};
        const std::string with = jinja_of_format(text("format", "{instruction} {input} "), columns);
        const std::string without =
            jinja_of_format(text("no_input_format", "{instruction} "), columns);
        const std::string system = text("field_system", "system");
        const std::string said = "(" + system + " if " + system + " is defined else " +
                                 ordered_json(text("system_prompt", "")).dump() + ")";
        const std::string before =
            jinja_of_format(text("system_format", "{system}"), {{"system", "told"}});
        source["row_template"] = segments_of(
            "{% set told = " + said + " %}{% if told %}" + before + "{% endif %}{% if " + input +
                " is defined and " + input + " %}" + with + "{% else %}" + without + "{% endif %}",
            "{{ " + text("field_output", "output") + " }}", learns_prompt);
    }

    void read_conversation(const std::string& path, const ordered_json& entry, bool is_share_gpt,
                           ordered_json& source) {
        has_conversations_ = true;
        const auto text = [&](const char* key, const char* otherwise) {
            const ordered_json value = entry.value(key, ordered_json());
            return value.is_string() ? value.get<std::string>() : std::string(otherwise);
        };
        const std::string field =
            text("field_messages", is_share_gpt ? "conversations" : "messages");
        ordered_json columns = ordered_json::object();
        if (field != "messages") columns["messages"] = field;
        if (const std::string tools = text("field_tools", "tools"); tools != "tools")
            columns["tools"] = tools;
        if (!columns.empty()) source["column_map"] = columns;
        const ordered_json mapping =
            entry.value("message_property_mappings", ordered_json::object());
        const auto key = [&](const char* ours, const char* older, const char* usual) {
            const ordered_json mapped = mapping.value(ours, ordered_json());
            return mapped.is_string() ? mapped.get<std::string>() : text(older, usual);
        };
        const std::string role = key("role", "message_field_role", is_share_gpt ? "from" : "role");
        const std::string content =
            key("content", "message_field_content", is_share_gpt ? "value" : "content");
        const ordered_json roles_of_turns =
            entry.value("roles", ordered_json{{"user", {"human", "user"}},
                                              {"assistant", {"gpt", "assistant"}},
                                              {"system", {"system"}},
                                              {"tool", {"tool"}}});
        if (has_pairs()) {
            source.erase("column_map");
            source["row_template"] =
                pair_template(turns_of(field, role, content, roles_of_turns),
                              text_of_message(text("field_chosen", "chosen"), content),
                              text_of_message(text("field_rejected", "rejected"), content));
            return;
        }
        if (role != "role") source["role_key"] = role;
        if (content != "content") source["content_key"] = content;
        source["roles"] = roles_of_turns;
        if (entry.value("drop_system_message", false))
            source["row_template"] = format_text(
                "{}\"messages\": {}{} | rejectattr('{}', 'equalto', 'system') | list | tojson {}{}",
                "{", "{{ ", field, role, "}}", "}");
        if (text("field_thinking", "reasoning_content") !=
            text("template_thinking_key", "reasoning_content"))
            import_.refuse(path, "field_thinking of another name than template_thinking_key");
        const ordered_json roles =
            entry.value("roles_to_train", ordered_json::array({"assistant"}));
        if (roles != ordered_json::array({"assistant"}) && roles != ordered_json::array({"gpt"}))
            import_.refuse(path,
                           "roles_to_train other than assistant in one dataset; the setting "
                           "roles_to_train is for all of them");
        const std::string ends = text("train_on_eos", "turn");
        if (ends != "turn")
            import_.refuse(path, format_text("train_on_eos {}: the ends of learned turns are "
                                             "learned",
                                             ends));
        if (const std::string name = text("chat_template", ""); !name.empty())
            import_.note(path, "chat_template of a dataset: the template of the run is used");
    }

    ForeignImport& import_;
    bool has_conversations_ = false;
};

}  // namespace

void read_axolotl_data(ForeignImport& import) { AxolotlData(import).read(); }

}  // namespace ringshard::config
