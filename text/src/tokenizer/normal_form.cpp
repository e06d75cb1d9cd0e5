#include "normal_form.hpp"

#include <algorithm>
#include <vector>

#include "unicode/tokenizers_characters.hpp"

namespace ringshard::text {

namespace {

// An output character and its change of origin: 0: replaces the next source character; 1: inserted;
// -n: replaces the next one, and n more are removed.
struct Step {
    char32_t point;
    int change;
};

uint8_t class_of(char32_t point) {
    return static_cast<uint8_t>(form_table()[point] & combining_class);
}

std::vector<Step> decompose(std::string_view text, bool compatibly) {
    Parts parts;
    std::vector<Step> steps;
    steps.reserve(text.size());
    const char* place = text.data();
    size_t marks = 0;  // begin of the trailing combining marks, to be sorted
    const auto put_in_order = [&] {
        std::stable_sort(
            steps.begin() + static_cast<std::ptrdiff_t>(marks), steps.end(),
            [](const Step& a, const Step& b) { return class_of(a.point) < class_of(b.point); });
    };
    const auto push = [&](char32_t point, int change) {
        const bool starts = class_of(point) == 0;
        if (starts) put_in_order();
        steps.push_back({point, change});
        if (starts) marks = steps.size();
    };
    const uint16_t wanted = compatibly ? decomposes_compatibly : decomposes;
    while (place != text.data() + text.size()) {
        const char32_t point = next_code_point(place);
        if ((form_table()[point] & wanted) == 0) {
            push(point, 0);
            continue;
        }
        int change = 0;
        for (const char32_t part : decomposition_of(point, compatibly, parts))
            push(part, std::exchange(change, 1));
    }
    put_in_order();
    return steps;
}

// Composes characters with the marks after them, in place.
void recompose(std::vector<Step>& steps) {
    size_t written = 0;
    constexpr size_t none = ~size_t{0};
    size_t base = none;   // the last character that can compose
    int last_class = -1;  // of the last mark kept since the base; -1: none
    for (const Step step : std::vector<Step>(steps)) {
        const int its_class = class_of(step.point);
        if (base != none && last_class < its_class) {
            // If nothing is between, a character of class 0 may compose too.
            if (const char32_t composed = compose(steps[base].point, step.point); composed != 0) {
                steps[base] = {composed, steps[base].change + step.change - 1};
                continue;
            }
        }
        steps[written] = step;
        if (its_class == 0) {
            base = written;
            last_class = -1;
        } else {
            last_class = its_class;
        }
        ++written;
    }
    steps.resize(written);
}

// Writes the characters, with origins by their changes.
void write(const std::vector<Step>& steps, const Passage& from, TrackedText& into, bool track) {
    size_t source = 0;
    const auto skip = [&] {
        if (source < from.text.size()) source += code_point_length(from.text[source]);
    };
    for (const Step step : steps) {
        if (track) {
            const Span origin = step.change > 0
                                    ? (source == 0 ? Span{} : from.origin(source - 1))
                                    : from.origin(std::min(source, from.text.size() - 1));
            char bytes[4];
            append(into, {bytes, write_code_point(step.point, bytes)}, origin, true);
        } else {
            append_code_point(into.text, step.point);
        }
        for (int taken = step.change; taken <= 0; ++taken) skip();
    }
}

}  // namespace

bool is_in_form(std::string_view text, NormalForm form) {
    const uint16_t unwanted = form == NormalForm::nfc    ? not_in_nfc
                              : form == NormalForm::nfd  ? decomposes
                              : form == NormalForm::nfkc ? not_in_nfkc
                                                         : decomposes_compatibly;
    const PointTable<uint16_t>& forms = form_table();
    const char* place = text.data();
    const char* const end = place + text.size();
    int last_class = 0;
    while (place != end) {
        if (is_ascii(*place)) {
            ++place;
            last_class = 0;
            continue;
        }
        const uint16_t bits = forms[next_code_point(place)];
        const int its_class = bits & combining_class;
        if ((bits & unwanted) != 0 || (its_class != 0 && its_class < last_class)) return false;
        last_class = its_class;
    }
    return true;
}

void normalize(const Passage& from, NormalForm form, TrackedText& into, bool track) {
    const bool compatibly = form == NormalForm::nfkc || form == NormalForm::nfkd;
    std::vector<Step> steps = decompose(from.text, compatibly);
    if (form == NormalForm::nfc || form == NormalForm::nfkc) recompose(steps);
    write(steps, from, into, track);
}

}  // namespace ringshard::text
