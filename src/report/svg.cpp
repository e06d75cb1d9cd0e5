#include "svg.hpp"

#include <array>
#include <cmath>

#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard::report {

namespace {

constexpr size_t num_colors = 8;

}  // namespace

// Colours for readers with any colour vision, on white and on black.
std::string_view svg_style() {
    return R"css(
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#24292f}
.title{font-size:13px;font-weight:600}.label{fill:#57606a}
.page{fill:#ffffff}.grid{stroke:#e3e6ea}.frame{stroke:#8c959f}
.c0{stroke:#0068b5;fill:#0068b5}.c1{stroke:#c8500a;fill:#c8500a}.c2{stroke:#00805c;fill:#00805c}.c3{stroke:#a63d94;fill:#a63d94}
.c4{stroke:#8a6a00;fill:#8a6a00}.c5{stroke:#0e8fb3;fill:#0e8fb3}.c6{stroke:#c2274b;fill:#c2274b}.c7{stroke:#57606a;fill:#57606a}
.band{stroke:none;fill-opacity:.2}.stack{stroke:none;fill-opacity:.8}.mark{stroke:#8c959f;stroke-dasharray:3 3}
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.eval{stroke:#ffffff}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.label{fill:#9aa4af}.page{fill:#12161c}.grid{stroke:#262d36}.frame{stroke:#6b7681}
.c0{stroke:#58a6ff;fill:#58a6ff}.c1{stroke:#ff9a57;fill:#ff9a57}.c2{stroke:#3fcf9b;fill:#3fcf9b}.c3{stroke:#e58bd5;fill:#e58bd5}
.c4{stroke:#dcb93c;fill:#dcb93c}.c5{stroke:#5fd3ef;fill:#5fd3ef}.c6{stroke:#ff7b93;fill:#ff7b93}.c7{stroke:#aeb7c0;fill:#aeb7c0}
.band,.stack{stroke:none}.line{fill:none}.eval{stroke:#12161c}
})css";
}

std::string color_of(size_t run) { return format_text("c{}", run % num_colors); }

std::string dashes_of(size_t run) {
    static constexpr std::array<const char*, 4> patterns{"", "6 4", "2 4", "9 3 2 3"};
    const char* const pattern = patterns[run / num_colors % patterns.size()];
    return *pattern == '\0' ? "" : format_text(" stroke-dasharray=\"{}\"", pattern);
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) < 0x20)
            out += ' ';  // XML cannot represent most of them
        else
            out += c;
    }
    return is_utf8(out) ? out : "a name that is not UTF-8";
}

std::string place(double coordinate) { return shortest(std::round(coordinate * 100) / 100); }

std::string text_at(double x, double y, const char* attributes, const std::string& text) {
    return format_text("<text x=\"{}\" y=\"{}\" {}>{}</text>\n", place(x), place(y), attributes,
                       escaped(text));
}

std::string line_at(double x1, double y1, double x2, double y2, const char* name) {
    return format_text("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", place(x1),
                       place(y1), place(x2), place(y2), name);
}

std::string dot_at(double x, double y, double radius, const char* name, size_t run) {
    return format_text("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{} {}\"/>\n", place(x),
                       place(y), place(radius), name, color_of(run));
}

}  // namespace ringshard::report
