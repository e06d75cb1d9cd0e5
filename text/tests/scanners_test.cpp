#include "scanners.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "regex.hpp"

using namespace ringshard;
using namespace ringshard::text;

namespace {

void compare(Scanner scanner, const Regex& regex, const std::string& text) {
    std::vector<Cut> by_hand, by_regex;
    scan(scanner, text, 0, by_hand);
    regex.find(text, by_regex);
    BOOST_TEST(by_hand.size() == by_regex.size(), text);
    for (size_t i = 0; i < std::min(by_hand.size(), by_regex.size()); ++i)
        if (by_hand[i].first != by_regex[i].first || by_hand[i].last != by_regex[i].last) {
            BOOST_ERROR("piece " << i << " of \"" << text << "\" ends at " << by_hand[i].last
                                 << ", by the expression at " << by_regex[i].last);
            return;
        }
}

char32_t random_point(std::mt19937& random) {
    static constexpr char32_t often[] = {' ',    ' ',  '\n',  '\r', '\t',   '\'',  's',  'S',
                                         't',    'l',  'L',   'r',  'e',    'v',   'm',  'd',
                                         'a',    '1',  '9',   '.',  '!',    0x17F, 0xA0, 0x3000,
                                         0x2028, 0x85, 0x301, 0xE9, 0x6F22, 0x661, 0xBD};
    const auto below = [&](uint32_t n) {
        return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
    };
    if (below(5) != 0) return often[below(std::size(often))];
    const char32_t point = below(4) == 0 ? below(0x110000) : below(0x3000);
    return point >= 0xD800 && point < 0xE000 ? ' ' : point;
}

constexpr Scanner all[] = {Scanner::gpt2, Scanner::one_digit, Scanner::three_digits};

}  // namespace

BOOST_AUTO_TEST_CASE(scanners_cut_as_their_regular_expressions) {
    std::mt19937 random(3);
    for (const Scanner scanner : all) {
        const Regex regex = Regex::compile(std::string(pattern_of(scanner))).value();
        for (int round = 0; round < 20'000; ++round) {
            std::string text;
            const unsigned length = random() % 24 + 1;
            for (unsigned i = 0; i < length; ++i) append_code_point(text, random_point(random));
            compare(scanner, regex, text);
        }
    }
}

BOOST_AUTO_TEST_CASE(every_character_has_the_class_of_the_regular_expression) {
    for (const Scanner scanner : all) {
        const Regex regex = Regex::compile(std::string(pattern_of(scanner))).value();
        std::string text;
        for (char32_t point = 1; point < 0x110000; ++point) {
            if (point >= 0xD800 && point < 0xE000) continue;
            append_code_point(text, point);
            text += point % 3 == 0 ? "a" : point % 3 == 1 ? "1" : "!";
        }
        compare(scanner, regex, text);
    }
}
