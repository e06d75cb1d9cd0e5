#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringshard::config {

// How adapters begin, PEFT's init_lora_weights. B begins as 0 beside a uniform or a normal A. PiSSA
// and OLoRA take A and B out of the weight: of its largest singular values, or of the first columns
// of its QR decomposition.
struct AdapterInit {
    enum class Kind { uniform, normal, pissa, olora };
    Kind kind = Kind::uniform;
    // PiSSA: the iterations of a randomised decomposition; unset: an exact one.
    std::optional<int64_t> iterations{};

    bool takes_from_weights() const { return kind == Kind::pissa || kind == Kind::olora; }
};

// Biases of the model that are trained beside adapters, in PEFT's words: none, all of them, or
// those of layers that have an adapter.
enum class TrainedBiases { none, all, lora_only };

// Reads true, gaussian, pissa, pissa_niter_N or olora; nothing for other texts.
std::optional<AdapterInit> read_adapter_init(const std::string& text);

// Numbers of layers, by an expression for the end of their names, in the order of the text.
using AdapterPatterns = std::vector<std::pair<std::string, double>>;

// Numbers of tokens whose rows train, by the end of the name of an embedding or of an output layer;
// an empty name is the embedding.
using TrainedTokens = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// Reads PEFT's trainable_token_indices: a JSON list of whole numbers, or an object of such lists;
// nothing for other texts. An empty text, and null, name no tokens.
std::optional<TrainedTokens> read_trained_tokens(const std::string& text);

// Reads a JSON object of numbers; nothing for other texts. An empty text has no patterns.
std::optional<AdapterPatterns> read_adapter_patterns(const std::string& text);

}  // namespace ringshard::config
