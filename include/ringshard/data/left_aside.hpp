#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/text/value.hpp"

namespace ringshard::data {

// Content of rows that no setting uses.
struct Unused {
    enum class Kind { column, message_key, media };
    Kind kind = Kind::column;
    std::string name{};
    auto operator<=>(const Unused&) const = default;
};

// Counts rows, or messages of rows, with unused content. Beyond a thousand names, which only
// damaged rows have, it keeps only the count.
class LeftAside {
public:
    void add(const Unused& unused, int64_t count = 1);
    void add(const LeftAside& other);

    // Serializes the counts to send them to another rank.
    text::Value to_value() const;
    static LeftAside of(const text::Value& value);

    // Formats a line for each kind, to follow the name of the dataset.
    std::vector<std::string> to_lines() const;

private:
    std::map<Unused, int64_t> counts_;
    int64_t more_ = 0;
};

// --- images, audio and video
// -------------------------------------------------------------------------

// Returns true for a column of media that rows have beside text: images, audio, videos,
// pixel_values ...
bool is_media_column(std::string_view name);
// Returns true if the column has content in this row.
bool holds_media(const text::Value& column);

// Finds parts of the messages' content that are not text: {"type": "image"}. Without text_only they
// are a failure; with it, removes them, and turns content with only text left into one text. Adds
// the removed kinds to `unused`, once for all messages.
std::optional<Failure> take_text(text::Value& messages, bool text_only,
                                 std::vector<Unused>& unused);

// Returns the failure for a row with media.
Failure refuse_media(const std::string& where);

}  // namespace ringshard::data
