#include "splitting.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "json_reader.hpp"

namespace ringshard::text {

namespace {

struct Part {
    Cut cut;
    bool matches;
};

std::vector<Part> all_parts(size_t length, const std::vector<Cut>& matches, bool inverted) {
    std::vector<Part> parts;
    parts.reserve(2 * matches.size() + 1);
    uint32_t done = 0;
    for (const Cut match : matches) {
        if (done != match.first) parts.push_back({{done, match.first}, inverted});
        parts.push_back({match, !inverted});
        done = match.last;
    }
    if (done != length) parts.push_back({{done, static_cast<uint32_t>(length)}, inverted});
    return parts;
}

}  // namespace

Behavior read_behavior(std::string_view name) {
    static constexpr std::array<std::pair<std::string_view, Behavior>, 5> names = {
        {{"Removed", Behavior::removed},
         {"Isolated", Behavior::isolated},
         {"MergedWithPrevious", Behavior::merged_with_previous},
         {"MergedWithNext", Behavior::merged_with_next},
         {"Contiguous", Behavior::contiguous}}};
    for (const auto& [known, behavior] : names)
        if (name == known) return behavior;
    refuse(format_text("behavior \"{}\" is not known", name));
}

void split(size_t length, uint32_t offset, const std::vector<Cut>& matches, Behavior behavior,
           bool inverted, std::vector<Cut>& parts) {
    const std::vector<Part> all = all_parts(length, matches, inverted);
    const size_t begin = parts.size();
    bool previous = false;
    switch (behavior) {
        case Behavior::removed:
            for (const Part& part : all)
                if (!part.matches) parts.push_back(part.cut);
            break;
        case Behavior::isolated:
            for (const Part& part : all) parts.push_back(part.cut);
            break;
        case Behavior::contiguous:
            for (const Part& part : all) {
                if (part.matches == previous && parts.size() > begin)
                    parts.back().last = part.cut.last;
                else
                    parts.push_back(part.cut);
                previous = part.matches;
            }
            break;
        case Behavior::merged_with_previous:
            for (const Part& part : all) {
                if (part.matches && !previous && parts.size() > begin)
                    parts.back().last = part.cut.last;
                else
                    parts.push_back(part.cut);
                previous = part.matches;
            }
            break;
        case Behavior::merged_with_next:
            for (auto part = all.rbegin(); part != all.rend(); ++part) {
                if (part->matches && !previous && parts.size() > begin)
                    parts.back().first = part->cut.first;
                else
                    parts.push_back(part->cut);
                previous = part->matches;
            }
            std::reverse(parts.begin() + static_cast<std::ptrdiff_t>(begin), parts.end());
            break;
    }
    const auto first = parts.begin() + static_cast<std::ptrdiff_t>(begin);
    parts.erase(std::remove_if(first, parts.end(), [](Cut c) { return c.first == c.last; }),
                parts.end());
    for (auto part = parts.begin() + static_cast<std::ptrdiff_t>(begin); part != parts.end();
         ++part) {
        part->first += offset;
        part->last += offset;
    }
}

}  // namespace ringshard::text
