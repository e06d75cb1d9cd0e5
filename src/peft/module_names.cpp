#include "module_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace ringshard::peft {

bool is_end_of(const std::string& end, const std::string& name) {
    return name == end || name.ends_with("." + end);
}

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
        const std::string module = model::module_of(tensor);
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

}  // namespace ringshard::peft
