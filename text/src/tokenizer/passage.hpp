#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/utf8.hpp"
#include "ringshard/text/tokenizer.hpp"

namespace ringshard::text {

// The output of a pipeline step and, if requested, the range of input bytes for each of its bytes.
struct TrackedText {
    std::string text;
    std::vector<Span> origins;  // one per byte, or empty

    void clear() {
        text.clear();
        origins.clear();
    }
};

// A view of the text after some pipeline step.
struct Passage {
    std::string_view text;
    const Span* origins = nullptr;  // nullptr: not tracked, or the input itself from `offset` on
    uint32_t offset = 0;

    // Returns the input range of a byte, in whole characters.
    Span origin(size_t byte) const {
        if (origins != nullptr) return origins[byte];
        const size_t start = code_point_start(text, byte);
        return {static_cast<uint32_t>(offset + start),
                static_cast<uint32_t>(offset + start + code_point_length(text[start]))};
    }
    Span origin(size_t first, size_t last) const {
        return {origin(first).first, origin(last - 1).last};
    }
    Passage part(size_t first, size_t last) const {
        return {text.substr(first, last - first), origins == nullptr ? nullptr : origins + first,
                static_cast<uint32_t>(offset + first)};
    }
    static Passage of(const TrackedText& tracked) {
        return {tracked.text, tracked.origins.empty() ? nullptr : tracked.origins.data(), 0};
    }
};

// Copies bytes of a passage with their origins.
inline void append(TrackedText& into, const Passage& from, size_t first, size_t last, bool track) {
    into.text += from.text.substr(first, last - first);
    if (!track) return;
    if (from.origins != nullptr) {
        into.origins.insert(into.origins.end(), from.origins + first, from.origins + last);
        return;
    }
    for (size_t byte = first; byte < last; ++byte) into.origins.push_back(from.origin(byte));
}
// Inserts text with the origin of other text.
inline void append(TrackedText& into, std::string_view text, Span origin, bool track) {
    into.text += text;
    if (track) into.origins.insert(into.origins.end(), text.size(), origin);
}

// Two alternating buffers: a step reads one and writes the other.
class TurnTaking {
public:
    TrackedText& next() {
        turn_ = !turn_;
        texts_[turn_ ? 1 : 0].clear();
        return texts_[turn_ ? 1 : 0];
    }

private:
    TrackedText texts_[2];
    bool turn_ = false;
};

// A part of a passage: bytes [first, last).
struct Cut {
    uint32_t first;
    uint32_t last;
};

}  // namespace ringshard::text
