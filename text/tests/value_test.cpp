#include "ringshard/text/value.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard;
using namespace ringshard::text;

BOOST_AUTO_TEST_CASE(what_is_read_is_printed) {
    for (const std::string json :
         {R"({"b": [1, -2, 3.5, 1.0], "a": {"x": null, "y": [true, false]}})",
          R"("é \" \\ \n \u0001 / 😀")", "[]", "{}", "-9223372036854775808", "12345678901234567890",
          "0.1"})
        BOOST_TEST(to_json(read_json(json).value()) == json);
}

BOOST_AUTO_TEST_CASE(the_last_of_two_members_of_one_name_counts) {
    BOOST_TEST(to_json(read_json(R"({"a": 1, "b": 2, "a": 3})").value()) == R"({"a": 3, "b": 2})");
}

BOOST_AUTO_TEST_CASE(what_is_no_json_is_told) {
    for (const std::string json :
         {"", "{", "{\"a\": }", "nul", "\"\xff\"", "1 2", "[1,]", "01", "1.", "-", "{\"a\" 1}",
          "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\x\"", "\"\n\"", "1e999", "\xED\xA0\x80"})
        BOOST_TEST(!read_json(json), json);
    BOOST_TEST(!read_json(std::string(100'000, '[')));
}

BOOST_AUTO_TEST_CASE(escapes_are_characters) {
    BOOST_TEST(*read_json(R"("\u00e9\ud83d\ude00\n\/")").value().string() == "é😀\n/");
}
