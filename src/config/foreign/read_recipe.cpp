#include "read_recipe.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "../settings_file.hpp"

namespace ringshard::config {

namespace {

bool has(const ForeignFile& file, const char* key) { return file.content.contains(key); }

// A recipe of torchtune names a Python function for each of its parts.
bool is_of_torchtune(const ForeignFile& file) {
    return std::ranges::any_of(file.content, [](const nlohmann::ordered_json& part) {
        return part.is_object() && part.contains("_component_");
    });
}

}  // namespace

const ForeignTrainer* recognise(const ForeignFile& file) {
    if (const auto command = file.content.find("command");
        command != file.content.end() && command->is_string()) {
        const auto name = command->get<std::string>();
        if (name.starts_with("megatron")) return &megatron_swift();
        if (name.starts_with("swift")) return &ms_swift();
        if (name.starts_with("axolotl")) return &axolotl();
        if (name.starts_with("llamafactory"))
            return has(file, "train_dataset") ? &llama_factory_v1() : &llama_factory();
    }
    const auto model = file.content.find("model");
    const bool has_model_block = model != file.content.end() && model->is_object();
    if (has_model_block || has(file, "step_scheduler")) return &automodel();
    if (has(file, "base_model")) return &axolotl();
    if (has(file, "gamma_beta_ratio")) return &simpo();
    if (has(file, "train_dataset") && has(file, "model")) return &llama_factory_v1();
    if (has(file, "cutoff_len") || has(file, "finetuning_type") || has(file, "stage"))
        return has(file, "model_name_or_path") ? &llama_factory() : nullptr;
    const bool has_model = model != file.content.end() && model->is_string();
    if (!has_model) return nullptr;
    if (has(file, "micro_batch_size") || has(file, "tensor_model_parallel_size"))
        return &megatron_swift();
    if (has(file, "tuner_type") || has(file, "train_type") || has(file, "dataset"))
        return &ms_swift();
    return nullptr;
}

namespace {

std::optional<std::string> read_or_complain(const std::filesystem::path& file, Problems& problems) {
    auto text = read_text_file(file);
    if (!text)
        problems.push_back(
            {ExitCode::missing_input,
             format_text("{}: there is no such file, or it cannot be read", file.string())});
    return text;
}

}  // namespace

ImportedSettings read_config_file(const OptionTable& table, const std::filesystem::path& file,
                                  Problems& problems) {
    const auto text = read_or_complain(file, problems);
    if (!text) return {};
    ForeignFile recipe;
    try {
        const YAML::Node root = YAML::Load(*text);
        if (root.IsMap()) recipe = read_foreign_yaml(*text, file.string());
    } catch (const YAML::Exception&) {  // read_settings_text() names the line
    }
    if (is_of_torchtune(recipe)) {
        problems.push_back(
            {ExitCode::settings,
             format_text("{}: is a recipe of torchtune (_component_), which is not read; give its "
                         "values under the names of TRL: `trainer --help all` lists them",
                         file.string())});
        return {};
    }
    if (const ForeignTrainer* trainer = recognise(recipe))
        return ForeignImport(table, recipe, *trainer, problems).translate();
    return {
        read_settings_text(table, *text, Strength::config_file, file.string(), problems), {}, {}};
}

ImportedSettings read_shell_recipe(const OptionTable& table, const std::filesystem::path& file,
                                   Problems& problems) {
    const auto text = read_or_complain(file, problems);
    if (!text) return {};
    const ForeignFile recipe = read_foreign_shell(*text, file.string(), problems);
    const ForeignTrainer* trainer = recognise(recipe);
    if (trainer == nullptr) return {};
    return ForeignImport(table, recipe, *trainer, problems).translate();
}

}  // namespace ringshard::config
