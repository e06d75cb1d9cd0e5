#include "csv_records.hpp"

#include <algorithm>

namespace ringshard::data {

namespace {

char letter_of(CsvState::Place place) { return static_cast<char>('a' + place); }

}  // namespace

CsvBlockScan::CsvBlockScan(char separator) {
    for (size_t place = 0; place < CsvState::num_places; ++place) {
        states_.emplace_back(separator, static_cast<CsvState::Place>(place));
        state_of_[place] = place;
    }
}

void CsvBlockScan::add(std::string_view text) {
    for (const char c : text) {
        for (CsvState& state : states_) state.step(c);
        // Most states merge within a few bytes; inside and outside quotes stay separate.
        for (size_t last = states_.size() - 1; states_.size() > 2 && last > 0; --last)
            for (size_t other = 0; other < last; ++other) {
                if (states_[other].place() != states_[last].place()) continue;
                states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(last));
                for (size_t& state : state_of_) {
                    if (state == last)
                        state = other;
                    else if (state > last)
                        --state;
                }
                break;
            }
    }
}

std::string CsvBlockScan::letters() const {
    std::string letters;
    for (const size_t state : state_of_) letters += letter_of(states_[state].place());
    return letters;
}

std::string join_csv_scans(std::string_view letters) {
    std::string places;
    size_t place = CsvState::record_begin;
    for (size_t block = 0; block + CsvState::num_places <= letters.size();
         block += CsvState::num_places) {
        places += letter_of(static_cast<CsvState::Place>(place));
        place = static_cast<size_t>(letters[block + place] - 'a');
    }
    return places;
}

std::vector<std::string> values_of(std::string_view record, char separator) {
    std::vector<std::string> values(1);
    CsvState state(separator);
    for (const char c : record) {
        const CsvState::Place before = state.place();
        state.step(c);
        switch (state.place()) {
            case CsvState::value_begin: values.emplace_back(); break;
            case CsvState::in_quotes:
                // Drops the opening quote, and keeps the second of two quotes.
                if (before == CsvState::in_quotes || before == CsvState::after_quote)
                    values.back() += c;
                break;
            case CsvState::after_quote: break;
            default: values.back() += c;
        }
    }
    return values;
}

bool is_blank_record(std::string_view record, char separator) {
    return std::ranges::all_of(record,
                               [&](char c) { return (c == ' ' || c == '\t') && c != separator; });
}

}  // namespace ringshard::data
