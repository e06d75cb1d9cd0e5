#include <algorithm>

#include "ringshard/base/files.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

using text::Value;

namespace {

std::string text_in(const Value& object, std::string_view key) {
    const Value* member = object.find(key);
    if (member == nullptr || member->is_null()) return {};
    return member->string() != nullptr ? *member->string() : to_json(*member);
}

std::optional<int64_t> number_in(const Value& object, std::string_view key) {
    const Value* member = object.find(key);
    const int64_t* number = member == nullptr ? nullptr : member->integer();
    return number == nullptr ? std::nullopt : std::optional(*number);
}

int64_t size_in(const Value& mesh, std::string_view axis) {
    return std::max<int64_t>(1, number_in(mesh, axis).value_or(1));
}

void read_mesh(const Value& mesh, RunRecord& record) {
    record.replicate = size_in(mesh, "dp_replicate");
    record.shard = size_in(mesh, "dp_shard");
    record.ring = size_in(mesh, "cp");
    record.ulysses = size_in(mesh, "sp");
    record.cuts = text_in(mesh, "cuts");
}

void read_settings(const Value& settings, RunRecord& record) {
    if (settings.object() == nullptr) return;
    for (const auto& [name, setting] : *settings.object()) {
        const Value* value = setting.find("value");
        const Value* given = setting.find("given");
        const bool is_given = given != nullptr && given->truth() != nullptr && *given->truth();
        const Value* effect = setting.find("has_effect");
        const bool is_idle = effect != nullptr && effect->truth() != nullptr && !*effect->truth();
        const bool is_open = value == nullptr || value->is_null();
        record.settings.push_back({name, is_open ? "null" : text_in(setting, "value"),
                                   text_in(setting, "origin"), is_given, !is_idle});
    }
}

}  // namespace

const RunRecord::Setting* RunRecord::find(const std::string& setting) const {
    const auto found = std::ranges::find(settings, setting, &Setting::name);
    return found == settings.end() ? nullptr : &*found;
}

std::optional<RunRecord> read_run_record(const std::filesystem::path& run) {
    const auto content = read_file(run / "run.json");
    if (!content) return std::nullopt;
    const auto read = text::read_json(*content);
    if (!read || read.value().object() == nullptr) return std::nullopt;
    RunRecord record;
    record.effective_batch = number_in(read.value(), "effective_batch");
    if (const Value* versions = read.value().find("versions");
        versions != nullptr && versions->object() != nullptr)
        for (const auto& [name, version] : *versions->object())
            record.versions.emplace_back(name, text_in(*versions, name));
    if (const Value* mesh = read.value().find("mesh"); mesh != nullptr) read_mesh(*mesh, record);
    if (const Value* ranks = read.value().find("ranks");
        ranks != nullptr && ranks->list() != nullptr)
        for (const Value& rank : *ranks->list())
            record.ranks.push_back({text_in(rank, "host"), text_in(rank, "device")});
    if (const Value* settings = read.value().find("settings"); settings != nullptr)
        read_settings(*settings, record);
    return record;
}

}  // namespace ringshard::report
