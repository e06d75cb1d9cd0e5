#pragma once

#include <string>
#include <string_view>

// Elements of an SVG.
namespace ringshard::report {

// Returns the style sheet by class: text, title, label, page, grid, frame, line, dot, eval, and the
// colours of runs.
std::string_view svg_style();

// Return a run's colour class, and, beyond the number of colours, its dash attribute.
std::string color_of(size_t run);
std::string dashes_of(size_t run);

std::string escaped(const std::string& text);
std::string place(double coordinate);
std::string text_at(double x, double y, const char* attributes, const std::string& text);
std::string line_at(double x1, double y1, double x2, double y2, const char* name);
std::string dot_at(double x, double y, double radius, const char* name, size_t run);

}  // namespace ringshard::report
