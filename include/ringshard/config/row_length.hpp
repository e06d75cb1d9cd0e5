#pragma once

#include <optional>

#include "ringshard/config/config.hpp"

namespace ringshard::config {

// Returns how many tokens a row may have; unset: as many as the data has. A pair is two
// documents, as a text with its positive is.
inline std::optional<int64_t> most_tokens_of_row(const Config& config) {
    const std::optional<int64_t>& of_document = config.data.max_length;
    if (!of_document || !(config.training.learns_pairs() || config.training.learns_embeddings()))
        return of_document;
    return 2 * *of_document;
}

}  // namespace ringshard::config
