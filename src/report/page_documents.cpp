#include <cmath>

#include "html.hpp"
#include "page_parts.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::report {

namespace {

std::string rounded_text(double number) {
    return std::isfinite(number) ? shortest(std::round(number * 1e3) / 1e3) : "nan";
}

}  // namespace

std::string documents(const RunStory& run) {
    if (run.spikes.empty()) return {};
    HtmlTable table{{"Step", "Why it stands out", "Share of the gradient", "Loss per token",
                     "Targets", "Rows of the dataset"},
                    {}};
    for (const LoggedStep& step : run.spikes)
        for (const LoggedDocument& document : step.documents) {
            const bool is_first = &document == step.documents.data();
            const double loss = document.loss / static_cast<double>(document.targets);
            table.rows.push_back({number_cell(is_first ? std::to_string(step.step) : ""),
                                  long_cell(is_first ? step.spike : ""),
                                  number_cell(rounded_text(100 * document.share) + " %"),
                                  number_cell(rounded_text(loss)),
                                  number_cell(std::to_string(document.targets)),
                                  long_cell(join(document.rows_of_dataset, ", "))});
        }
    return text_in("p",
                   "The documents with the largest share of the gradient at the input of the "
                   "head; trainer inspect RUN --step N shows all.") +
           markup(table);
}

}  // namespace ringshard::report
