#include "manifest_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <variant>

#include "ringshard/base/json_parser.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::checkpoint {

using nlohmann::json;

namespace {

struct NoValue {};  // an object or a list must follow
// Where to store the value of a key, which implies its type; monostate: skip a value of any type.
using Field = std::variant<std::monostate, int64_t*, std::string*, bool*, NoValue>;

// Skips unknown keys, but refuses numbers with a fraction anywhere in the file.
class Receiver : public JsonReceiver {
public:
    enum class Place { outside, manifest, files, frames, hashes, ranges, range, unknown };

    // The text is a manifest, or only a list of ranges.
    explicit Receiver(bool is_list_of_ranges) : is_list_of_ranges_(is_list_of_ranges) {}

    ManifestText& result() { return result_; }
    const std::string& why_not() const { return why_not_; }

    bool null() override { return assign(nullptr); }
    bool boolean(bool value) override { return assign(value); }
    bool integer(int64_t value) override { return assign(value); }
    bool large(uint64_t value) override { return refuse(format_text("counts to {}", value)); }
    bool real(double) override { return refuse("counts in fractions"); }
    bool string(std::string value) override { return assign(std::move(value)); }
    bool name(std::string name) override {
        name_ = std::move(name);
        return true;
    }

    bool begin_object() override {
        switch (place()) {
            case Place::outside:
                return !is_list_of_ranges_ ? enter(Place::manifest) : refuse("is no list");
            case Place::ranges:
                range_ = {};
                seen_of_range_ = 0;
                return enter(Place::range);
            case Place::unknown: return enter(Place::unknown);
            case Place::manifest:
                if (name_ == "files") {
                    result_.manifest.file_sizes.clear();
                    return enter(Place::files);
                }
                if (name_ == "frames") {
                    result_.manifest.metadata_hashes.clear();
                    return enter(Place::frames);
                }
                if (name_ == "hashes") {
                    result_.manifest.file_hashes.clear();
                    return enter(Place::hashes);
                }
                break;
            case Place::files:
            case Place::frames:
            case Place::hashes:
            case Place::range: break;
        }
        return enter_unknown();
    }
    bool end_object() override {
        const Place left = leave();
        if (left == Place::range) {
            if (const std::string missing = missing_of(range_names, seen_of_range_);
                !missing.empty())
                return refuse(format_text("has a range without {}", missing));
            result_.manifest.ranges.push_back(std::move(range_));
        }
        if (left == Place::manifest) {
            const std::string missing = missing_of(manifest_names, seen_of_manifest_);
            if (!missing.empty()) return refuse(format_text("has no {}", missing));
        }
        return true;
    }

    bool begin_list() override {
        const bool is_ranges = place() == Place::manifest && name_ == "ranges";
        if (is_ranges || (place() == Place::outside && is_list_of_ranges_)) {
            result_.manifest.ranges.clear();
            return enter(Place::ranges);
        }
        return place() == Place::unknown ? enter(Place::unknown) : enter_unknown();
    }
    bool end_list() override {
        leave();
        return true;
    }

private:
    static constexpr std::array manifest_names{"format",  "version", "step",   "attempt",
                                               "moments", "files",   "frames", "ranges"};
    static constexpr std::array range_names{"dataset", "first",  "file",
                                            "offset",  "length", "xxh3_128"};

    template <class Names>
    static size_t index_in(const Names& names, const std::string& name) {
        return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    }
    // Returns the first name that is missing.
    template <class Names>
    static std::string missing_of(const Names& names, unsigned seen) {
        for (size_t i = 0; i < names.size(); ++i)
            if ((seen >> i & 1U) == 0) return names[i];
        return {};
    }

    Place place() const { return places_.back(); }
    bool enter(Place inner) {
        if (place() == Place::manifest) mark_seen(manifest_names, seen_of_manifest_);
        places_.push_back(inner);
        return true;
    }
    // Skips an object or list if its key is unknown.
    bool enter_unknown() {
        return std::holds_alternative<std::monostate>(field()) ? enter(Place::unknown)
                                                               : refuse_kind();
    }
    Place leave() {
        const Place left = place();
        places_.pop_back();
        return left;
    }
    template <class Names>
    void mark_seen(const Names& names, unsigned& seen) const {
        if (const size_t at = index_in(names, name_); at < names.size()) seen |= 1U << at;
    }

    Field field() {
        Manifest& manifest = result_.manifest;
        switch (place()) {
            case Place::manifest:
                switch (index_in(manifest_names, name_)) {
                    case 0: return &result_.format;
                    case 1: return &result_.version;
                    case 2: return &manifest.step;
                    case 3: return &manifest.attempt;
                    case 4: return &manifest.has_moments;
                    case 5:
                    case 6:
                    case 7: return NoValue{};
                    default: break;
                }
                return name_ == "hashes" ? Field(NoValue{}) : Field();
            case Place::range:
                switch (index_in(range_names, name_)) {
                    case 0: return &range_.dataset;
                    case 1: return &range_.first;
                    case 2: return &range_.file;
                    case 3: return &range_.offset;
                    case 4: return &range_.length;
                    case 5: return &range_.hash;
                    default: return {};
                }
            case Place::files: return &manifest.file_sizes[name_];
            case Place::frames: return &manifest.metadata_hashes[name_];
            case Place::hashes: return &manifest.file_hashes[name_];
            case Place::outside:
            case Place::ranges: return NoValue{};
            case Place::unknown: break;
        }
        return {};
    }

    template <class Value>
    bool assign(Value value) {
        const Field goes_to = field();
        if (std::holds_alternative<std::monostate>(goes_to)) return true;
        if constexpr (!std::is_same_v<Value, std::nullptr_t>) {
            if (Value* const* const place_of_value = std::get_if<Value*>(&goes_to)) {
                if (place() == Place::manifest) mark_seen(manifest_names, seen_of_manifest_);
                if (place() == Place::range) mark_seen(range_names, seen_of_range_);
                **place_of_value = std::move(value);
                return true;
            }
        }
        return refuse_kind();
    }

    bool refuse(std::string why) {
        if (why_not_.empty()) why_not_ = std::move(why);
        return false;
    }
    bool refuse_kind() { return refuse(format_text("has a value of another kind for {}", name_)); }

    bool is_list_of_ranges_;
    std::vector<Place> places_{Place::outside};
    std::string name_ = "the whole";
    ManifestText result_{};
    WrittenRange range_{};
    unsigned seen_of_manifest_ = 0;  // bit by index in manifest_names
    unsigned seen_of_range_ = 0;
    std::string why_not_;
};

Expected<ManifestText> parse(std::string_view text, bool is_list_of_ranges) {
    Receiver receiver(is_list_of_ranges);
    if (const auto failure = read_json(text, receiver)) {
        const std::string& why_not = receiver.why_not();
        return Failure{
            ExitCode::bad_data,
            !why_not.empty() ? why_not : format_text("cannot be read: {}", failure->message)};
    }
    return std::move(receiver.result());
}

// Appends `text` as a JSON string.
void append_quoted(std::string& out, const std::string& text) {
    const bool is_plain = std::ranges::all_of(
        text, [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
    if (is_plain)
        out.append(1, '"').append(text).append(1, '"');
    else
        out += json(text).dump();
}

}  // namespace

Expected<ManifestText> parse_manifest(std::string_view text) { return parse(text, false); }

Expected<std::vector<WrittenRange>> parse_ranges(std::string_view text) {
    auto parsed = parse(text, true);
    if (!parsed) return parsed.failure();
    return std::move(parsed.value().manifest.ranges);
}

std::string print_ranges(const std::vector<WrittenRange>& ranges) {
    std::string out = "[";
    for (const WrittenRange& range : ranges) {
        out += out.size() == 1 ? "\n{\"dataset\":" : ",\n{\"dataset\":";
        append_quoted(out, range.dataset);
        out += ",\"file\":";
        append_quoted(out, range.file);
        out += ",\"first\":" + std::to_string(range.first);
        out += ",\"length\":" + std::to_string(range.length);
        out += ",\"offset\":" + std::to_string(range.offset);
        out += ",\"xxh3_128\":";
        append_quoted(out, range.hash);
        out += '}';
    }
    return out + "]";
}

}  // namespace ringshard::checkpoint
