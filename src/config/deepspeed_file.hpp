#pragma once

#include <string>
#include <utility>
#include <vector>

#include "settings_file.hpp"

namespace ringshard::config {

struct DeepSpeedFile {
    Statements statements;
    // Fields without effect here, with the reason.
    std::vector<std::pair<std::string, std::string>> idle;
    bool has_optimizer = false;
};

// Reads a DeepSpeed file as DeepSpeed does under transformers' Trainer: "auto" leaves a value to
// the settings; a value that an optimizer, a scheduler or the file leaves out has DeepSpeed's
// default, unless the settings give it. The file has the strength of a profile.
DeepSpeedFile read_deepspeed_file(const Block& block, const BlockContent& content,
                                  Problems& problems);

}  // namespace ringshard::config
