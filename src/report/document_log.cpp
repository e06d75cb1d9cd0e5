#include "ringshard/report/document_log.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::report {

namespace {

namespace fs = std::filesystem;
using text::Value;

constexpr std::string_view cure = "train with --document_log all, which logs every step";

std::optional<int64_t> whole(const Value* value) {
    const int64_t* const number = value != nullptr ? value->integer() : nullptr;
    return number != nullptr ? std::optional(*number) : std::nullopt;
}

// NaN stands for null.
double real(const Value* value) {
    if (const auto number = whole(value)) return static_cast<double>(*number);
    const double* const number = value != nullptr ? value->real() : nullptr;
    return number != nullptr ? *number : std::numeric_limits<double>::quiet_NaN();
}

// Returns the step of a line without parsing it, since a line has thousands of documents.
std::optional<int64_t> step_of(std::string_view line) {
    constexpr std::string_view begin = R"({"step":)";
    if (!line.starts_with(begin) || !line.ends_with("]}")) return std::nullopt;  // cut short
    line.remove_prefix(begin.size());
    return read_whole_number(line.substr(0, line.find(',')));
}

// The same for whether it is a spike.
bool is_spike(std::string_view line) {
    const std::string_view head = line.substr(0, line.find(R"("loss":)"));
    return head.find(R"("spike":")") != std::string_view::npos;
}

std::optional<LoggedStep> parse(const std::string& line) {
    const auto read = text::read_json(line);
    if (!read) return std::nullopt;
    const auto member = [&](const char* name) { return read.value().find(name); };
    const Value* const rows = member("rows");
    const Value* const documents = member("documents");
    const auto step = whole(member("step"));
    const auto attempt = whole(member("attempt"));
    if (!step || !attempt || rows == nullptr || rows->string() == nullptr || documents == nullptr ||
        documents->list() == nullptr)
        return std::nullopt;
    const Value* const spike = member("spike");
    const bool is_spike = spike != nullptr && spike->string() != nullptr;
    const Value* const is_lost = member("is_lost");
    LoggedStep logged{*step,
                      *attempt,
                      is_lost != nullptr,
                      is_spike ? *spike->string() : "",
                      real(member("loss")),
                      real(member("grad_norm")),
                      *rows->string(),
                      {}};
    for (const Value& document : *documents->list()) {
        const Value::List* const numbers = document.list();
        if (numbers == nullptr || numbers->size() != 5) return std::nullopt;
        const auto at = [&](size_t i) { return &(*numbers)[i]; };
        if (!whole(at(0)) || !whole(at(1)) || !whole(at(2))) return std::nullopt;
        logged.documents.push_back(
            {*whole(at(0)), *whole(at(1)), *whole(at(2)), real(at(3)), real(at(4))});
    }
    return logged;
}

// A later attempt repeats the steps of one before it, but not the pass that was lost there: its
// numbers may be finite in the next attempt, whose line comes later.
bool counts(const LoggedStep& logged, const checkpoint::Attempts& attempts) {
    return logged.is_lost || !attempts.is_void(logged.attempt, logged.step);
}

}  // namespace

void sort_worst_first(std::vector<LoggedDocument>& documents) {
    const auto rank = [](const LoggedDocument& document) {
        const auto finite = [](double number) { return std::isfinite(number) ? number : 0; };
        return std::tuple(!std::isfinite(document.loss), finite(document.share),
                          finite(document.loss));
    };
    std::ranges::stable_sort(documents, std::greater(), rank);
}

Expected<LoggedStep> read_logged_step(const fs::path& run, int64_t step) {
    if (!folder_exists(run))
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such run", run.string())};
    const fs::path file = run / "documents.jsonl";
    if (!file_exists(file))
        return Failure{ExitCode::missing_input,
                       format_text("{}: this run logs no documents: {}", run.string(), cure)};
    const checkpoint::Attempts attempts(run);
    std::optional<LoggedStep> found;
    int64_t first = std::numeric_limits<int64_t>::max();
    int64_t last = 0;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const auto of_line = step_of(line);
        if (!of_line) continue;
        first = std::min(first, *of_line);
        last = std::max(last, *of_line);
        if (*of_line != step) continue;
        auto logged = parse(line);
        if (logged && counts(*logged, attempts)) found = std::move(logged);
    }
    if (found) return *std::move(found);
    const std::string there =
        last == 0 ? "no step" : format_text("steps between {} and {}", first, last);
    return Failure{ExitCode::missing_input,
                   format_text("{}: has no documents of step {}: it holds {}; {}", file.string(),
                               step, there, cure)};
}

std::vector<LoggedStep> read_spikes(const fs::path& run, size_t most_steps, size_t most_documents) {
    const checkpoint::Attempts attempts(run);
    std::map<int64_t, LoggedStep> spikes;
    std::ifstream lines(run / "documents.jsonl");
    for (std::string line; std::getline(lines, line);) {
        if (!step_of(line) || !is_spike(line)) continue;
        auto logged = parse(line);
        if (!logged || !counts(*logged, attempts)) continue;
        sort_worst_first(logged->documents);
        logged->documents.resize(std::min(most_documents, logged->documents.size()));
        spikes.insert_or_assign(logged->step, *std::move(logged));
        if (spikes.size() > most_steps) spikes.erase(spikes.begin());
    }
    std::vector<LoggedStep> newest;
    for (auto& [step, logged] : spikes) newest.push_back(std::move(logged));
    return newest;
}

}  // namespace ringshard::report
