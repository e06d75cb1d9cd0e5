#include "decoder.hpp"

#include <algorithm>

#include "bpe.hpp"
#include "matcher.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard::text {

namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens, std::string_view separator) {
    std::string text;
    for (const std::string& token : tokens) {
        if (&token != tokens.data()) text += separator;
        text += token;
    }
    return text;
}

class ByteLevel final : public DecoderStep {
public:
    void apply(Tokens& tokens) const override {
        std::string bytes;
        for (const std::string& token : tokens) add(token, bytes);
        std::string text;
        append_lossy(text, bytes);
        tokens.assign(1, std::move(text));
    }

private:
    // Copies a token that has a character without a byte.
    static void add(const std::string& token, std::string& bytes) {
        const size_t before = bytes.size();
        for (const char* place = token.data(); place != token.data() + token.size();) {
            const int byte = byte_of_letter(next_code_point(place));
            if (byte < 0) {
                bytes.resize(before);
                bytes += token;
                return;
            }
            bytes += static_cast<char>(byte);
        }
    }
};

class Replace final : public DecoderStep {
public:
    Replace(std::unique_ptr<Matcher> pattern, std::string content)
        : pattern_(std::move(pattern)), content_(std::move(content)) {}
    void apply(Tokens& tokens) const override {
        std::vector<Cut> matches;
        for (std::string& token : tokens) {
            matches.clear();
            if (!token.empty()) pattern_->find(token, matches);
            if (matches.empty()) continue;
            std::string text;
            size_t done = 0;
            for (const Cut match : matches) {
                text.append(token, done, match.first - done);
                text += content_;
                done = match.last;
            }
            text.append(token, done);
            token = std::move(text);
        }
    }

private:
    std::unique_ptr<Matcher> pattern_;
    std::string content_;
};

// Decodes runs of <0x41>; invalid UTF-8 becomes a U+FFFD per byte.
class ByteFallback final : public DecoderStep {
public:
    void apply(Tokens& tokens) const override {
        Tokens out;
        std::string bytes;
        const auto flush = [&] {
            if (bytes.empty()) return;
            if (!first_invalid_byte(bytes))
                out.push_back(bytes);
            else
                out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
            bytes.clear();
        };
        for (std::string& token : tokens) {
            if (const int byte = byte_of(token); byte >= 0) {
                bytes += static_cast<char>(byte);
                continue;
            }
            flush();
            out.push_back(std::move(token));
        }
        flush();
        tokens = std::move(out);
    }

private:
    static int byte_of(const std::string& token) {
        if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
        const auto digit = [](char c) {
            if (c >= '0' && c <= '9') return c - '0';
            c = static_cast<char>(c | 0x20);
            return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        };
        // The `tokenizers` package parses a number here, which may have a sign.
        if (token[3] == '+') return digit(token[4]);
        return digit(token[3]) < 0 || digit(token[4]) < 0 ? -1
                                                          : digit(token[3]) * 16 + digit(token[4]);
    }
};

class Fuse final : public DecoderStep {
public:
    void apply(Tokens& tokens) const override { tokens.assign(1, joined(tokens, "")); }
};

class Strip final : public DecoderStep {
public:
    Strip(std::string content, uint64_t start, uint64_t stop)
        : content_(std::move(content)), start_(start), stop_(stop) {}
    void apply(Tokens& tokens) const override {
        for (std::string& token : tokens) {
            std::string_view text = token;
            for (uint64_t i = 0; i < start_ && text.starts_with(content_); ++i)
                text.remove_prefix(content_.size());
            for (uint64_t i = 0; i < stop_ && text.ends_with(content_); ++i)
                text.remove_suffix(content_.size());
            if (text.size() != token.size()) token = std::string(text);
        }
    }

private:
    std::string content_;
    uint64_t start_, stop_;
};

class Metaspace final : public DecoderStep {
public:
    Metaspace(std::string replacement, bool prepends)
        : replacement_(std::move(replacement)), prepends_(prepends) {}
    void apply(Tokens& tokens) const override {
        for (size_t i = 0; i < tokens.size(); ++i) {
            const std::string_view space = i == 0 && prepends_ ? "" : " ";
            std::string& token = tokens[i];
            for (size_t place = token.find(replacement_); place != std::string::npos;
                 place = token.find(replacement_, place + space.size()))
                token.replace(place, replacement_.size(), space);
        }
    }

private:
    std::string replacement_;
    bool prepends_;
};

std::string one_character(const Json& decoder, std::string_view key) {
    const std::string text = text_of(decoder, key);
    if (text.empty() || text.size() != code_point_length(text[0]))
        refuse(format_text("\"{}\" of a decoder is not one character", key));
    return text;
}
uint64_t count_of(const Json& decoder, std::string_view key) {
    const int64_t* count = get(decoder, key).integer();
    if (count == nullptr || *count < 0)
        refuse(format_text("\"{}\" of a decoder is not a number", key));
    return static_cast<uint64_t>(*count);
}

}  // namespace

Decoder::Decoder(const Json& decoder) : is_none_(false) { add(decoder); }

void Decoder::add(const Json& decoder) {
    if (!is_object(decoder)) refuse("a decoder is not an object");
    const std::string kind = text_of(decoder, "type");
    if (kind == "Sequence") {
        for (const Json& part : list_of(decoder, "decoders")) add(part);
    } else if (kind == "ByteLevel") {
        steps_.push_back(std::make_unique<ByteLevel>());
    } else if (kind == "Replace") {
        steps_.push_back(std::make_unique<Replace>(read_pattern(get(decoder, "pattern")),
                                                   text_of(decoder, "content")));
    } else if (kind == "ByteFallback") {
        steps_.push_back(std::make_unique<ByteFallback>());
    } else if (kind == "Fuse") {
        steps_.push_back(std::make_unique<Fuse>());
    } else if (kind == "Strip") {
        steps_.push_back(std::make_unique<Strip>(one_character(decoder, "content"),
                                                 count_of(decoder, "start"),
                                                 count_of(decoder, "stop")));
    } else if (kind == "Metaspace") {
        const bool prepends =
            !find(decoder, "prepend_scheme") || text_of(decoder, "prepend_scheme") != "never";
        steps_.push_back(
            std::make_unique<Metaspace>(one_character(decoder, "replacement"), prepends));
    } else {
        refuse_kind("a decoder", kind);
    }
}

std::string Decoder::decode(Tokens tokens) const {
    for (const auto& step : steps_) step->apply(tokens);
    return joined(tokens, is_none_ ? " " : "");
}

}  // namespace ringshard::text
