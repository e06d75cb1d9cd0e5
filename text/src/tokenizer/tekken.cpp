#include "tekken.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "json_reader.hpp"

namespace ringshard::text {

namespace {

// Special tokens of the first versions, whose files do not list them.
constexpr std::string_view first_special[] = {"<unk>",
                                              "<s>",
                                              "</s>",
                                              "[INST]",
                                              "[/INST]",
                                              "[AVAILABLE_TOOLS]",
                                              "[/AVAILABLE_TOOLS]",
                                              "[TOOL_RESULTS]",
                                              "[/TOOL_RESULTS]",
                                              "[TOOL_CALLS]",
                                              "[IMG]",
                                              "<pad>",
                                              "[IMG_BREAK]",
                                              "[IMG_END]",
                                              "[PREFIX]",
                                              "[MIDDLE]",
                                              "[SUFFIX]",
                                              "[SYSTEM_PROMPT]",
                                              "[/SYSTEM_PROMPT]",
                                              "[TOOL_CONTENT]"};

int64_t count_of(const Json& object, std::string_view key, int64_t least) {
    const int64_t* const number = get(object, key).integer();
    if (number == nullptr || *number < least || *number > INT32_MAX)
        refuse(format_text("\"{}\" is not a number from {} on", key, least));
    return *number;
}

std::string decoded_base64(std::string_view text) {
    const auto digit = [](char c) -> int {
        if (c >= 'A' && c <= 'Z') return c - 'A';
        if (c >= 'a' && c <= 'z') return c - 'a' + 26;
        if (c >= '0' && c <= '9') return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
    };
    std::string bytes;
    uint32_t held = 0;
    unsigned bits = 0;
    while (text.ends_with('=')) text.remove_suffix(1);
    for (const char c : text) {
        const int value = digit(c);
        if (value < 0) refuse(format_text("\"token_bytes\" {} is not base64", text));
        held = held << 6 | static_cast<uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        bytes += static_cast<char>(held >> bits & 0xFF);
    }
    return bytes;
}

std::vector<std::string> read_special(const Json& file, size_t count, bool must_list) {
    std::vector<std::string> tokens(count);
    size_t listed = 0;
    const auto put = [&](int64_t rank, std::string_view text) {
        if (rank < 0 || rank >= static_cast<int64_t>(count) ||
            !tokens[static_cast<size_t>(rank)].empty())
            refuse(
                format_text("the special token \"{}\" has the rank {}, where each of the {} "
                            "ranks comes once",
                            text, rank, count));
        tokens[static_cast<size_t>(rank)] = text;
        ++listed;
    };
    if (find(file, "special_tokens") != nullptr) {
        for (const Json& token : list_of(file, "special_tokens"))
            put(count_of(token, "rank", 0), text_of(token, "token_str"));
    } else if (must_list) {
        refuse("\"special_tokens\" is missing");
    } else {
        for (const std::string_view text : first_special) put(static_cast<int64_t>(listed), text);
    }
    for (size_t id = listed; id < count; ++id) {
        if (!tokens[id].empty()) refuse("the ranks of \"special_tokens\" leave a number out");
        tokens[id] = format_text("<SPECIAL_{}>", id);
    }
    if (std::set<std::string_view>(tokens.begin(), tokens.end()).size() != count)
        refuse("\"special_tokens\" has a text twice");
    return tokens;
}

std::vector<std::string> read_vocabulary(const Json& file, size_t count) {
    const Json::List& listed = list_of(file, "vocab");
    if (listed.size() < count)
        refuse(format_text("\"vocab\" has {} entries, where the configuration needs {}",
                           listed.size(), count));
    std::vector<std::string> tokens;
    tokens.reserve(count);
    for (size_t rank = 0; rank < count; ++rank) {
        if (count_of(listed[rank], "rank", 0) != static_cast<int64_t>(rank))
            refuse(format_text("entry {} of \"vocab\" has another rank", rank));
        tokens.push_back(decoded_base64(text_of(listed[rank], "token_bytes")));
        if (rank < 256 && tokens.back() != std::string(1, static_cast<char>(rank)))
            refuse(format_text("entry {} of \"vocab\" is not the byte {}", rank, rank));
    }
    return tokens;
}

}  // namespace

bool is_tekken(const Value& file) {
    const Json* const config = file.find("config");
    return file.find("model") == nullptr && file.find("vocab") != nullptr && config != nullptr &&
           config->find("default_vocab_size") != nullptr;
}

Tekken read_tekken(const Value& file) {
    const Json& config = get(file, "config");
    Tekken result;
    result.version = text_of(config, "version");
    static constexpr std::array known{"v1", "v2", "v3", "v7", "v11", "v13", "v15"};
    if (std::ranges::find(known, result.version) == known.end())
        refuse(format_text("\"version\" {} is not known; v1, v2, v3, v7, v11, v13 and v15 are read",
                           result.version));
    result.pattern = text_of(config, "pattern");
    const int64_t special = count_of(config, "default_num_special_tokens", 1);
    const int64_t all = count_of(config, "default_vocab_size", special + 256);
    const bool lists_special =
        std::ranges::find(known, result.version) > std::ranges::find(known, std::string("v7"));
    result.special = read_special(file, static_cast<size_t>(special), lists_special);
    result.bytes = read_vocabulary(file, static_cast<size_t>(all - special));
    return result;
}

std::vector<std::pair<std::string, std::string>> named_tokens(const Tekken& tekken) {
    static constexpr std::array<std::pair<const char*, const char*>, 4> names{
        {{"bos_token", "<s>"},
         {"eos_token", "</s>"},
         {"unk_token", "<unk>"},
         {"pad_token", "<pad>"}}};
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& [name, token] : names)
        if (std::ranges::find(tekken.special, token) != tekken.special.end())
            found.emplace_back(name, token);
    return found;
}

}  // namespace ringshard::text
