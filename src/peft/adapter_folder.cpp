#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::peft {

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
    if (file_exists(folder / hub::adapter_weights_name) ||
        !file_exists(folder / "adapter_model.bin"))
        return std::nullopt;
    return refuse(format_text(
        "holds adapter_model.bin and no safetensors, the only format that is read; convert it: "
        "python -c \"import sys, torch; from safetensors.torch import save_file; a = sys.argv[1]; "
        "save_file(torch.load(a + '/adapter_model.bin', map_location='cpu'), a + "
        "'/adapter_model.safetensors')\" {}",
        shell_word(folder.string())));
}

}  // namespace ringshard::peft
