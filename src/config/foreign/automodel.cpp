#include <algorithm>

#include "../value_text.hpp"
#include "automodel_keys.hpp"
#include "foreign_import.hpp"
#include "reasons.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Returns the last word of a path of Python: the class or function.
std::string last_word(const std::string& path) { return path.substr(path.rfind('.') + 1); }

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

void read_model(ForeignImport& import) {
    const ordered_json& recipe = import.at("recipe");
    const std::string name =
        last_word(recipe.is_object() ? import.text("recipe._target_") : import.text("recipe"));
    if (!name.empty() && name != "TrainFinetuneRecipeForNextTokenPrediction")
        import.refuse("recipe", reasons::fine_tuning_only);
    const std::string target = import.text("model._target_");
    if (target.find("ImageText") != std::string::npos ||
        target.find("Multimodal") != std::string::npos)
        import.refuse("model._target_", reasons::no_vision);
    else if (target.find("Classification") != std::string::npos)
        import.refuse("model._target_", "heads of classification are not served");
    if (target.ends_with("from_config") || import.has("model.config"))
        import.refuse("model._target_", "trainer init makes a model with new weights");
    else if (import.has("model.pretrained_model_name_or_path"))
        import.set("model.pretrained_model_name_or_path", "model_name_or_path",
                   import.at("model.pretrained_model_name_or_path"));
    if (import.has("rng.seed") && !import.has("seed"))
        import.set("rng.seed", "seed", import.at("rng.seed"));
    const std::string loss = last_word(import.text("loss_fn._target_", "MaskedCrossEntropy"));
    if (loss.find("CrossEntropy") == std::string::npos && loss.find("CE") == std::string::npos)
        import.refuse("loss_fn._target_", "the loss is cross-entropy");
}

void read_optimizer(ForeignImport& import) {
    const std::string kind = last_word(import.text("optimizer._target_", "AdamW"));
    const double decay = import.number("optimizer.weight_decay", kind == "AdamW" ? 0.01 : 0);
    const bool couples = kind == "Adam" && decay > 0;
    if (kind != "Adam" && kind != "AdamW" && kind != "FusedAdam" && kind != "FlashAdamW")
        import.refuse("optimizer._target_", "use torch.optim.AdamW");
    else if (couples)
        import.refuse("optimizer.weight_decay",
                      "Adam adds the decay to the gradient, and it is decoupled here; use "
                      "torch.optim.AdamW");
    import.set(
        import.has("optimizer.weight_decay") ? "optimizer.weight_decay" : "optimizer._target_",
        "weight_decay", shortest(decay));
    if (import.has("optimizer.adam_w_mode") && !import.is_on("optimizer.adam_w_mode") && decay > 0)
        import.refuse("optimizer.adam_w_mode", "the decay is decoupled");
    const ordered_json& betas = import.at("optimizer.betas");
    if (betas.is_array() && betas.size() == 2) {
        import.set("optimizer.betas", "adam_beta1", betas[0]);
        import.set("optimizer.betas", "adam_beta2", betas[1]);
    }
    if (!import.has("lr_scheduler")) return;
    const std::string style = import.text("lr_scheduler.lr_decay_style", "cosine");
    const double lowest = import.number("lr_scheduler.min_lr", 0);
    const std::string key =
        import.has("lr_scheduler.lr_decay_style") ? "lr_scheduler.lr_decay_style" : "lr_scheduler";
    if (style == "cosine" && lowest > 0) {
        import.set(key, "lr_scheduler_type", std::string("cosine_with_min_lr"));
        import.set("lr_scheduler.min_lr", "lr_scheduler_kwargs",
                   ordered_json{
                       { "min_lr",
                         lowest }});
    } else if (style == "constant") {
        import.set(key, "lr_scheduler_type", std::string("constant_with_warmup"));
    } else if ((style == "cosine" || style == "linear") && lowest == 0) {
        import.set(key, "lr_scheduler_type", style);
    } else {
        import.refuse(key, "cosine has a lowest rate, and linear falls to 0");
    }
}

// Turns a pattern of file names, "*_proj", into a regular expression.
std::string expression_of(const std::string& pattern) {
    std::string expression;
    for (const char c : pattern) {
        if (c == '*') expression += ".*";
        if (c == '?') expression += '.';
        if (c == '.') expression += "[.]";
        if (c != '*' && c != '?' && c != '.') expression += c;
    }
    return expression;
}

void set_patterns(ForeignImport& import, const std::string& key, const std::string& setting) {
    const ordered_json& value = import.at(key);
    std::vector<std::string> expressions;
    for (const ordered_json& one : value.is_array() ? value : ordered_json::array({value}))
        expressions.push_back(expression_of(setting_text(one)));
    import.set(key, setting, "(" + join(expressions, "|") + ")");
}

void read_adapter(ForeignImport& import) {
    const ordered_json& peft = import.at("peft");
    if (peft.is_null()) return;
    import.set("peft", "use_peft", std::string("true"));
    import.set_default("lora_r", "8");
    import.set_default("lora_alpha", "32");
    import.set_default("lora_dropout", "0");
    for (const auto& [key, value] : peft.items()) {
        const std::string path = "peft." + key;
        if (value.is_null()) continue;
        if (key == "dim")
            import.set(path, "lora_r", value);
        else if (key == "alpha")
            import.set(path, "lora_alpha", value);
        else if (key == "dropout")
            import.set(path, "lora_dropout", value);
        else if (key == "use_dora")
            import.set(path, "use_dora", value);
        else if (key == "target_modules" || key == "match_all_linear" || key == "exclude_modules" ||
                 key == "_target_")
            continue;
        else if (key == "use_triton" || key == "lora_dtype" || key == "dropout_position" ||
                 key == "lora_A_init")
            import.idle(path, reasons::kernels);
        else if (!asks_for_nothing(value))
            import.refuse(path, "lora has a rank, alpha, dropout and target modules");
    }
    if (import.is_on("peft.match_all_linear") ||
        import.at("peft.target_modules") == ordered_json::array({"*"}))
        import.set("peft.match_all_linear", "lora_target_modules", std::string("all-linear"));
    else if (import.has("peft.target_modules"))
        set_patterns(import, "peft.target_modules", "lora_target_modules");
    if (import.has("peft.exclude_modules"))
        set_patterns(import, "peft.exclude_modules", "exclude_modules");
}

void read_events(ForeignImport& import) {
    if (import.has("checkpoint.enabled") && !import.is_on("checkpoint.enabled"))
        import.set("checkpoint.enabled", "save_strategy", std::string("no"));
    else if (import.has("step_scheduler.ckpt_every_steps"))
        import.set("step_scheduler.ckpt_every_steps", "save_steps",
                   import.at("step_scheduler.ckpt_every_steps"));
}

void read_layout(ForeignImport& import) {
    if (import.text("distributed.strategy") == "ddp")
        import.set("distributed.strategy", "distributed_type", std::string("MULTI_GPU"));
    if (const double copies = import.number("distributed.dp_replicate_size", 0); copies > 0)
        import.set("distributed.dp_replicate_size", "dp_replicate_size", shortest(copies));
    if (!asks_for_nothing(import.at("distributed.activation_checkpointing")))
        import.set("distributed.activation_checkpointing", "gradient_checkpointing",
                   std::string("true"));
    const double packed = import.number("packed_sequence.packed_sequence_size", 0);
    if (packed > 0) {
        import.set("packed_sequence.packed_sequence_size", "packing", std::string("true"));
        import.set("packed_sequence.packed_sequence_size", "max_length", shortest(packed));
    }
    if (import.is_on("fp8.enabled") && import.has("fp8.recipe_name"))
        import.set("fp8.recipe_name", "fp8_recipe",
                   import.text("fp8.recipe_name") == "tensorwise" ? std::string("tensorwise")
                                                                  : std::string("rowwise"));
}

void translate_automodel(ForeignImport& import) {
    read_model(import);
    read_optimizer(import);
    read_adapter(import);
    read_events(import);
    read_layout(import);
    AutomodelData(import).read();
}

}  // namespace

const ForeignTrainer& automodel() {
    static const ForeignTrainer trainer{"NeMo Automodel", automodel_keys(), automodel_defaults(),
                                        translate_automodel};
    return trainer;
}

}  // namespace ringshard::config
