#pragma once

#include <map>
#include <string>

#include "ringshard/run/loss_fingerprint.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::run {

// Adds README.md, the model card that the Hugging Face hub shows: base model, data, how to use it,
// and the settings that shape the loss. A README.md in output_dir that the program did not write
// stays, and no card is added. Reads output_dir: for rank 0.
void add_model_card(std::map<std::string, std::string>& files, const config::Config& config,
                    const LossFingerprint& fingerprint);

}  // namespace ringshard::run
