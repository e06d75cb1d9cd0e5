#pragma once

#include <string>
#include <string_view>
#include <vector>

// Elements of an HTML page. Arguments named markup are inserted as they are, texts are escaped.
namespace ringshard::report {

std::string element(std::string_view tag, std::string_view attributes, const std::string& markup);
std::string text_in(std::string_view tag, const std::string& text);

// A table with a scroll bar of its own if it is wider than the window.
struct HtmlTable {
    std::vector<std::string> heads;              // texts
    std::vector<std::vector<std::string>> rows;  // cells, made by cell() and number_cell()
};
std::string cell(const std::string& text);
std::string long_cell(const std::string& text);                           // breaks lines
std::string name_cell(const std::string& text);                           // in a monospaced font
std::string number_cell(const std::string& text);                         // right-aligned
std::string markup(const HtmlTable& table, std::string_view place = {});  // a class besides "wide"

std::string section(const std::string& title, const std::string& markup);
// Wraps markup in a collapsed section.
std::string folded(const std::string& title, const std::string& markup);

// Return a legend symbol in the colour of a run or a category: a line or an area.
std::string line_sample(size_t color);
std::string area_sample(size_t color);

std::string_view page_style();
std::string_view page_script();

}  // namespace ringshard::report
