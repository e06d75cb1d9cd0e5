#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringshard::data {

// The parser state at a byte of a table, by the rules of pandas' reader: a quote opens a quoted
// value only at the beginning of a value, two quotes within it are one, and line breaks within it
// belong to it. Elsewhere "\n", "\r" and "\r\n" end a record.
class CsvState {
public:
    enum Place : uint8_t {
        record_begin,
        value_begin,
        in_value,
        in_quotes,
        after_quote,  // inside or after a quoted value
        after_cr      // a record has ended; a "\n" that follows belongs to its end
    };
    static constexpr size_t num_places = 6;
    explicit CsvState(char separator, Place place = record_begin)
        : separator_(separator), place_(place) {}

    Place place() const { return place_; }

    // Consumes a byte. Returns true if it ends a record.
    bool step(char c) {
        const bool goes_on = place_ == after_cr && c == '\n';
        place_ = next_of[place_][kind_of(c)];
        return !goes_on && (place_ == record_begin || place_ == after_cr);
    }

private:
    enum Kind : uint8_t { other, between, quote, cr, lf };
    static constexpr std::array<std::array<Place, 5>, 6> next_of{{
        {in_value, value_begin, in_quotes, after_cr, record_begin},
        {in_value, value_begin, in_quotes, after_cr, record_begin},
        {in_value, value_begin, in_value, after_cr, record_begin},
        {in_quotes, in_quotes, after_quote, in_quotes, in_quotes},
        {in_value, value_begin, in_quotes, after_cr, record_begin},
        {in_value, value_begin, in_quotes, after_cr, record_begin},
    }};
    Kind kind_of(char c) const {
        if (c == separator_) return between;
        if (c == '"') return quote;
        if (c == '\n') return lf;
        return c == '\r' ? cr : other;
    }

    char separator_;
    Place place_;
};

// A block begins between records, within a value or within a quoted value, depending on all quotes
// before it. A scan of a block computes its end state for every possible start state,
// without the blocks before, so ranks can share a file and join the results.
//
// add() scans the next piece of the block's text.
class CsvBlockScan {
public:
    explicit CsvBlockScan(char separator);
    void add(std::string_view text);
    // Returns the end state for each start state, as letters.
    std::string letters() const;

private:
    std::vector<CsvState> states_;                       // the distinct ones
    std::array<size_t, CsvState::num_places> state_of_;  // by start state
};
// Returns the start state of each block, as letters, from the letters of all blocks of a file.
std::string join_csv_scans(std::string_view letters);

// Returns the values of a record, without the quotes around them.
std::vector<std::string> values_of(std::string_view record, char separator);

// Returns true if a record is a blank line, which is not a row.
bool is_blank_record(std::string_view record, char separator);

}  // namespace ringshard::data
