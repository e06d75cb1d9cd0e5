#include "ringshard/model/conversion.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::model {

namespace {

// A command that loads the folder with Python code and writes a new folder beside it.
std::string command(const char* imports, const char* load, const std::filesystem::path& folder,
                    const char* ending) {
    const std::string from = without_slash(folder).string();
    return format_text(
        "python -c \"import sys, {}; a, b = sys.argv[1:]; {}.save_pretrained(b); "
        "t.AutoTokenizer.from_pretrained(a).save_pretrained(b)\" {} {}",
        imports, load, shell_word(from), shell_word(from + ending));
}

}  // namespace

std::optional<Failure> refuse_adapter(const std::filesystem::path& folder) {
    // A checkpoint with a copy of its adapter has both configurations.
    const bool is_checkpoint = file_exists(folder / "manifest.json");
    if (is_checkpoint || !file_exists(folder / "adapter_config.json")) return std::nullopt;
    return Failure{
        ExitCode::bad_data,
        format_text("{}: is an adapter (adapter_config.json), and a whole model is needed; name "
                    "its base as model_name_or_path and this folder as adapter_name_or_path, or "
                    "merge it into its base: {}",
                    folder.string(),
                    command("peft, transformers as t",
                            "peft.AutoPeftModelForCausalLM.from_pretrained(a).merge_and_unload()",
                            folder, "-merged"))};
}

Failure no_weights_in(const std::filesystem::path& folder) {
    for (const auto* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
        if (file_exists(folder / name))
            return {
                ExitCode::bad_data,
                format_text(
                    "{}: holds {} and no safetensors, the only format that is read; convert it: {}",
                    folder.string(), name,
                    command("transformers as t", "t.AutoModelForCausalLM.from_pretrained(a)",
                            folder, "-safetensors"))};
    return {ExitCode::missing_input,
            format_text("{}: holds neither model.safetensors nor model.safetensors.index.json",
                        folder.string())};
}

}  // namespace ringshard::model
