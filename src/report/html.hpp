#pragma once

#include <string>
#include <string_view>
#include <vector>

// Pieces of a page. What is called markup stands in it as it is, a text is escaped.
namespace ringshard::report {

std::string element(std::string_view tag, std::string_view attributes, const std::string& markup);
std::string text_in(std::string_view tag, const std::string& text);

// A table that scrolls by itself where it is wider than the window.
struct HtmlTable {
    std::vector<std::string> heads;              // texts
    std::vector<std::vector<std::string>> rows;  // cells, made by cell() and number_cell()
};
std::string cell(const std::string& text);
std::string long_cell(const std::string& text);    // broken where it has to be
std::string name_cell(const std::string& text);    // in the letters of a terminal
std::string number_cell(const std::string& text);  // to the right
std::string markup(const HtmlTable& table, std::string_view place = {});  // a class beside "wide"

std::string section(const std::string& title, const std::string& markup);
// Content that a click unfolds.
std::string folded(const std::string& title, const std::string& markup);

// The colour of a run, or of a kind, as a small line or a small area beside its name.
std::string line_sample(size_t color);
std::string area_sample(size_t color);

std::string_view page_style();
std::string_view page_script();

}  // namespace ringshard::report
