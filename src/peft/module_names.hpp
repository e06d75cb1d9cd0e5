#pragma once

#include <string>
#include <vector>

// Names of modules, as PEFT matches them.
namespace ringshard::peft {

bool is_end_of(const std::string& end, const std::string& name);

// Returns true if a module is one of modules_to_save, or lies in one. As in PEFT an entry is the
// end of a name, also within a word: "norm" is every norm.
bool is_saved(const std::string& module, const std::vector<std::string>& modules_to_save);

// Returns the modules of these tensors, by their whole names, that the ends of names stand for.
std::vector<std::string> whole_names(const std::vector<std::string>& ends,
                                     const std::vector<std::string>& tensors);

}  // namespace ringshard::peft
