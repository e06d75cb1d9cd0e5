#include "module_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace ringshard::model {

bool is_end_of(const std::string& end, const std::string& name) {
    return name == end || name.ends_with("." + end);
}

std::string name_in_transformers(const std::string& tensor) {
    struct Renamed {
        std::string_view in_file;
        std::string_view module;
    };
    constexpr std::array<Renamed, 8> renamed{
        {{"backbone.", "model."},
         {"model.word_embeddings.", "model.embed_tokens."},
         {".block_sparse_moe.", ".mlp."},
         {".attention.dense.", ".self_attn.o_proj."},
         {".attention.", ".self_attn."},
         {".self_attn.f_a_proj.", ".self_attn.forget_gate.f_a_proj."},
         {".self_attn.f_b_proj.", ".self_attn.forget_gate.f_b_proj."},
         {".self_attn.f_proj.", ".self_attn.forget_gate.f_proj."}}};
    std::string name = tensor;
    for (const auto& [in_file, module] : renamed) {
        const bool is_of_model = name.starts_with("model.") || name.starts_with("backbone.");
        if (const size_t at = name.find(in_file); is_of_model && at != std::string::npos)
            name.replace(at, in_file.size(), module);
    }
    return name;
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

bool is_saved(const std::string& module, const std::vector<std::string>& modules_to_save) {
    for (size_t end = 0; end != std::string::npos;) {
        end = module.find('.', end + 1);
        for (const std::string& saved : modules_to_save)
            if (module.substr(0, end).ends_with(saved)) return true;
    }
    return false;
}

std::vector<std::string> whole_names(const std::vector<std::string>& ends,
                                     const std::vector<std::string>& tensors) {
    std::vector<std::string> names;
    for (const std::string& tensor : tensors) {
        const std::string module = module_of(tensor);
        for (size_t end = 0; end != std::string::npos;) {
            end = module.find('.', end + 1);
            const std::string outer = module.substr(0, end);
            const bool is_named = std::ranges::any_of(
                ends, [&](const std::string& name) { return outer.ends_with(name); });
            if (!is_named) continue;
            if (std::ranges::find(names, outer) == names.end()) names.push_back(outer);
            break;
        }
    }
    return names;
}

}  // namespace ringshard::model
