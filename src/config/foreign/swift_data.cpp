#include "swift_data.hpp"

#include <algorithm>

#include "../value_text.hpp"
#include "reasons.hpp"
#include "recipe_data.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

// Returns Jinja for the first of these columns that a row has.
std::string first_of(std::initializer_list<const char*> names, const std::string& otherwise) {
    std::string chain = otherwise;
    for (auto name = std::rbegin(names); name != std::rend(names); ++name)
        chain = concat("(", *name, " if ", *name, " is defined and ", *name, " is not none else ",
                       chain, ")");
    return chain;
}

// Finds the columns that ms-swift recognises: messages or conversations, or a question (query,
// instruction with input, ...) and its answer, with system and history.
std::string question_found() {
    return concat(
        "{% set said = ", first_of({"messages", "conversations", "conversation"}, "none"),
        " %}{% set told = ", first_of({"system", "system_prompt"}, "''"),
        " %}{% set past = ", first_of({"history"}, "[]"),
        " %}{% set is_alpaca = instruction is defined and input is "
        "defined %}{% set asked = (instruction or '') ~ ('\\n' if instruction and input else '') ~ "
        "(input or '') if is_alpaca else ",
        first_of({"query", "prompt", "input", "instruction", "question", "problem"}, "''"),
        " %}{% if said and (said[0].role if said[0].role is defined else said[0]['from']) == "
        "'system' %}{% set told = '' %}{% endif %}");
}

std::string columns_found() {
    return concat(
        question_found(), "{% set answered = none if said else ",
        first_of({"response", "answer", "output", "targets", "target", "answer_key", "answers",
                  "solution", "text", "completion", "content"},
                 "raise_exception('the row has no messages, and no response, answer, output, "
                 "target, solution, text or completion')"),
        " %}{% if answered is not string and answered is "
        "iterable %}{% set answered = answered[0] "
        "%}{% endif %}");
}

std::string conversation_template() {
    return columns_found() +
           "{\"messages\": [{% if told %}{\"role\": \"system\", \"content\": {{ told | tojson }}}, "
           "{% endif %}{% if said %}"
           "{% for message in said %}{{ message | tojson }}{{ '' if loop.last else ', ' }}{% "
           "endfor "
           "%}{% else %}{% for turn in past %}"
           "{\"role\": \"user\", \"content\": {{ turn[0] | tojson }}}, {\"role\": \"assistant\", "
           "\"content\": {{ turn[1] | tojson }}}, {% endfor %}"
           "{\"role\": \"user\", \"content\": {{ asked | tojson }}}, {\"role\": \"assistant\", "
           "\"content\": {{ answered | tojson }}}{% endif %}]"
           "{% if tools is defined and tools %}, \"tools\": {{ tools | tojson }}{% endif %}}";
}

// A conversation that an answer would follow, and its label.
std::string labelled_template() {
    return question_found() +
           "{\"messages\": [{% if told %}{\"role\": \"system\", \"content\": {{ told | tojson }}}, "
           "{% endif %}{% if said %}{% for message in said %}{{ message | tojson }}{{ '' if "
           "loop.last else ', ' }}{% endfor %}{% else %}{\"role\": \"user\", \"content\": {{ asked "
           "| tojson }}}{% endif %}], \"label\": {{ label | tojson }}, "
           "\"add_generation_prompt\": true}";
}

// The prompt of a conversation, as the beginning of a row, and its last answer as `answered`.
std::string prompt_found() {
    return "{% set names = {'human': 'user', 'user': 'user', 'gpt': 'assistant', 'bot': "
           "'assistant', 'assistant': 'assistant', 'system': 'system', 'tool': 'tool'} %}"
           "{\"prompt\": [{% if told %}{\"role\": \"system\", "
           "\"content\": {{ told | tojson }}}, {% endif %}{% if said %}{% for turn in said[:-1] "
           "%}{\"role\": {{ names[turn.role if turn.role is defined else turn['from']] | tojson "
           "}}, \"content\": {{ (turn.content if turn.content is defined else turn.value) | "
           "tojson }}}{{ '' if loop.last else ', ' }}{% endfor %}{% set answered = "
           "(said[-1].content if said[-1].content is defined else said[-1].value) %}{% else "
           "%}{% for turn in past %}{\"role\": \"user\", \"content\": {{ turn[0] | tojson }}}, "
           "{\"role\": \"assistant\", \"content\": {{ turn[1] | tojson }}}, {% endfor %}"
           "{\"role\": \"user\", \"content\": {{ asked | tojson }}}{% endif %}]";
}

std::string with_tools() {
    return "{% if tools is defined and tools %}, \"tools\": {{ tools | tojson }}{% endif %}}";
}

// A prompt, the last answer of the conversation, and the one that was rejected.
std::string pairs_template() {
    return columns_found() + "{% set worse = (" +
           first_of({"rejected_messages"},
                    "[{'content': " +
                        first_of({"rejected_response"},
                                 "raise_exception('the row has no rejected_response and no "
                                 "rejected_messages')") +
                        "}]") +
           ")[-1] %}{% set worse = worse.content if worse.content is defined else worse.value %}" +
           prompt_found() + ", \"chosen\": [" + answer_of("answered") + "], \"rejected\": [" +
           answer_of("worse") + "]" + with_tools();
}

// A prompt, and the last answer of the conversation with its label.
std::string judged_template() {
    return columns_found() + prompt_found() + ", \"completion\": [" + answer_of("answered") +
           "], \"label\": {{ label | tojson }}" + with_tools();
}

// The contents one after another, without the marks of a conversation; all of it is learned.
std::string joined_template() {
    return columns_found() +
           "{% set all = namespace(text='') %}{% for message in said or [] %}{% set all.text = "
           "all.text ~ (message.content if message.content is defined else message.value) %}{% "
           "endfor %}{% if not said %}{% for turn in past %}{% set all.text = all.text ~ turn[0] ~ "
           "turn[1] %}{% endfor %}{% set all.text = all.text ~ asked ~ answered %}{% endif %}"
           "{\"segments\": [{\"text\": {{ (all.text ~ eos_token) | tojson }}, \"label\": true, "
           "\"special_tokens\": true}]}";
}

}  // namespace

void read_swift_task(ForeignImport& import) {
    const std::string task = import.text("task_type", "causal_lm");
    if (!swift_classifies(import)) {
        if (task != "causal_lm")
            import.refuse("task_type", "causal_lm and seq_cls are served");
        else if (import.has("task_type"))
            import.idle("task_type", "tokens are learned");
        for (const char* key : {"num_labels", "problem_type"})
            if (import.has(key)) import.idle(key, "it concerns a head of labels");
        return;
    }
    const std::string problem = import.text("problem_type", import.text("num_labels") == "1"
                                                                ? "regression"
                                                                : "single_label_classification");
    const bool is_number = problem == "regression" && import.text("num_labels") == "1";
    if (problem == "regression" && !is_number)
        return import.refuse("problem_type", "documents have labels, or one number (num_labels 1)");
    if (!swift_uses_template(import) || import.has("rlhf_type"))
        return import.refuse("task_type", "labelled rows are conversations with a template");
    import.set("task_type", "method", std::string("classification"));
    if (import.has("num_labels")) import.set("num_labels", "num_labels", import.at("num_labels"));
    if (import.has("problem_type"))
        import.set("problem_type", "problem_type", import.at("problem_type"));
}

namespace {

class SwiftData {
public:
    explicit SwiftData(ForeignImport& import) : import_(import) {}

    void read() {
        ordered_json sources = ordered_json::array();
        for (const std::string& name : names("dataset")) sources.push_back(source_of(name));
        weigh(sources);
        if (!sources.empty()) import_.set("dataset", "datasets", sources);
        if (draws_rows_)
            import_.note("dataset",
                         "#N is the first N rows of a dataset; ms-swift draws N of them, "
                         "and some more than once where there are fewer");
        if (import_.has("dataset"))
            import_.set("dataset", "row_template",
                        swift_learns_pairs(import_)    ? pairs_template()
                        : swift_judges(import_)        ? judged_template()
                        : swift_classifies(import_)    ? labelled_template()
                        : swift_uses_template(import_) ? conversation_template()
                                                       : joined_template());
        read_variables();
        read_evaluation();
    }

private:
    std::vector<std::string> names(const std::string& key) const {
        std::vector<std::string> list;
        const ordered_json& value = import_.at(key);
        if (value.is_null()) return list;
        const ordered_json items = value.is_array() ? value : ordered_json::array({value});
        for (const ordered_json& item : items) list.push_back(setting_text(item));
        return list;
    }

    // Reads "HF::AI-ModelScope/alpaca:subset#500".
    ordered_json source_of(std::string name) {
        std::string rows;
        if (const size_t mark = name.rfind('#'); mark != std::string::npos) {
            rows = name.substr(mark + 1);
            name = name.substr(0, mark);
            draws_rows_ = true;
        }
        for (const char* hub : {"HF::", "MS::", "hf::", "ms::"})
            if (name.starts_with(hub)) name = name.substr(4);
        ordered_json source = ordered_json::object();
        std::error_code ignored;
        const size_t colon = name.rfind(':');
        const bool has_subset =
            colon != std::string::npos && !std::filesystem::exists(name, ignored);
        source["path"] = name.substr(0, has_subset ? colon : std::string::npos);
        if (has_subset) source["name"] = name.substr(colon + 1);
        source["split"] = rows.empty() ? "train" : "train[:" + rows + "]";
        source["role_key"] = "from";
        source["content_key"] = "value";
        source["roles"] = {
            {"user", {"human", "user"}},
            {"assistant", {"gpt", "bot", "assistant"}},
            {"tool", {"tool", "tool_response", "function_response", "observation", "observations"}},
            {"system", {"system"}}};
        if (const ordered_json& columns = import_.at("columns"); columns.is_object()) {
            ordered_json map = ordered_json::object();
            for (const auto& [theirs, ours] : columns.items()) map[setting_text(ours)] = theirs;
            source["column_map"] = map;
        }
        return source;
    }

    void weigh(ordered_json& sources) {
        const ordered_json& shares = import_.at("interleave_prob");
        if (!shares.is_array()) return;
        for (size_t i = 0; i < sources.size() && i < shares.size(); ++i)
            sources[i]["weight"] = read_number(setting_text(shares[i])).value_or(1);
        if (import_.text("stopping_strategy") == "all_exhausted")
            import_.set("stopping_strategy", "mixture_stopping_strategy",
                        std::string("all_exhausted"));
    }

    // The names for {{NAME}} and {{AUTHOR}} in swift/self-cognition.
    void read_variables() {
        ordered_json variables = ordered_json::object();
        for (const auto& [key, name] :
             {std::pair{"model_name", "NAME"}, std::pair{"model_author", "AUTHOR"}}) {
            const std::vector<std::string> values = names(key);
            if (values.empty()) continue;
            if (values.size() > 1)
                import_.note(key, format_text("{} is taken in all languages", values.back()));
            variables[name] = values.back();
        }
        if (!variables.empty()) import_.set("model_name", "template_variables", variables);
    }

    void read_evaluation() {
        const std::vector<std::string> evaluated = names("val_dataset");
        const double share = import_.number("split_dataset_ratio", 0);
        if (evaluated.size() > 1) return import_.refuse("val_dataset", "one dataset is evaluated");
        if (!evaluated.empty()) {
            const ordered_json source = source_of(evaluated.front());
            import_.set("val_dataset", "eval_dataset_name", source["path"]);
            import_.set("val_dataset", "dataset_test_split", source["split"]);
        } else if (share > 0) {
            import_.set("split_dataset_ratio", "test_split_size", shortest(share));
        } else {
            for (const char* key : {"eval_steps", "eval_strategy", "eval_iters"})
                if (import_.has(key)) import_.idle(key, "there is nothing to evaluate on");
            return;
        }
        const std::string usual = import_.text("save_strategy", "steps");
        const std::string strategy = import_.text("eval_strategy", usual);
        import_.set(import_.has("eval_strategy") ? "eval_strategy" : "save_strategy",
                    "eval_strategy", strategy);
        if (import_.has("eval_steps"))
            import_.set("eval_steps", "eval_steps", import_.at("eval_steps"));
        else if (strategy == "steps")
            import_.set("save_steps", "eval_steps", import_.text("save_steps", "500"));
    }

    ForeignImport& import_;
    bool draws_rows_ = false;
};

}  // namespace

void read_swift_data(ForeignImport& import) {
    // Of a `swift export` in the same script.
    const bool has_rows_of_cache = import.is_on("to_cached_dataset");
    for (const char* key : {"cached_dataset", "cached_val_dataset", "custom_dataset_info"})
        if (import.has(key) && has_rows_of_cache && std::string_view(key) != "custom_dataset_info")
            import.idle(key, "its rows are prepared from the dataset of swift export");
        else if (import.has(key))
            import.refuse(key, "give the rows themselves as dataset; they are prepared anew");
    SwiftData(import).read();
}

void read_swift_tuner(ForeignImport& import, const std::string& usual) {
    const ordered_json& adapters = import.at("adapters");
    if (adapters.is_array() && adapters.size() > 1)
        import.refuse("adapters", "one adapter goes on; merge the others into the model before");
    else if (!asks_for_nothing(adapters))
        import.set("adapters", "adapter_name_or_path",
                   adapters.is_array() ? adapters.front() : adapters);
    const std::string key = import.has("train_type") ? "train_type" : "tuner_type";
    const std::string tuner = import.text(key, usual);
    const std::initializer_list<const char*> of_lora{
        "lora_rank",    "lora_alpha",        "lora_dropout",    "target_modules",
        "target_regex", "target_parameters", "modules_to_save", "use_rslora",
        "use_dora",     "lorap_lr_ratio",    "init_weights"};
    if (tuner == "full") {
        for (const char* name : of_lora)
            if (import.has(name)) import.idle(name, "the whole model is trained");
        return;
    }
    if (tuner != "lora") return import.refuse(key, "lora and full are served");
    import.set(key, "use_peft", std::string("true"));
    import.set_default("lora_r", "8");
    import.set_default("lora_alpha", "32");
    import.set_default("lora_dropout", "0.05");
    import.set_default("lora_target_modules", "all-linear");
    const std::pair<const char*, const char*> names[] = {
        {"lora_rank", "lora_r"},
        {"lora_alpha", "lora_alpha"},
        {"lora_dropout", "lora_dropout"},
        {"target_regex", "lora_target_modules"},
        {"target_parameters", "lora_target_parameters"},
        {"modules_to_save", "lora_modules_to_save"},
        {"use_rslora", "use_rslora"},
        {"use_dora", "use_dora"},
        {"lorap_lr_ratio", "loraplus_lr_ratio"},
        {"init_weights", "init_lora_weights"}};
    for (const auto& [theirs, ours] : names)
        if (import.has(theirs)) import.set(theirs, ours, import.at(theirs));
    if (import.has("target_modules") && !import.has("target_regex") &&
        import.at("target_modules") != ordered_json::array({"all-linear"}))
        import.set("target_modules", "lora_target_modules", import.at("target_modules"));
}

}  // namespace ringshard::config
