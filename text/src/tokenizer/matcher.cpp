#include "matcher.hpp"

namespace ringshard::text {

namespace {

Cut cut(size_t first, size_t last) {
    return {static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
}

class Literal final : public Matcher {
public:
    explicit Literal(std::string text) : text_(std::move(text)) {}
    void find(std::string_view text, std::vector<Cut>& matches) const override {
        for (size_t place = text.find(text_); place != std::string_view::npos;
             place = text.find(text_, place + text_.size()))
            matches.push_back(cut(place, place + text_.size()));
    }

private:
    std::string text_;
};

class Pattern final : public Matcher {
public:
    explicit Pattern(Regex regex) : regex_(std::move(regex)) {}
    void find(std::string_view text, std::vector<Cut>& matches) const override {
        regex_.find(text, matches);
    }

private:
    Regex regex_;
};

class Characters final : public Matcher {
public:
    explicit Characters(uint8_t bits) : bits_(bits) {}
    void find(std::string_view text, std::vector<Cut>& matches) const override {
        const auto& table = character_table();
        for (const char* place = text.data(); place != text.data() + text.size();) {
            const char* const first = place;
            if ((table[next_code_point(place)] & bits_) != 0)
                matches.push_back(cut(static_cast<size_t>(first - text.data()),
                                      static_cast<size_t>(place - text.data())));
        }
    }

private:
    uint8_t bits_;
};

class WordsAndSigns final : public Matcher {
public:
    void find(std::string_view text, std::vector<Cut>& matches) const override {
        const auto& table = character_table();
        enum class Kind { none, word, sign } last = Kind::none;
        for (const char* place = text.data(); place != text.data() + text.size();) {
            const auto first = static_cast<size_t>(place - text.data());
            const uint8_t bits = table[next_code_point(place)];
            const Kind kind = (bits & is_word) != 0    ? Kind::word
                              : (bits & is_white) != 0 ? Kind::none
                                                       : Kind::sign;
            const auto end = static_cast<size_t>(place - text.data());
            if (kind != Kind::none && kind == last)
                matches.back().last = static_cast<uint32_t>(end);
            else if (kind != Kind::none)
                matches.push_back(cut(first, end));
            last = kind;
        }
    }
};

}  // namespace

std::unique_ptr<Matcher> read_pattern(const Json& pattern) {
    if (!is_object(pattern)) refuse("\"pattern\" is not an object");
    if (find(pattern, "String")) return literal(text_of(pattern, "String"));
    auto regex = Regex::compile(text_of(pattern, "Regex"));
    return std::make_unique<Pattern>(std::move(regex).value());
}

std::unique_ptr<Matcher> literal(std::string text) {
    if (text.empty()) refuse("an empty pattern is not supported");
    return std::make_unique<Literal>(std::move(text));
}
std::unique_ptr<Matcher> characters(uint8_t bits) { return std::make_unique<Characters>(bits); }
std::unique_ptr<Matcher> words_and_signs() { return std::make_unique<WordsAndSigns>(); }

}  // namespace ringshard::text
