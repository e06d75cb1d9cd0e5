#include "ringshard/report/page.hpp"

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"
#include "svg.hpp"

namespace ringshard::report {

namespace {

std::string shown_if_there(const std::string& title, const std::string& markup) {
    return markup.empty() ? "" : section(title, markup);
}

// Returns model and dataset, the two settings that describe a run best.
std::string subject_of(const RunStory& run) {
    if (!run.record) return {};
    std::string out;
    for (const char* name : {"model_name_or_path", "dataset_name"}) {
        const RunRecord::Setting* setting = run.record->find(name);
        if (setting == nullptr || setting->value == "null" || setting->value.empty()) continue;
        out += concat(out.empty() ? "" : " on ",
                      element("span", "class=\"name\"", escaped(setting->value)));
    }
    return out.empty() ? "" : element("p", "class=\"soft\"", out) + "\n";
}

std::string page_of_one(const RunStory& run, LossScale scale) {
    const Stories alone(&run, 1);
    std::string out = format_text(
        "<header><p class=\"brand\">Ringshard run</p><h1>{}{}</h1>\n"
        "{}</header>\n"
        "{}",
        escaped(run.metrics.name), state_mark(run.status), subject_of(run), summary_tiles(run));
    out += section("Curves over steps", curves(alone, scale));
    out += shown_if_there("Time of a step", times(alone));
    out += shown_if_there("Memory of a rank", memory(alone));
    out += shown_if_there("Generated texts", samples(run));
    if (run.record) out += shown_if_there("Layout", layout(*run.record));
    out += shown_if_there("Checkpoints", checkpoints(run));
    out += shown_if_there("Events", events(run));
    out += shown_if_there("Documents of spikes", documents(run));
    if (run.record) out += section("Settings", settings(*run.record));
    return out;
}

std::string details_of(const RunStory& run) {
    const auto part = [](const char* title, const std::string& markup) {
        return markup.empty() ? std::string() : text_in("h3", title) + "\n" + markup;
    };
    std::string out = subject_of(run);
    if (run.record) out += part("Layout", layout(*run.record));
    out += part("Generated texts", samples(run));
    out += part("Checkpoints", checkpoints(run));
    out += part("Events", events(run));
    out += part("Documents of spikes", documents(run));
    if (run.record) out += part("Settings", settings(*run.record));
    return format_text("<details class=\"run\">{}\n{}</details>\n",
                       text_in("summary", run.metrics.name), out);
}

std::string page_of_several(Stories runs, LossScale scale) {
    std::string out = format_text(
        "<header><p class=\"brand\">Ringshard runs</p><h1>{} runs</h1></header>\n"
        "{}",
        runs.size(), comparison_table(runs));
    out += section("Curves over steps", curves(runs, scale));
    out += shown_if_there("Settings that differ", differing_settings(runs));
    out += shown_if_there("Time of a step", times(runs));
    out += shown_if_there("Memory of a rank", memory(runs));
    std::string details;
    for (const RunStory& run : runs) details += details_of(run);
    return out + section("Each run", details);
}

}  // namespace

std::string draw_page(const std::vector<RunStory>& runs, LossScale scale) {
    const bool is_one = runs.size() == 1;
    const std::string title =
        is_one ? runs.front().metrics.name : format_text("{} runs", runs.size());
    return format_text(
        "<!DOCTYPE html>\n"
        "<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<title>{} - Ringshard</title>\n"
        "<style>{}{}</style></head>\n"
        "<body><main>\n"
        "{}<footer>Made by trainer report from the files of the {}. Steps that a later attempt "
        "did not build on are left out.</footer>\n"
        "</main>\n"
        "<script>{}</script></body></html>\n",
        escaped(title), svg_style(), page_style(),
        is_one ? page_of_one(runs.front(), scale) : page_of_several(runs, scale),
        is_one ? "run" : "runs", page_script());
}

}  // namespace ringshard::report
