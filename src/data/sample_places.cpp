#include "ringshard/data/sample_places.hpp"

#include <algorithm>

#include "ringshard/base/text.hpp"
#include "ringshard/data/token_store.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::data {

std::string place_text(const std::string& file, RowUnit unit, int64_t row) {
    switch (unit) {
        case RowUnit::line: return format_text("{}:{}", file, row + 1);
        case RowUnit::row: return format_text("{}, row {}", file, row + 1);
        case RowUnit::item: return format_text("{}, item {}", file, row + 1);
        case RowUnit::file: break;
    }
    return file;
}

namespace {

// Returns the files of a dataset, source by source, which is the order of the samples.
std::vector<std::string> files_in(const std::string& about) {
    std::vector<std::string> files;
    const auto read = text::read_json(about);
    const text::Value* const sources = read ? read.value().find("sources") : nullptr;
    if (sources == nullptr || sources->list() == nullptr) return files;
    for (const text::Value& source : *sources->list()) {
        const text::Value* const list = source.find("files");
        if (list == nullptr || list->list() == nullptr) return {};
        for (const text::Value& entry : *list->list()) {
            const bool is_described = entry.list() != nullptr && !entry.list()->empty();
            const text::Value* const file = is_described ? &entry.list()->front() : nullptr;
            const bool is_named =
                file != nullptr && file->list() != nullptr && !file->list()->empty();
            const std::string* const name = is_named ? file->list()->front().string() : nullptr;
            files.push_back(name != nullptr ? *name : std::string());
        }
    }
    return files;
}

}  // namespace

SamplePlaces::SamplePlaces(const ArrayFile& store)
    : owner_(store.owner()),
      samples_(store.array<Sample>("samples")),
      runs_(store.array<SampleRun>("places")),
      files_(files_in(store.about())) {}

std::string SamplePlaces::of_sample(uint64_t sample) const {
    const auto next = std::ranges::upper_bound(runs_, sample, {}, &SampleRun::sample);
    if (next == runs_.begin()) return {};
    const SampleRun& run = *std::prev(next);
    if (run.file >= files_.size() || run.unit > RowUnit::file) return {};
    return place_text(files_[run.file], run.unit,
                      static_cast<int64_t>(run.row + sample - run.sample));
}

std::vector<std::string> SamplePlaces::of_tokens(uint64_t begin, uint64_t count) const {
    std::vector<std::string> places;
    if (count == 0) return places;
    const auto next = std::ranges::upper_bound(samples_, begin, {}, &Sample::begin);
    if (next == samples_.begin()) return places;
    for (auto sample = std::prev(next); sample != samples_.end() && sample->begin < begin + count;
         ++sample)
        places.push_back(of_sample(static_cast<uint64_t>(sample - samples_.begin())));
    return places;
}

}  // namespace ringshard::data
