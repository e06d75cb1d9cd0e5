#include <boost/test/unit_test.hpp>
#include <fstream>
#include <set>

#include "ringshard/base/text.hpp"
#include "ringshard/config/option_table.hpp"

using namespace ringshard;
using config::Treatment;

// Every setting is listed in option_list.txt, so that adding one, or changing what it means when
// nobody sets it, or whether losses depend on it, is a decision that shows in a review.
BOOST_AUTO_TEST_CASE(the_list_of_settings_is_the_agreed_one) {
    const config::OptionTable table;
    std::set<std::string> lines;
    const auto treatment = [](Treatment t) {
        return t == Treatment::served     ? "served"
               : t == Treatment::accepted ? "accepted"
                                          : "refused";
    };
    const auto loss_role = [](config::LossRole role) {
        return role == config::LossRole::none     ? ""
               : role == config::LossRole::always ? " shapes the loss"
                                                  : " shapes the loss if set";
    };
    for (const config::Option& option : table.options())
        lines.insert(format_text("{} {} {}{}", option.name, treatment(option.treatment),
                                 option.default_text, loss_role(option.loss_role)));
    for (const config::Alias& alias : table.aliases())
        lines.insert(format_text("{} = {}", alias.name, alias.target));
    for (const config::Block& block : table.blocks())
        lines.insert(format_text("{} block", block.name));

    std::set<std::string> agreed;
    std::ifstream file(OPTION_LIST);
    for (std::string line; std::getline(file, line);) agreed.insert(line);
    for (const std::string& line : lines)
        BOOST_TEST(agreed.contains(line), "not in option_list.txt: " << line);
    for (const std::string& line : agreed)
        BOOST_TEST(lines.contains(line), "only in option_list.txt: " << line);
}

BOOST_AUTO_TEST_CASE(every_setting_explains_itself) {
    const config::OptionTable table;
    for (const config::Option& option : table.options()) {
        if (option.treatment == Treatment::served)
            BOOST_TEST(!option.help.empty(), option.name);
        else
            BOOST_TEST(!option.reason.empty(), option.name);
    }
}
