#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

using namespace ringshard;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

std::string why_not(const std::string& text) { return parse_json<json>(text).failure().message; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_document_is_as_nlohmann_reads_it) {
    for (const std::string text :
         {R"({"b": [1, -2, 3.5, 1.0, -0, -0.0], "a": {"x": null, "y": [true, false, {}, []]}})",
          R"("é \" \\ \/ \b\f\n\r\t \u0001 \ud83d\ude00 😀")", "[]", " {} \n", "null",
          "9223372036854775807", "9223372036854775808", "18446744073709551615",
          "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
          "[0.1, 1e5, 1E-5, 2.2250738585072014e-308, 5e-324, 1e-400, 1.7976931348623157e308]",
          R"({"a": 1, "b": {"c": 2}, "a": {"d": [3]}, "b": null})", "\xEF\xBB\xBF[1]"}) {
        const json expected = json::parse(text);
        BOOST_TEST(parse_json<json>(text).value().dump() == expected.dump());
        BOOST_TEST((parse_json<json>(text).value().type() == expected.type()));
        BOOST_TEST(parse_json<ordered_json>(text).value().dump() ==
                   ordered_json::parse(text).dump());
    }
    BOOST_TEST(parse_json<json>("[1, -1]").value()[0].is_number_unsigned());
    BOOST_TEST(!parse_json<json>("[1, -1]").value()[1].is_number_unsigned());
}

BOOST_AUTO_TEST_CASE(a_text_that_is_not_json_has_no_value) {
    for (const std::string text : {"", "{", "{\"a\": }", "nul", "\"\xff\"", "1 2", "[1,]", "01",
                                   "1.", "-", "{\"a\" 1}", "\"\\ud800\"", "\"\\ud800\\u0041\"",
                                   "\"\\x\"", "\"\n\"", "1e999", "\xED\xA0\x80", "NaN"}) {
        BOOST_TEST(!parse_json<json>(text), text);
        BOOST_TEST(json_or_null<ordered_json>(text).is_null(), text);
        BOOST_TEST(json::parse(text, nullptr, false).is_discarded(), text);
    }
}

BOOST_AUTO_TEST_CASE(a_failure_names_the_byte_and_of_several_lines_the_line) {
    BOOST_TEST(why_not("[1, 2") == "at byte 6 there should be ',' or ']'");
    BOOST_TEST(why_not("{\"a\": 1,\n \"b\": x}\n") ==
               "at byte 16, in line 2, there should be a value");
    BOOST_TEST(why_not("{\"a\": \"\xff\"}") == "is not UTF-8");
}

BOOST_AUTO_TEST_CASE(a_document_has_at_most_500_levels) {
    const auto nested = [](size_t levels) {
        return std::string(levels, '[') + "1" + std::string(levels, ']');
    };
    BOOST_TEST(parse_json<json>(nested(500)).value().dump() == nested(500));
    BOOST_TEST(why_not(nested(501)) == "at byte 502 there should be less depth");
    BOOST_TEST(why_not(std::string(1'000'000, '[')) == "at byte 502 there should be less depth");
    BOOST_TEST(parse_json<json>("\"" + std::string(600, '[') + "\"").value().is_string());
}
