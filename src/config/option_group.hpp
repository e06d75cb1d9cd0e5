#pragma once

#include <string>
#include <utility>
#include <vector>

#include "enum_names.hpp"
#include "ringshard/config/option_table.hpp"

namespace ringshard::config {

// Settings of other programs without a field here: accepted, because another mechanism does their
// work, or refused.
class ForeignGroup {
public:
    ForeignGroup(OptionTable& table, std::string group) : table_(table), group_(std::move(group)) {}

    // `reason`: what replaces the setting here.
    Option& accept(std::string name, Shape shape, std::string default_text, std::string reason) {
        return foreign(std::move(name), Treatment::accepted, shape, std::move(default_text),
                       std::move(reason));
    }
    void accept_all(const std::vector<std::pair<std::string, Shape>>& names,
                    const std::string& reason) {
        for (const auto& [name, shape] : names) accept(name, shape, "null", reason);
    }
    // `reason`: what happens in its place; the report of the start says it with the value.
    Option& replace(std::string name, Shape shape, std::string default_text, std::string reason) {
        Option& option = accept(std::move(name), shape, std::move(default_text), std::move(reason));
        option.is_replaced = true;
        return option;
    }
    // `reason`: why the setting is not served, and what to do instead.
    Option& refuse(std::string name, Shape shape, std::string default_text, std::string reason) {
        return foreign(std::move(name), Treatment::refused, shape, std::move(default_text),
                       std::move(reason));
    }
    void alias(std::string name, std::string target, Shape shape = Shape::word,
               std::map<std::string, std::string> values = {}, std::string note = {}) {
        table_.add(
            Alias{std::move(name), std::move(target), shape, std::move(values), std::move(note)});
    }
    // Adds a name from an earlier release of TRL, transformers or Accelerate.
    void older(std::string name, std::string target, Shape shape = Shape::word,
               std::map<std::string, std::string> values = {}) {
        std::string note = "is the older name of " + target;
        alias(std::move(name), std::move(target), shape, std::move(values), std::move(note));
    }
    Block& block(std::string name, std::string help, std::string prefix = {},
                 std::map<std::string, std::string> names = {}) {
        return table_.add(
            Block{std::move(name), group_, std::move(help), std::move(prefix), std::move(names)});
    }

protected:
    OptionTable& table_;
    std::string group_;

private:
    Option& foreign(std::string name, Treatment treatment, Shape shape, std::string default_text,
                    std::string reason) {
        Option option;
        option.name = std::move(name);
        option.group = group_;
        option.treatment = treatment;
        option.shape = shape;
        option.default_text = std::move(default_text);
        option.reason = std::move(reason);
        return table_.add(std::move(option));
    }
};

// Settings with a field in one section of Config.
template <class Section>
class OptionGroup : public ForeignGroup {
public:
    OptionGroup(OptionTable& table, std::string group, Section Config::*section)
        : ForeignGroup(table, std::move(group)), section_(section) {}

    template <class Field>
    Option& serve(std::string name, Field Section::*field, std::string help) {
        Option option;
        option.name = std::move(name);
        option.group = group_;
        option.help = std::move(help);
        option.shape = ShapeOf<Field>::value;
        option.can_be_null = CanBeNull<Field>::value;
        if constexpr (std::is_enum_v<typename EnumIn<Field>::type>)
            option.choices = names_of<typename EnumIn<Field>::type>();
        const auto section = section_;
        option.read = [section, field](const std::string& text, Config& config) {
            return read_value(text, config.*section.*field);
        };
        option.write = [section, field](const Config& config) {
            return write_value(config.*section.*field);
        };
        option.default_text = option.write(Config{});
        return table_.add(std::move(option));
    }
    // Adds a text that holds JSON: a mapping or a list in a YAML file.
    Option& serve_json(std::string name, std::string Section::*field, std::string help,
                       KeyOrder order = KeyOrder::sorted) {
        Option& option = serve(std::move(name), field, std::move(help));
        option.shape = Shape::json;
        const auto section = section_;
        option.read = [section, field, order](const std::string& text, Config& config) {
            return read_json(text, config.*section.*field, order);
        };
        return option;
    }

private:
    Section Config::*section_;
};

void add_run_options(OptionTable& table);
void add_model_options(OptionTable& table);
void add_adapter_options(OptionTable& table);
void add_quantization_options(OptionTable& table);
void add_data_options(OptionTable& table);
void add_training_options(OptionTable& table);
void add_preference_options(OptionTable& table);
void add_score_options(OptionTable& table);
void add_precision_options(OptionTable& table);
void add_parallel_options(OptionTable& table);
void add_fsdp_options(OptionTable& table);
void add_deepspeed_options(OptionTable& table);
void add_evaluation_options(OptionTable& table);
void add_logging_options(OptionTable& table);
void add_checkpoint_options(OptionTable& table);
void add_launcher_options(OptionTable& table);
void add_refused_options(OptionTable& table);

}  // namespace ringshard::config
