#pragma once

#include "ringshard/data/prepare.hpp"
#include "work_list.hpp"

namespace ringshard::data {

struct TokensToMake {
    std::vector<InputFile> files;
    std::vector<InputSlice> slices;    // of the files
    std::vector<RowMapping> mappings;  // per source
    std::vector<std::string> names{};  // of the sources, for messages
    FormatSettings format;
    int64_t skip_bad_rows = 0;
    bool has_anchor = false;  // the last source, whose rows say by themselves what is learned
    text::Value about;        // everything that determines the tokens
};

// Tokenizes all rows and writes them to work/result, in the order of the files, with the same bytes
// at any number of ranks and threads. The file keeps warnings for the user: see warnings_of().
// Collective over the group.
std::optional<comm::AgreedFailure> make_tokens(const TokensToMake& tokens,
                                               const std::filesystem::path& work,
                                               const PrepareResources& resources,
                                               const comm::Group& group);

std::vector<std::string> warnings_of(const text::Value& about);

}  // namespace ringshard::data
