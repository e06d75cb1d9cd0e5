#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ringshard/base/error.hpp"

namespace ringshard {

// Receives a JSON document value by value; a method that returns false ends the reading. Of members
// with the same name the last one counts.
class JsonReceiver {
public:
    virtual ~JsonReceiver() = default;
    virtual bool null() = 0;
    virtual bool boolean(bool value) = 0;
    virtual bool integer(int64_t value) = 0;
    virtual bool large(uint64_t value) = 0;  // a whole number too large for integer()
    virtual bool real(double value) = 0;
    virtual bool string(std::string value) = 0;
    virtual bool name(std::string name) = 0;  // of the member that follows
    virtual bool begin_object() = 0;
    virtual bool end_object() = 0;
    virtual bool begin_list() = 0;
    virtual bool end_list() = 0;
};

// Reads one JSON document of at most 500 levels, in UTF-8: the only parser of JSON in the program.
// A failure names the byte and, of several lines, the line; the caller adds the file.
std::optional<Failure> read_json(std::string_view json, JsonReceiver& receiver);

}  // namespace ringshard
