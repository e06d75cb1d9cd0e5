#pragma once

#include <cstdint>
#include <vector>

#include "json_reader.hpp"

namespace ringshard::text {

// The post-processor of the tokens of a whole text.
struct PostProcessor {
    // ByteLevel: spans leave white space at their ends out.
    struct Trimming {
        bool add_prefix_space;
    };
    std::vector<Trimming> trimmings;
    // TemplateProcessing: tokens before and behind the text.
    std::vector<int32_t> before;
    std::vector<int32_t> after;
};

PostProcessor read_post_processor(const Json& post_processor);

}  // namespace ringshard::text
