#include <algorithm>
#include <array>

#include "reference.hpp"
#include "reference_files.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

std::string settings_page(const config::OptionTable& table) {
    std::string out =
        "# The settings\n\nWritten by `trainer help markdown`, from the table of options in "
        "`src/config/options/`. Their sources, and which\nsource counts: "
        "[contract.md](contract.md), section 2. A value in parentheses is the default.\n";
    for (const ReferenceSection& section : settings_reference(table)) {
        out += format_text("\n## {}\n\n", section.title);
        if (!section.about.empty()) out += section.about + "\n\n";
        for (const ReferenceEntry& entry : section.entries) {
            out += format_text("- `{}{}{}`", entry.shown(), entry.value.empty() ? "" : " ",
                               entry.value);
            if (!entry.usual.empty()) out += format_text(" (`{}`)", entry.usual);
            out += format_text(": {}\n", entry.text);
        }
    }
    return out;
}

namespace {

struct Writer {
    const char* word;
    std::string (*write)(const config::OptionTable&);
};
constexpr std::array writers{Writer{"man", manual_page}, Writer{"bash-completion", bash_completion},
                             Writer{"markdown", settings_page}};

}  // namespace

bool is_reference_file(const std::string& word) {
    return std::ranges::any_of(writers, [&](const Writer& writer) { return word == writer.word; });
}

std::string reference_file(const std::string& word, const config::OptionTable& table) {
    for (const Writer& writer : writers)
        if (word == writer.word) return writer.write(table);
    return {};
}

}  // namespace ringshard::cli
