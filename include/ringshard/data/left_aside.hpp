#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// What rows hold and nothing uses.
struct Unused {
    enum class Kind { column, message_key, media };
    Kind kind = Kind::column;
    std::string name{};
    auto operator<=>(const Unused&) const = default;
};

// How many rows, or messages of them, hold what is not used. Of names beyond a thousand, which only
// damaged rows have, the number alone is kept.
class LeftAside {
public:
    void add(const Unused& unused, int64_t count = 1);
    void add(const LeftAside& other);

    // To send it to another rank.
    text::Value to_value() const;
    static LeftAside of(const text::Value& value);

    // For the user, a line for each kind, to stand behind the name of the dataset.
    std::vector<std::string> to_lines() const;

private:
    std::map<Unused, int64_t> counts_;
    int64_t more_ = 0;
};

// --- images, audio and video
// -------------------------------------------------------------------------

// images, audio, videos, pixel_values ...: a column that rows of text and something else have.
bool is_media_column(std::string_view name);
// Whether such a column holds anything in this row.
bool holds_media(const text::Value& column);

// Looks for parts of the messages' content that are no text: {"type": "image"}. Without text_only
// they are a failure; with it they are taken out, and what is left of a content becomes one text
// where it is text alone. Adds what was taken out, once for all messages.
std::optional<Failure> take_text(text::Value& messages, bool text_only,
                                 std::vector<Unused>& unused);

// What to say of a row that has some.
Failure refuse_media(const std::string& where);

}  // namespace ringshard::data
