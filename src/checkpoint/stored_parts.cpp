#include "stored_parts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ringshard/base/error.hpp"
#include "ringshard/base/parse_json.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

StoredParts join_ranges(const std::vector<WrittenRange>& ranges) {
    StoredParts stored;
    std::map<std::string, int64_t> numbers;  // index of a file by name
    for (const WrittenRange& range : ranges) {
        if (range.length == 0) continue;
        const auto [file, is_new] = numbers.try_emplace(range.file, std::ssize(stored.files));
        if (is_new) stored.files.push_back(range.file);
        stored.parts[range.dataset].push_back(
            {range.first, file->second, range.offset, range.length});
    }
    for (auto& [dataset, parts] : stored.parts) {
        std::ranges::sort(parts, {}, &StoredParts::Part::first);
        std::vector<StoredParts::Part> joined;
        for (const StoredParts::Part& part : parts) {
            const bool goes_on = !joined.empty() && joined.back().file == part.file &&
                                 joined.back().offset + joined.back().length == part.offset;
            if (goes_on)
                joined.back().length += part.length;
            else
                joined.push_back(part);
        }
        parts = std::move(joined);
    }
    return stored;
}

// Sends names as JSON but parts as binary numbers: there may be a hundred thousand parts.
StoredParts broadcast_parts(const StoredParts& parts, const comm::Group& group) {
    json datasets = json::array();
    std::vector<StoredParts::Part> all;
    for (const auto& [dataset, some] : parts.parts) {
        datasets.push_back({dataset, some.size()});
        all.insert(all.end(), some.begin(), some.end());
    }
    const json names =
        parse_json<json>(group.broadcast(json{parts.files, datasets}.dump())).value();
    const std::string numbers = group.broadcast(
        {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(StoredParts::Part)});
    StoredParts received{.files = names[0], .parts = {}};
    size_t at = 0;
    for (const json& dataset : names[1]) {
        std::vector<StoredParts::Part>& some = received.parts[dataset[0]];
        some.resize(dataset[1]);
        const size_t bytes = some.size() * sizeof(StoredParts::Part);
        RINGSHARD_CHECK(at + bytes <= numbers.size());
        std::copy_n(numbers.data() + at, bytes, reinterpret_cast<char*>(some.data()));
        at += bytes;
    }
    return received;
}

}  // namespace ringshard::checkpoint
