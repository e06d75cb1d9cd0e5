#pragma once

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/model/model_spec.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::run {

// Gives the model a row for each token that the settings add: added_tokens, and the tokens that
// come with another tokenizer's chat template (chat_template_path). Reads tokenizers only where
// there are such settings. Appends a note with the number of tokens that another tokenizer adds.
std::optional<Failure> resize_vocabulary(const config::Config& config, const HubCache& hub,
                                         model::ModelSpec& spec, std::vector<std::string>& notes);

}  // namespace ringshard::run
