#include "html.hpp"

#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

std::string element(std::string_view tag, std::string_view attributes, const std::string& markup) {
    return format_text("<{}{}{}>{}</{}>", tag, attributes.empty() ? "" : " ", attributes, markup,
                       tag);
}

std::string text_in(std::string_view tag, const std::string& text) {
    return element(tag, "", escaped(text));
}

std::string cell(const std::string& text) { return text_in("td", text); }
std::string long_cell(const std::string& text) {
    return element("td", "class=\"long\"", escaped(text));
}
std::string name_cell(const std::string& text) {
    return element("td", "class=\"name\"", escaped(text));
}
std::string number_cell(const std::string& text) {
    return element("td", "class=\"number\"", escaped(text));
}

std::string markup(const HtmlTable& table, std::string_view place) {
    std::string heads;
    for (size_t column = 0; column < table.heads.size(); ++column) {
        // Align the header like its column's numbers.
        const bool is_number = !table.rows.empty() && column < table.rows.front().size() &&
                               table.rows.front()[column].starts_with("<td class=\"number\"");
        heads += element("th", is_number ? "class=\"number\"" : "", escaped(table.heads[column]));
    }
    std::string rows;
    for (const auto& cells : table.rows) rows += element("tr", "", join(cells, "")) + "\n";
    return format_text(
        "<div class=\"wide{}{}\"><table><thead><tr>{}</tr></thead><tbody>\n"
        "{}</tbody></table></div>\n",
        place.empty() ? "" : " ", place, heads, rows);
}

std::string section(const std::string& title, const std::string& markup) {
    return format_text("<section>{}\n{}</section>\n", text_in("h2", title), markup);
}

std::string folded(const std::string& title, const std::string& markup) {
    return format_text("<details>{}\n{}</details>\n", text_in("summary", title), markup);
}

std::string line_sample(size_t color) {
    return format_text(
        "<svg class=\"sample\" viewBox=\"0 0 26 10\">"
        "<path class=\"line {}\"{} d=\"M0 5h26\"/></svg>",
        color_of(color), dashes_of(color));
}

std::string area_sample(size_t color) {
    return format_text(
        "<svg class=\"sample square\" viewBox=\"0 0 10 10\">"
        "<path class=\"stack {}\" d=\"M0 0h10v10h-10Z\"/></svg>",
        color_of(color));
}

}  // namespace ringshard::report
