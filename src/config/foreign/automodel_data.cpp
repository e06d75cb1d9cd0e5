#include <algorithm>
#include <array>

#include "automodel_parts.hpp"
#include "reasons.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// A row as the builder for SQuAD has it: a conversation, or one text without a chat template.
const std::string squad_template =
    "{% set asked = 'Context: ' ~ context ~ ' Question: ' ~ question ~ ' Answer: ' %}"
    "{% set answered = (answers.text[0] if answers.text else '') | trim %}"
    "{% if has_chat_template %}{\"messages\": [{\"role\": \"user\", \"content\": {{ asked | tojson "
    "}}}, {\"role\": \"assistant\", \"content\": {{ answered | tojson }}}]}"
    "{% else %}{\"joined\": true, \"segments\": [{\"label\": false, \"text\": {{ asked | tojson "
    "}}}, "
    "{\"label\": true, \"text\": {{ answered | tojson }}}]}{% endif %}";

// xLAM's tools and answers, in the form of OpenAI.
const std::string xlam_template =
    "{% set types = {'str': 'string', 'string': 'string', 'int': 'integer', 'integer': 'integer', "
    "'float': 'number', 'double': 'number', 'number': 'number', 'bool': 'boolean', 'boolean': "
    "'boolean', 'list': 'array', 'array': 'array', 'object': 'object'} %}"
    "{\"tools\": [{% for tool in tools_from_json %}{\"type\": \"function\", \"function\": "
    "{\"name\": {{ "
    "tool.name | tojson }}, \"description\": {{ (tool.description if tool.description is defined "
    "else '') | tojson }}, \"parameters\": {\"type\": \"object\", \"properties\": { "
    "{% for name, field in tool.parameters.items() %}{{ name | tojson }}: {\"type\": {{ "
    "types.get((field.type if field.type is defined else 'string') | lower, 'string') | tojson }}, "
    "\"description\": {{ (field.description if field.description is defined else '') | tojson }}"
    "{% if field.enum is defined %}, \"enum\": {{ field.enum | tojson }}{% endif %}"
    "{% if 'default' in field %}, \"default\": {{ field['default'] | tojson }}{% endif %}}"
    "{{ '' if loop.last else ', ' }}{% endfor %}}"
    "{% set needed = namespace(names=[]) %}"
    "{% for name, field in tool.parameters.items() if 'default' not in field %}"
    "{% set needed.names = needed.names + [name] %}{% endfor %}"
    "{% if needed.names %}, \"required\": {{ needed.names | tojson }}{% endif %}}}}"
    "{{ '' if loop.last else ', ' }}{% endfor %}], "
    "\"messages\": [{\"role\": \"user\", \"content\": {{ query | tojson }}}, {\"role\": "
    "\"assistant\", \"content\": \"\", \"tool_calls\": [{% for call in answers_from_json "
    "%}{\"id\": {{ "
    "('call_' ~ (id ~ '_' if id is defined else '') ~ loop.index0) | tojson }}, \"type\": "
    "\"function\", \"function\": {\"name\": {{ call.name | tojson }}, \"arguments\": {{ "
    "(call.arguments if call.arguments is string else call.arguments | tojson) | tojson }}}}"
    "{{ '' if loop.last else ', ' }}{% endfor %}]}]}";

class AutomodelData {
public:
    explicit AutomodelData(ForeignImport& import) : import_(import) {}

    void read() {
        const std::string kind = last_word(import_.text("dataset._target_"));
        if (!read_kind(kind)) return;
        for (const char* block : {"dataset", "validation_dataset"}) name_members(block);
        import_.set("dataset", "dataset_name", path_of("dataset"));
        import_.set("dataset.split", "dataset_train_split", split_of("dataset"));
        if (import_.has("dataset.name"))
            import_.set("dataset.name", "dataset_config", import_.at("dataset.name"));
        if (import_.has("dataset.seq_length"))
            import_.set("dataset.seq_length", "max_length", import_.at("dataset.seq_length"));
        read_template();
        read_evaluation(kind);
    }

private:
    // Names the keys of a dataset that change nothing here, and refuses those that are not known.
    void name_members(const std::string& block) {
        static constexpr std::array known{"_target_",
                                          "path_or_dataset",
                                          "dataset_name",
                                          "path_or_dataset_id",
                                          "split",
                                          "name",
                                          "seq_length",
                                          "num_samples_limit",
                                          "limit_dataset_samples",
                                          "column_mapping",
                                          "answer_only_loss_mask",
                                          "use_hf_chat_template",
                                          "chat_template"};
        const ordered_json& members = import_.at(block);
        if (!members.is_object()) return;
        for (const auto& [key, value] : members.items()) {
            const std::string path = block + "." + key;
            if (key == "_target_")
                import_.idle(path, "its builder became row_template, or the form of the rows");
            else if (key == "tokenizer")
                import_.idle(path, reasons::tokenizer);
            else if (key == "padding" || key == "pad_to_max_length")
                import_.idle(path, reasons::padding);
            else if (key == "shuffle_seed")
                import_.idle(path, "rows are visited in a new order in every epoch");
            else if (key == "truncation" || key == "num_workers" || key == "trust_remote_code")
                import_.idle(path, reasons::prepared);
            else if (std::ranges::find(known, std::string_view(key)) == known.end() &&
                     !asks_for_nothing(value))
                import_.refuse(path,
                               "this key of a dataset is not read; row_template makes rows "
                               "of any columns");
        }
    }

    bool read_kind(const std::string& kind) {
        if (kind == "HellaSwag") {
            set_rows({{"segments",
                       {{{"text", "{{ ctx }}"}, {"label", false}, {"special_tokens", true}},
                        {{"text", "{{ endings[label | int] }}"}, {"label", true}}}}});
            return true;
        }
        import_.set("dataset._target_", "assistant_only_loss", std::string("true"));
        if (kind == "make_squad_dataset") {
            set_rows(squad_template);
        } else if (kind == "make_xlam_dataset") {
            set_rows(xlam_template);
        } else if (kind == "ColumnMappedTextInstructionDataset") {
            set_columns();
        } else if (kind == "ChatDataset") {
            return true;
        } else {
            const bool is_mock = kind.find("ock") != std::string::npos;
            import_.refuse("dataset._target_",
                           is_mock ? "rows of random tokens are no data; trainer plan has the time "
                                     "of a step"
                                   : "row_template makes rows of any columns");
            return false;
        }
        return true;
    }

    void set_rows(const ordered_json& rows) {
        import_.set("dataset._target_", "row_template", rows);
    }

    // The prompt is context and question, each with a space after it.
    void set_columns() {
        const ordered_json& mapping = import_.at("dataset.column_mapping");
        const auto column = [&](const char* name) {
            const ordered_json named =
                mapping.is_object() ? mapping.value(name, ordered_json()) : ordered_json();
            return named.is_string() ? named.get<std::string>() : std::string();
        };
        std::string prompt;
        for (const char* name : {"context", "question"})
            if (const std::string one = column(name); !one.empty()) prompt += "{{ " + one + " }} ";
        if (import_.has("dataset.answer_only_loss_mask") &&
            !import_.is_on("dataset.answer_only_loss_mask"))
            import_.refuse("dataset.answer_only_loss_mask", "answers alone are learned");
        if (import_.is_on("dataset.use_hf_chat_template"))
            import_.refuse("dataset.use_hf_chat_template",
                           "row_template makes messages of the columns");
        set_rows({{"joined", true},
                  {"segments",
                   {{{"text", prompt}, {"label", false}},
                    {{"text", "{{ " + column("answer") + " }}"}, {"label", true}}}}});
    }

    std::string path_of(const std::string& block) const {
        for (const char* key : {"path_or_dataset", "dataset_name", "path_or_dataset_id"})
            if (import_.has(block + "." + key)) return import_.text(block + "." + key);
        return last_word(import_.text(block + "._target_")) == "make_squad_dataset" ? "squad" : "";
    }

    std::string split_of(const std::string& block) const {
        std::string split = import_.text(block + ".split", "train");
        for (const char* key : {"num_samples_limit", "limit_dataset_samples"})
            if (import_.has(block + "." + key) && split.find('[') == std::string::npos)
                split += "[:" + import_.text(block + "." + key) + "]";
        return split;
    }

    void read_template() {
        const std::string text = import_.text("dataset.chat_template");
        if (text.empty()) return;
        const bool is_text = text.find('{') != std::string::npos;
        import_.set("dataset.chat_template", is_text ? "chat_template" : "chat_template_path",
                    text);
    }

    void read_evaluation(const std::string& kind) {
        if (!import_.has("validation_dataset")) return;
        if (last_word(import_.text("validation_dataset._target_")) != kind)
            return import_.refuse("validation_dataset._target_",
                                  "evaluation data has the form of the training data");
        import_.set("validation_dataset", "eval_dataset_name", path_of("validation_dataset"));
        import_.set("validation_dataset.split", "dataset_test_split",
                    split_of("validation_dataset"));
        import_.set("validation_dataset", "eval_strategy", std::string("steps"));
        if (import_.has("step_scheduler.val_every_steps"))
            import_.set("step_scheduler.val_every_steps", "eval_steps",
                        import_.at("step_scheduler.val_every_steps"));
    }

    ForeignImport& import_;
};

}  // namespace

void read_automodel_data(ForeignImport& import) { AutomodelData(import).read(); }

}  // namespace ringshard::config
