#include "ringshard/text/value.hpp"

#include <boost/test/unit_test.hpp>

using namespace ringshard;
using namespace ringshard::text;

BOOST_AUTO_TEST_CASE(what_is_read_is_printed) {
    JsonReader reader;
    for (const std::string json :
         {R"({"b": [1, -2, 3.5, 1.0], "a": {"x": null, "y": [true, false]}})",
          R"("é \" \\ \n \u0001 / 😀")", "[]", "{}", "-9223372036854775808", "0.1"})
        BOOST_TEST(to_json(reader.read(json).value()) == json);
}

BOOST_AUTO_TEST_CASE(the_last_of_two_members_of_one_name_counts) {
    JsonReader reader;
    BOOST_TEST(to_json(reader.read(R"({"a": 1, "b": 2, "a": 3})").value()) ==
               R"({"a": 3, "b": 2})");
}

BOOST_AUTO_TEST_CASE(what_is_no_json_is_told) {
    JsonReader reader;
    for (const std::string json : {"", "{", "{\"a\": }", "nul", "\"\xff\"", "1 2", "[1,]"})
        BOOST_TEST(!reader.read(json), json);
    BOOST_TEST(!reader.read(std::string(100'000, '[')));
}
