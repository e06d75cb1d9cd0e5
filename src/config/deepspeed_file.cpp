#include "deepspeed_file.hpp"

#include <algorithm>
#include <array>

#include "ringshard/config/deepspeed_fields.hpp"
#include "value_text.hpp"
#include "yaml_value.hpp"

namespace ringshard::config {

using nlohmann::ordered_json;

namespace {

bool is_comment(std::string_view key) {
    return key.starts_with('_') || key.starts_with("//") || key == "comment";
}

// Returns true for null, and for "auto", which transformers fills in from its arguments.
bool is_open(const ordered_json& value) { return value.is_null() || value == "auto"; }

bool asks_for_nothing(const ordered_json& value) {
    if (value.is_structured()) return std::ranges::all_of(value, asks_for_nothing);
    return is_open(value) || value == false;
}

// Recognizes {"enabled": false}, and torch.compile's {"disable": true}.
bool is_switched_off(const ordered_json& block) {
    const auto enabled = block.find("enabled");
    const auto disabled = block.find("disable");
    return (enabled != block.end() && *enabled == false) ||
           (disabled != block.end() && *disabled == true);
}

class Reader {
public:
    Reader(const Block& block, const Origin& origin, Problems& problems)
        : block_(block.name), origin_(origin), problems_(problems) {
        origin_.strength = Strength::profile;
        default_.strength = Strength::profile;
        default_.place = format_text("{}, DeepSpeed's default", origin_.place);
    }

    DeepSpeedFile read(const ordered_json& file) {
        for (const auto& [key, value] : file.items()) {
            if (is_comment(key)) continue;
            if (key == "optimizer")
                read_optimizer(value);
            else if (key == "scheduler")
                read_scheduler(value);
            else if (key == "zero_optimization" && value.is_boolean())  // DeepSpeed's oldest form
                set("zero_stage", key, value ? "1" : "0");
            else
                walk(key, value);
        }
        const ordered_json zero = file.value("zero_optimization", ordered_json());
        if (!zero.is_boolean() && (!zero.is_object() || !zero.contains("stage")))
            set_default("zero_stage", "zero_optimization.stage", "0");
        result_.statements.push_back({"distributed_type", "DEEPSPEED", origin_, {}, {}, false});
        return std::move(result_);
    }

private:
    void walk(const std::string& path, const ordered_json& value) {
        if (value.is_object()) return walk_block(path, value);
        const DeepSpeedField* field = find_deepspeed_field(path);
        if (field == nullptr) {
            if (!is_deepspeed_block(path)) return report_unknown(path, value);
            if (!asks_for_nothing(value)) complain(path, value, "must be a mapping");
            return;
        }
        if (!is_open(value)) take(*field, path, value);
    }

    void walk_block(const std::string& path, const ordered_json& block) {
        const DeepSpeedField* whole = find_deepspeed_field(path + ".*");
        const bool is_whole = whole != nullptr && whole->name() == path;
        if (is_whole && whole->meaning == FieldMeaning::unless_enabled) {
            if (block.value("enabled", ordered_json()) == true)
                refuse(path + ".enabled", true, whole->text);
            return;
        }
        if (whole == nullptr && !is_deepspeed_block(path)) return report_unknown(path, block);
        if (is_switched_off(block)) {  // then only bf16's "enabled" has a meaning
            if (find_deepspeed_field(path + ".enabled") != nullptr && block.contains("enabled"))
                walk(path + ".enabled", block["enabled"]);
            return;
        }
        if (is_whole && whole->meaning == FieldMeaning::refused)
            return asks_for_nothing(block) ? void() : refuse(path, block, whole->text);
        for (const auto& [key, value] : block.items())
            if (!is_comment(key)) walk(path + "." + key, value);
    }

    void take(const DeepSpeedField& field, const std::string& path, const ordered_json& value) {
        const std::string target(field.text);
        switch (field.meaning) {
            case FieldMeaning::sets:
                if (path.starts_with("zero_optimization.cpu_offload"))
                    return set(target, path, value == true ? "cpu" : "none");
                return set(target, path, to_text(value));
            case FieldMeaning::binds: return bind(target, path, to_text(value));
            case FieldMeaning::idle: result_.idle.emplace_back(path, target); return;
            case FieldMeaning::unless_enabled:
                if (value == true) refuse(path, value, field.text);
                return;
            case FieldMeaning::refused:
                if (!asks_for_nothing(value) &&
                    std::ranges::find(field.harmless, lower_case(to_text(value))) ==
                        field.harmless.end())
                    refuse(path, value, field.text);
        }
    }

    // Reads DeepSpeed's AdamW and Lion. Its Adam decouples the decay as well, unless adam_w_mode is
    // false.
    void read_optimizer(const ordered_json& optimizer) {
        if (optimizer.is_null()) return;
        const ordered_json params = params_of("optimizer", optimizer);
        const std::string type = type_of("optimizer", optimizer);
        if (type.empty()) return;
        const std::string kind = lower_case(type);
        const bool is_lion = kind == "lion";
        if (kind != "adam" && kind != "adamw" && !is_lion)
            return refuse("optimizer.type", type, "use type AdamW or Lion");
        result_.has_optimizer = true;
        bind("optim", "optimizer.type", is_lion ? "lion_32bit" : "adamw_torch");
        for (const auto& [key, value] : params.items()) {
            const std::string path = "optimizer.params." + key;
            if (is_comment(key) || (key == "adam_w_mode" && (kind == "adamw" || value != false)))
                continue;
            if (key == "adam_w_mode")
                bind("optim_args", path, "decoupled_weight_decay=False");
            else if (key == "betas")
                read_betas(value);
            else
                walk(path, value);
        }
        if (!params.contains("lr")) set_default("learning_rate", "optimizer.params.lr", "0.001");
        if (!params.contains("weight_decay"))
            set_default("weight_decay", "optimizer.params.weight_decay", "0");
        if (is_lion && !params.contains("betas"))
            set_default("adam_beta2", "optimizer.params.betas", "0.99");
    }

    void read_betas(const ordered_json& betas) {
        if (is_open(betas)) return;
        if (!betas.is_array() || betas.size() != 2)
            return complain("optimizer.params.betas", betas, "must be two numbers");
        bind("adam_beta1", "optimizer.params.betas[0]", to_text(betas[0]));
        bind("adam_beta2", "optimizer.params.betas[1]", to_text(betas[1]));
    }

    void read_scheduler(const ordered_json& scheduler) {
        if (scheduler.is_null()) return;
        const ordered_json params = params_of("scheduler", scheduler);
        const std::string type = type_of("scheduler", scheduler);
        if (type.empty()) return;
        const bool is_constant = type == "WarmupLR";
        const bool is_cosine = type == "WarmupCosineLR";
        if (!is_constant && !is_cosine && type != "WarmupDecayLR")
            return refuse("scheduler.type", type,
                          "use WarmupLR, WarmupDecayLR or WarmupCosineLR, or leave the scheduler "
                          "out and give lr_scheduler_type");
        bind("lr_scheduler_type", "scheduler.type", type);
        ordered_json kwargs = ordered_json::object();
        for (const auto& [key, value] : params.items()) {
            const std::string path = "scheduler.params." + key;
            if (is_comment(key) || is_open(value)) continue;
            if (key == "warmup_num_steps")
                read_warmup_steps(path, value);
            else if (key == "warmup_max_lr" && !is_cosine)
                bind("learning_rate", path, to_text(value));
            else
                kwargs[key] = value;
        }
        bind("lr_scheduler_kwargs", "scheduler.params", kwargs.dump());
        if (!params.contains("warmup_num_steps"))
            set_default("warmup_steps", "scheduler.params.warmup_num_steps", "1000");
        if (!params.contains("warmup_max_lr") && type == "WarmupDecayLR")
            set_default("learning_rate", "scheduler.params.warmup_max_lr", "0.001");
        if (!is_constant && !params.contains("total_num_steps"))
            complain("scheduler.params", params,
                     "DeepSpeed needs total_num_steps; write \"total_num_steps\": \"auto\"");
    }

    void read_warmup_steps(const std::string& path, const ordered_json& value) {
        if (!value.is_number_integer() || value < 1)
            return complain(path, value, "must be a whole number of steps above 0, or \"auto\"");
        bind("warmup_steps", path, to_text(value));
    }

    ordered_json params_of(const std::string& name, const ordered_json& block) {
        if (!block.is_object()) return ordered_json::object();
        for (const auto& [key, value] : block.items())
            if (key != "type" && key != "params" && !is_comment(key))
                walk(format_text("{}.{}", name, key), value);
        const ordered_json params = block.value("params", ordered_json::object());
        return params.is_object() ? params : ordered_json::object();
    }

    std::string type_of(const std::string& name, const ordered_json& block) {
        const ordered_json type =
            block.is_object() ? block.value("type", ordered_json()) : ordered_json();
        if (type.is_string()) return type.get<std::string>();
        complain(name, block, "must be a mapping with type and params");
        return {};
    }

    void set(const std::string& target, const std::string& path, const std::string& text) {
        result_.statements.push_back({path, text, origin_, block_, target, false});
    }
    void bind(const std::string& target, const std::string& path, const std::string& text) {
        result_.statements.push_back({path, text, origin_, block_, target, true});
    }
    // Sets the default of a field that the file leaves out.
    void set_default(const std::string& target, const std::string& path, const std::string& text) {
        result_.statements.push_back({path, text, default_, block_, target, false});
    }
    void complain(const std::string& path, const ordered_json& value, const std::string& rule) {
        problems_.push_back(complaint({path, to_text(value), origin_, block_, {}, false}, rule));
    }
    void refuse(const std::string& path, const ordered_json& value, std::string_view reason) {
        complain(path, value, format_text("is not served: {}", reason));
    }
    void report_unknown(const std::string& path, const ordered_json& value) {
        const std::string nearest = nearest_deepspeed_field(path);
        complain(path, value,
                 format_text("DeepSpeed has no setting of this name{}{}{}",
                             nearest.empty() ? "" : "; did you mean ", nearest,
                             nearest.empty() ? "" : "?"));
    }

    std::string block_;
    Origin origin_;
    Origin default_;
    Problems& problems_;
    DeepSpeedFile result_;
};

}  // namespace

DeepSpeedFile read_deepspeed_file(const Block& block, const BlockContent& content,
                                  Problems& problems) {
    return Reader(block, content.origin, problems).read(content.mapping);
}

}  // namespace ringshard::config
