#include "token_search.hpp"

#include <algorithm>
#include <cstring>

namespace ringshard::text {

TokenSearch::TokenSearch(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {
    std::ranges::sort(patterns_, {}, &Pattern::text);
    for (const Pattern& pattern : patterns_) {
        const auto first = static_cast<unsigned char>(pattern.text[0]);
        first_bytes_.set(first);
        if (pattern.text.size() > 1)
            first_pairs_.set(first << 8 | static_cast<unsigned char>(pattern.text[1]));
        else
            for (unsigned second = 0; second < 256; ++second) first_pairs_.set(first << 8 | second);
    }
    if (first_bytes_.count() == 1)
        only_first_byte_ = static_cast<unsigned char>(patterns_[0].text[0]);
}

bool TokenSearch::longest_at(std::string_view text, size_t place, Found& found) const {
    // Patterns that agree with the text up to `depth` are adjacent in the sorted list.
    auto first = patterns_.begin();
    auto last = patterns_.end();
    bool any = false;
    for (size_t depth = 0; first != last && place + depth < text.size(); ++depth) {
        const auto byte = [depth](const Pattern& p) {
            return depth < p.text.size() ? static_cast<unsigned char>(p.text[depth]) : -1;
        };
        const int wanted = static_cast<unsigned char>(text[place + depth]);
        first = std::lower_bound(first, last, wanted,
                                 [&](const Pattern& p, int value) { return byte(p) < value; });
        last = std::upper_bound(first, last, wanted,
                                [&](int value, const Pattern& p) { return value < byte(p); });
        if (first != last && first->text.size() == depth + 1) {
            found = {place, place + depth + 1, first->id};
            any = true;
        }
    }
    return any;
}

bool TokenSearch::find(std::string_view text, size_t from, Found& found) const {
    if (patterns_.empty()) return false;
    for (size_t place = from; place < text.size(); ++place) {
        if (only_first_byte_ >= 0) {
            const void* const next =
                std::memchr(text.data() + place, only_first_byte_, text.size() - place);
            if (next == nullptr) return false;
            place = static_cast<size_t>(static_cast<const char*>(next) - text.data());
        }
        const auto first = static_cast<unsigned char>(text[place]);
        if (!first_bytes_[first]) continue;
        const auto second =
            place + 1 < text.size() ? static_cast<unsigned char>(text[place + 1]) : 0;
        if ((place + 1 == text.size() || first_pairs_[first << 8 | second]) &&
            longest_at(text, place, found))
            return true;
    }
    return false;
}

}  // namespace ringshard::text
