#include "conversion.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/model/adapters.hpp"

namespace ringshard::model {

namespace {

// A command that loads the folder with Python code and writes a new folder beside it.
std::string command(const char* imports, const char* load, const std::filesystem::path& folder,
                    const char* ending) {
    const std::filesystem::path plain = folder.lexically_normal();
    const std::string from = (plain.has_filename() ? plain : plain.parent_path()).string();
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

std::optional<Failure> check_adapter_folder(const std::filesystem::path& folder) {
    const auto refuse = [&](const std::string& what) {
        return Failure{ExitCode::missing_input,
                       format_text("adapter_name_or_path = {}: {}", folder.string(), what)};
    };
    if (!file_exists(folder / adapter_config_name)) {
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
            if (file_exists(entry.path() / adapter_config_name))
                return refuse(
                    format_text("has no {}; PEFT writes an adapter with a name of its own into a "
                                "folder below, and one is in {}: name that",
                                adapter_config_name, entry.path().string()));
        return refuse(format_text("{} is not there, and so it is not the folder of a PEFT adapter",
                                  (folder / adapter_config_name).string()));
    }
    if (file_exists(folder / adapter_weights_name) || !file_exists(folder / "adapter_model.bin"))
        return std::nullopt;
    return refuse(format_text(
        "holds adapter_model.bin and no safetensors, the only format that is read; convert it: "
        "python -c \"import sys, torch; from safetensors.torch import save_file; a = sys.argv[1]; "
        "save_file(torch.load(a + '/adapter_model.bin', map_location='cpu'), a + "
        "'/adapter_model.safetensors')\" {}",
        shell_word(folder.string())));
}

}  // namespace ringshard::model
