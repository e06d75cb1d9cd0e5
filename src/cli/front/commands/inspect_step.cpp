#include "inspect_step.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "place_finder.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/report/document_log.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::cli {

namespace {

using report::LoggedDocument;
using text::Value;

std::string to_json(const LoggedDocument& document) {
    const auto real = [](double number) { return std::isfinite(number) ? Value(number) : Value(); };
    Value::List list;
    for (const std::string& place : document.rows_of_dataset) list.emplace_back(place);
    return text::to_json(Value(Value::Object{{"row", Value(document.row)},
                                             {"place", Value(document.place)},
                                             {"targets", Value(document.targets)},
                                             {"loss", real(document.loss)},
                                             {"share", real(document.share)},
                                             {"rows_of_dataset", Value(std::move(list))}}));
}

std::string fixed(double number, int digits) {
    if (!std::isfinite(number)) return "nan";
    const double factor = std::pow(10, digits);
    return shortest(std::round(number * factor) / factor);
}

std::string cell(const std::string& content, size_t width) {
    return std::string(width - std::min(width, content.size()), ' ') + content;
}

std::string for_people(const LoggedDocument& document) {
    constexpr size_t most = 3;
    const std::vector<std::string>& places = document.rows_of_dataset;
    std::string shown =
        join(std::vector(places.begin(),
                         places.begin() + static_cast<int64_t>(std::min(most, places.size()))),
             "; ");
    if (places.size() > most) shown += format_text(" and {} more", places.size() - most);
    return cell(fixed(100 * document.share, 2), 9) +
           cell(fixed(document.loss / static_cast<double>(document.targets), 4), 12) +
           cell(fixed(document.loss, 3), 13) + cell(concat(document.targets), 9) +
           cell(format_text("{}:{}", document.row, document.place), 16) + "  " + shown + "\n";
}

}  // namespace

int inspect_step(const StepToInspect& wanted) {
    auto logged = report::read_logged_step(wanted.run, wanted.step);
    if (!logged) return report_failure(logged.failure());
    report::LoggedStep& step = logged.value();
    sort_worst_first(step.documents);
    if (const auto failure = find_places(step))
        std::cerr << format_text("warning: {}\n", failure->message);
    if (wanted.as_json) {
        for (const LoggedDocument& document : step.documents)
            std::cout << to_json(document) << '\n';
        return number(ExitCode::done);
    }
    int64_t targets = 0;
    for (const LoggedDocument& document : step.documents) targets += document.targets;
    std::cout << format_text(
        "step {} of attempt {}: loss {}, norm of the gradient {}; {} documents with {} targets\n",
        step.step, step.attempt, fixed(step.loss, 4), fixed(step.grad_norm, 4),
        step.documents.size(), targets);
    if (!step.spike.empty()) std::cout << format_text("a spike: {}\n", step.spike);
    std::cout
        << "  share %  loss/token     loss sum  targets    row:place    place in the dataset\n";
    const auto shown = std::min<int64_t>(wanted.most, std::ssize(step.documents));
    for (int64_t i = 0; i < shown; ++i)
        std::cout << for_people(step.documents[static_cast<size_t>(i)]);
    if (shown < std::ssize(step.documents))
        std::cout << format_text("{} more; --rows N shows N of them\n",
                                 std::ssize(step.documents) - shown);
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
