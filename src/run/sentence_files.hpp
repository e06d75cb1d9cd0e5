#pragma once

#include <map>
#include <string>

#include "ringshard/config/training_settings.hpp"

namespace ringshard::run {

// Adds what sentence-transformers reads beside a model of this width: rows are pooled, and then
// normalised. Files of the model's own folder stay, but that of another pooling.
void add_sentence_files(std::map<std::string, std::string>& files, config::Pooling pooling,
                        int64_t width);

}  // namespace ringshard::run
