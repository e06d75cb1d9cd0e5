#include "ringshard/checkpoint/manifest.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/nesting.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

const char* const format = "ringshard checkpoint";
constexpr int64_t format_version = 2;

json to_json(const std::vector<WrittenRange>& ranges) {
    json list = json::array();
    for (const WrittenRange& range : ranges)
        list.push_back({{"dataset", range.dataset},
                        {"first", range.first},
                        {"file", range.file},
                        {"offset", range.offset},
                        {"length", range.length},
                        {"xxh3_128", range.hash}});
    return list;
}

std::vector<WrittenRange> from_json(const json& list) {
    std::vector<WrittenRange> ranges;
    for (const json& entry : list)
        ranges.push_back({entry.at("dataset"), entry.at("first"), entry.at("file"),
                          entry.at("offset"), entry.at("length"), entry.at("xxh3_128")});
    return ranges;
}

}  // namespace

std::string checkpoint_name(int64_t step) { return concat("checkpoint-", step); }

std::string to_text(const std::vector<WrittenRange>& ranges) { return to_json(ranges).dump(); }
std::vector<WrittenRange> ranges_from_text(const std::string& text) {
    return from_json(json::parse(text));
}

std::string to_text(const Manifest& manifest) {
    const json content{{"format", format},
                       {"version", format_version},
                       {"step", manifest.step},
                       {"attempt", manifest.attempt},
                       {"moments", manifest.has_moments},
                       {"files", manifest.file_sizes},
                       {"frames", manifest.frames},
                       {"ranges", to_json(manifest.ranges)}};
    return content.dump(1);
}

Expected<Manifest> read_manifest(const std::filesystem::path& folder) {
    const auto damaged = [&](const std::string& what) {
        return Failure{ExitCode::bad_data, concat(folder.string(), ": ", what)};
    };
    const auto content = read_file(folder / "manifest.json");
    if (!content) return damaged("has no manifest.json: it was never finished");
    if (is_nested_deeply(*content)) return damaged("manifest.json cannot be read");
    Manifest manifest;
    try {
        bool has_fractions = false;
        const json read = json::parse(*content, [&](int, json::parse_event_t, const json& value) {
            has_fractions = has_fractions || value.is_number_float();
            return true;
        });
        if (has_fractions) return damaged("manifest.json counts in fractions");
        if (read.at("format") != format) return damaged("manifest.json is not of a checkpoint");
        if (read.at("version") != format_version)
            return damaged(concat("is of format version ", read.at("version").dump(),
                                  ", and this program reads ", format_version));
        manifest = {read.at("step"),   read.at("attempt"),           read.at("files"),
                    read.at("frames"), from_json(read.at("ranges")), read.at("moments")};
    } catch (const json::exception&
                 error) {  // a wrapper: turns the library's exception into an expected failure
        return damaged(concat("manifest.json cannot be read: ", error.what()));
    }
    if (folder.filename() != checkpoint_name(manifest.step))
        return damaged(concat("holds step ", manifest.step, ", which its name does not say"));
    for (const auto& [name, size] : manifest.file_sizes) {
        std::error_code error;
        const auto found = std::filesystem::file_size(folder / name, error);
        if (error) return damaged(concat(name, " is missing"));
        if (static_cast<int64_t>(found) != size)
            return damaged(concat(name, " has ", found, " bytes instead of ", size));
    }
    return manifest;
}

}  // namespace ringshard::checkpoint
