#pragma once

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/prepare.hpp"

namespace ringshard::data {

// A file of a dataset.
struct InputFile {
    std::filesystem::path name;   // as the user knows it
    std::filesystem::path plain;  // what is read: unpacked if it was compressed
    size_t source = 0;
};

struct TokensToMake {
    std::vector<InputFile> files;
    std::vector<std::vector<std::string>> columns;  // per source: the only ones looked at; or all
    FormatSettings format;
    int64_t skip_bad_rows = 0;
    text::Value about;  // what decides the tokens
};

// Tokenizes all rows and writes them to work/result, in the order of the files, the same bytes at
// any number of ranks and threads. What the user should know is kept in the file: see
// warnings_of(). Collective over the group.
std::optional<comm::AgreedFailure> make_tokens(const TokensToMake& tokens,
                                               const std::filesystem::path& work,
                                               const Workshop& workshop, const comm::Group& group);

std::vector<std::string> warnings_of(const text::Value& about);

}  // namespace ringshard::data
