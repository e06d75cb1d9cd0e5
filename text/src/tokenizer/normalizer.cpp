#include "normalizer.hpp"

#include "matcher.hpp"
#include "normal_form.hpp"
#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

class UnicodeForm final : public NormalizerStep {
public:
    explicit UnicodeForm(NormalForm form) : form_(form) {}
    Passage apply(const Passage& from, TurnTaking& texts, bool track) const override {
        if (is_ascii(from.text) || is_in_form(from.text, form_)) return from;
        TrackedText& into = texts.next();
        normalize(from, form_, into, track);
        return Passage::of(into);
    }

private:
    NormalForm form_;
};

class Lowercase final : public NormalizerStep {
public:
    Passage apply(const Passage& from, TurnTaking& texts, bool track) const override {
        TrackedText& into = texts.next();
        Parts parts;
        const char* const begin = from.text.data();
        for (const char* place = begin; place != begin + from.text.size();) {
            const auto first = static_cast<size_t>(place - begin);
            const auto lower = lower_case_of(next_code_point(place), parts);
            if (lower.empty()) {
                append(into, from, first, static_cast<size_t>(place - begin), track);
                continue;
            }
            const Span origin = from.origin(first);
            for (const char32_t point : lower) {
                char bytes[4];
                append(into, {bytes, write_code_point(point, bytes)}, origin, track);
            }
        }
        return Passage::of(into);
    }
};

class Prepend final : public NormalizerStep {
public:
    explicit Prepend(std::string text) : text_(std::move(text)) {}
    Passage apply(const Passage& from, TurnTaking& texts, bool track) const override {
        if (from.text.empty()) return from;
        TrackedText& into = texts.next();
        append(into, text_, from.origin(0), track);
        append(into, from, 0, from.text.size(), track);
        return Passage::of(into);
    }

private:
    std::string text_;
};

class Replace final : public NormalizerStep {
public:
    Replace(std::unique_ptr<Matcher> pattern, std::string content)
        : pattern_(std::move(pattern)), content_(std::move(content)) {}
    Passage apply(const Passage& from, TurnTaking& texts, bool track) const override {
        std::vector<Cut> matches;
        pattern_->find(from.text, matches);
        if (matches.empty() || from.text.empty()) return from;
        TrackedText& into = texts.next();
        size_t done = 0;
        for (const Cut match : matches) {
            append(into, from, done, match.first, track);
            // The origin of inserted text is the last replaced character.
            append(into, content_, match.last == 0 ? Span{} : from.origin(match.last - 1), track);
            done = match.last;
        }
        append(into, from, done, from.text.size(), track);
        return Passage::of(into);
    }

private:
    std::unique_ptr<Matcher> pattern_;
    std::string content_;
};

class Strip final : public NormalizerStep {
public:
    Strip(bool left, bool right) : left_(left), right_(right) {}
    Passage apply(const Passage& from, TurnTaking&, bool) const override {
        const auto& table = character_table();
        size_t first = 0, last = from.text.size();
        while (left_ && first < last && (table[code_point_at(&from.text[first])] & is_white) != 0)
            first += code_point_length(from.text[first]);
        while (right_ && last > first) {
            const size_t start = code_point_start(from.text, last - 1);
            if ((table[code_point_at(&from.text[start])] & is_white) == 0) break;
            last = start;
        }
        return from.part(first, last);
    }

private:
    bool left_, right_;
};

}  // namespace

Normalizer::Normalizer(const Json& normalizer) { add(normalizer); }

void Normalizer::add(const Json& normalizer) {
    if (!is_object(normalizer)) refuse("a normalizer is not an object");
    const std::string kind = text_of(normalizer, "type");
    if (kind == "Sequence") {
        for (const Json& part : list_of(normalizer, "normalizers")) add(part);
    } else if (kind == "NFC") {
        steps_.push_back(std::make_unique<UnicodeForm>(NormalForm::nfc));
    } else if (kind == "NFD") {
        steps_.push_back(std::make_unique<UnicodeForm>(NormalForm::nfd));
    } else if (kind == "NFKC") {
        steps_.push_back(std::make_unique<UnicodeForm>(NormalForm::nfkc));
    } else if (kind == "NFKD") {
        steps_.push_back(std::make_unique<UnicodeForm>(NormalForm::nfkd));
    } else if (kind == "Lowercase") {
        steps_.push_back(std::make_unique<Lowercase>());
    } else if (kind == "Prepend") {
        steps_.push_back(std::make_unique<Prepend>(text_of(normalizer, "prepend")));
    } else if (kind == "Replace") {
        steps_.push_back(std::make_unique<Replace>(read_pattern(get(normalizer, "pattern")),
                                                   text_of(normalizer, "content")));
    } else if (kind == "Strip") {
        steps_.push_back(std::make_unique<Strip>(flag_of(normalizer, "strip_left"),
                                                 flag_of(normalizer, "strip_right")));
    } else {
        refuse_kind("a normalizer", kind);
    }
}

Passage Normalizer::apply(Passage passage, TurnTaking& texts, bool track) const {
    for (const auto& step : steps_) passage = step->apply(passage, texts, track);
    return passage;
}

std::string Normalizer::apply(std::string_view text) const {
    TurnTaking texts;
    return std::string(apply(Passage{text}, texts, false).text);
}

}  // namespace ringshard::text
