// libFuzzer: a document of JSON. A document that was read and printed is read again with the same
// values.
#include "fuzz_folder.hpp"
#include "ringshard/text/value.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    const auto read = text::read_json(test::text_of(data, size));
    if (!read) return 0;
    const std::string printed = to_json(read.value());
    const auto again = text::read_json(printed);
    if (!again || to_json(again.value()) != printed) __builtin_trap();
    return 0;
}
