#include "pre_tokenizer.hpp"

#include "matcher.hpp"
#include "scanners.hpp"
#include "splitting.hpp"

namespace ringshard::text {

namespace {

std::string_view text_of_cut(const Words& words, Cut cut) {
    return words.passage.text.substr(cut.first, cut.last - cut.first);
}

class Split final : public PreTokenizerStep {
public:
    Split(std::unique_ptr<Matcher> pattern, Behavior behavior, bool inverted)
        : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}
    void apply(Words& words, bool) const override {
        words.next_cuts.clear();
        for (const Cut cut : words.cuts) {
            words.matches.clear();
            pattern_->find(text_of_cut(words, cut), words.matches);
            split(cut.last - cut.first, cut.first, words.matches, behavior_, inverted_,
                  words.next_cuts);
        }
        words.cuts.swap(words.next_cuts);
    }

private:
    std::unique_ptr<Matcher> pattern_;
    Behavior behavior_;
    bool inverted_;
};

// A Split whose pattern matches everything and has a hand-written scanner.
class Scan final : public PreTokenizerStep {
public:
    explicit Scan(Scanner scanner) : scanner_(scanner) {}
    void apply(Words& words, bool) const override {
        words.next_cuts.clear();
        for (const Cut cut : words.cuts)
            scan(scanner_, text_of_cut(words, cut), cut.first, words.next_cuts);
        words.cuts.swap(words.next_cuts);
    }

private:
    Scanner scanner_;
};

// ByteLevel's add_prefix_space: adds a space before words without one.
class PrefixSpace final : public PreTokenizerStep {
public:
    void apply(Words& words, bool track) const override {
        TrackedText& into = words.texts.next();
        words.next_cuts.clear();
        for (const Cut cut : words.cuts) {
            const size_t first = into.text.size();
            if (words.passage.text[cut.first] != ' ')
                append(into, " ", track ? words.passage.origin(cut.first) : Span{}, track);
            append(into, words.passage, cut.first, cut.last, track);
            words.next_cuts.push_back(
                {static_cast<uint32_t>(first), static_cast<uint32_t>(into.text.size())});
        }
        words.cuts.swap(words.next_cuts);
        words.passage = Passage::of(into);
    }
};

enum class PrependScheme { always, first, never };

class Metaspace final : public PreTokenizerStep {
public:
    Metaspace(std::string replacement, PrependScheme scheme)
        : replacement_(std::move(replacement)), scheme_(scheme) {}
    void apply(Words& words, bool track) const override {
        TrackedText& into = words.texts.next();
        words.next_cuts.clear();
        for (const Cut cut : words.cuts) {
            const size_t first = into.text.size();
            if (prepends(words, cut))
                append(into, replacement_, track ? words.passage.origin(cut.first) : Span{}, track);
            put(words.passage, cut, into, track);
            words.next_cuts.push_back(
                {static_cast<uint32_t>(first), static_cast<uint32_t>(into.text.size())});
        }
        words.cuts.swap(words.next_cuts);
        words.passage = Passage::of(into);
    }

private:
    bool prepends(const Words& words, Cut cut) const {
        if (scheme_ == PrependScheme::never) return false;
        if (scheme_ == PrependScheme::first && words.passage.origin(cut.first).first != 0)
            return false;
        const std::string_view text = text_of_cut(words, cut);
        return !text.starts_with(' ') && !text.starts_with(replacement_);
    }
    void put(const Passage& from, Cut cut, TrackedText& into, bool track) const {
        const std::string_view text = from.text.substr(0, cut.last);
        size_t done = cut.first;
        for (size_t place = text.find(' ', done); place != std::string_view::npos;
             place = text.find(' ', done)) {
            append(into, from, done, place, track);
            append(into, replacement_, track ? from.origin(place) : Span{}, track);
            done = place + 1;
        }
        append(into, from, done, cut.last, track);
    }
    std::string replacement_;
    PrependScheme scheme_;
};

PrependScheme read_scheme(const Json& metaspace) {
    const std::string name =
        find(metaspace, "prepend_scheme") ? text_of(metaspace, "prepend_scheme") : "always";
    if (!flag_of(metaspace, "add_prefix_space", true)) {
        // The older form of `never`, which contradicts any other scheme.
        if (find(metaspace, "prepend_scheme") && name != "never")
            refuse("Metaspace has \"add_prefix_space\" false and another \"prepend_scheme\"");
        if (!find(metaspace, "prepend_scheme"))
            refuse("Metaspace has \"add_prefix_space\" false and no \"prepend_scheme\"");
        return PrependScheme::never;
    }
    if (name == "always") return PrependScheme::always;
    if (name == "first") return PrependScheme::first;
    if (name == "never") return PrependScheme::never;
    refuse(format_text("\"prepend_scheme\" \"{}\" is not known", name));
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& pre_tokenizer) { add(pre_tokenizer); }

void PreTokenizer::add(const Json& pre_tokenizer) {
    if (!is_object(pre_tokenizer)) refuse("a pre_tokenizer is not an object");
    const std::string kind = text_of(pre_tokenizer, "type");
    if (byte_level_)
        refuse(format_text("pre_tokenizer {} behind ByteLevel is not supported", kind));
    const auto add_split = [&](std::unique_ptr<Matcher> pattern, Behavior behavior,
                               bool inverted = false) {
        steps_.push_back(std::make_unique<Split>(std::move(pattern), behavior, inverted));
    };
    if (kind == "Sequence") {
        for (const Json& part : list_of(pre_tokenizer, "pretokenizers")) add(part);
    } else if (kind == "Split") {
        const Json& pattern = get(pre_tokenizer, "pattern");
        const Behavior behavior = read_behavior(text_of(pre_tokenizer, "behavior"));
        const bool inverted = flag_of(pre_tokenizer, "invert");
        const auto scanner = is_object(pattern) && find(pattern, "Regex")
                                 ? scanner_for(text_of(pattern, "Regex"))
                                 : std::nullopt;
        if (scanner && behavior == Behavior::isolated)
            steps_.push_back(std::make_unique<Scan>(*scanner));
        else
            add_split(read_pattern(pattern), behavior, inverted);
    } else if (kind == "ByteLevel") {
        if (flag_of(pre_tokenizer, "add_prefix_space"))
            steps_.push_back(std::make_unique<PrefixSpace>());
        if (flag_of(pre_tokenizer, "use_regex", true))
            steps_.push_back(std::make_unique<Scan>(Scanner::gpt2));
        byte_level_ = true;
    } else if (kind == "Metaspace") {
        const std::string replacement = text_of(pre_tokenizer, "replacement");
        if (replacement.empty() || replacement.size() != code_point_length(replacement[0]))
            refuse("the \"replacement\" of Metaspace is not one character");
        const PrependScheme scheme = read_scheme(pre_tokenizer);
        needs_origins_ = needs_origins_ || scheme == PrependScheme::first;
        steps_.push_back(std::make_unique<Metaspace>(replacement, scheme));
        if (flag_of(pre_tokenizer, "split", true))
            add_split(literal(replacement), Behavior::merged_with_next);
    } else if (kind == "Digits") {
        add_split(characters(is_numeric), flag_of(pre_tokenizer, "individual_digits", false)
                                              ? Behavior::isolated
                                              : Behavior::contiguous);
    } else if (kind == "Punctuation") {
        add_split(characters(is_punctuation),
                  find(pre_tokenizer, "behavior")
                      ? read_behavior(text_of(pre_tokenizer, "behavior"))
                      : Behavior::isolated);
    } else if (kind == "Whitespace") {
        add_split(words_and_signs(), Behavior::removed, true);
    } else if (kind == "WhitespaceSplit") {
        add_split(characters(is_white), Behavior::removed);
    } else {
        refuse_kind("a pre_tokenizer", kind);
    }
}

void PreTokenizer::apply(const Passage& passage, Words& words, bool track) const {
    words.passage = passage;
    words.cuts.clear();
    if (!passage.text.empty())
        words.cuts.push_back({0, static_cast<uint32_t>(passage.text.size())});
    for (const auto& step : steps_) step->apply(words, track);
}

}  // namespace ringshard::text
