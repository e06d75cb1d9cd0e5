#pragma once

#include <cstdint>
#include <vector>

#include "json_reader.hpp"

namespace ringshard::text {

// Post-processing of the tokens of a whole text.
struct PostProcessor {
    // ByteLevel: trims white space from spans.
    struct Trimming {
        bool add_prefix_space;
    };
    std::vector<Trimming> trimmings;
    // TemplateProcessing: tokens before and after the text.
    std::vector<int32_t> before;
    std::vector<int32_t> after;
};

PostProcessor read_post_processor(const Json& post_processor);

}  // namespace ringshard::text
