#include <algorithm>
#include <iomanip>
#include <sstream>

#include "ringshard/data/plan_rows.hpp"

namespace ringshard::data {

using text::Value;

namespace {

// Formats 12,345,678.
std::string with_commas(int64_t number) {
    std::string digits = std::to_string(number);
    for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<size_t>(at), ",");
    return digits;
}

std::string percent(int64_t part, int64_t whole) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1)
         << 100.0 * static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole))
         << " %";
    return text.str();
}

// Formats "2.50 times each".
std::string times(int64_t taken, int64_t samples) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(2)
         << static_cast<double>(taken) / static_cast<double>(std::max<int64_t>(1, samples))
         << " times each";
    return text.str();
}

}  // namespace

Value to_value(const RowReport& report) {
    Value::List sources;
    for (const SourceUse& use : report.sources)
        sources.emplace_back(Value::List{Value(use.name), Value(use.samples), Value(use.taken)});
    Value::List lengths;
    for (const int64_t number : report.lengths) lengths.emplace_back(number);
    return Value(Value::Object{{"samples", Value(report.samples)},
                               {"tokens", Value(report.tokens)},
                               {"cut_tokens", Value(report.cut_tokens)},
                               {"samples_cut", Value(report.samples_cut)},
                               {"copies", Value(report.copies)},
                               {"dropped", Value(report.dropped)},
                               {"longest", Value(report.longest)},
                               {"rows", Value(report.rows)},
                               {"row_tokens", Value(report.of_rows.tokens)},
                               {"longest_row", Value(report.of_rows.longest_row)},
                               {"longest_document", Value(report.of_rows.longest_document)},
                               {"sources", Value(std::move(sources))},
                               {"lengths", Value(std::move(lengths))}});
}

RowReport report_of(const Value& value) {
    RowReport report;
    const auto read = [&](const char* name, int64_t& number) {
        const Value* member = value.find(name);
        if (member != nullptr && member->integer() != nullptr) number = *member->integer();
    };
    read("samples", report.samples);
    read("tokens", report.tokens);
    read("cut_tokens", report.cut_tokens);
    read("samples_cut", report.samples_cut);
    read("copies", report.copies);
    read("dropped", report.dropped);
    read("longest", report.longest);
    read("rows", report.rows);
    read("row_tokens", report.of_rows.tokens);
    read("longest_row", report.of_rows.longest_row);
    read("longest_document", report.of_rows.longest_document);
    const Value* sources = value.find("sources");
    if (sources != nullptr && sources->list() != nullptr)
        for (const Value& source : *sources->list()) {
            const Value::List& use = *source.list();
            report.sources.push_back({*use[0].string(), *use[1].integer(), *use[2].integer()});
        }
    const Value* lengths = value.find("lengths");
    if (lengths != nullptr && lengths->list() != nullptr)
        for (size_t i = 0; i < std::min(report.lengths.size(), lengths->list()->size()); ++i)
            if (const auto* number = (*lengths->list())[i].integer()) report.lengths[i] = *number;
    return report;
}

namespace {

std::string dropped_documents(const RowSettings& settings) {
    if (settings.content.is_pair)
        return settings.truncation == config::TruncationMode::drop
                   ? "pairs with an answer that max_length would cut"
                   : "pairs whose prompt alone has max_length tokens";
    const bool drops_long = settings.truncation == config::TruncationMode::drop;
    if (settings.min_length > 0 || drops_long)
        return format_text("documents {}{}or without anything to learn",
                           settings.min_length > 0 ? "shorter than min_length, " : "",
                           drops_long ? "longer than max_length, " : "");
    return settings.max_length ? "documents without anything to learn within max_length"
                               : "documents without anything to learn";
}

}  // namespace

std::string to_text(const RowReport& report, const RowSettings& settings) {
    std::ostringstream out;
    const std::string samples = settings.content.is_pair ? "pairs" : "documents";
    out << "  " << std::left << std::setw(12) << samples << std::right
        << with_commas(report.samples) << ", " << with_commas(report.tokens)
        << " tokens, the longest has " << with_commas(report.longest) << "\n";
    if (report.copies > 0)
        out << "  copies      " << with_commas(report.copies) << " further " << samples
            << " have the tokens and labels of an earlier one, and are left "
               "out\n";
    for (const SourceUse& use : report.sources)
        out << "    " << std::setw(6) << percent(use.taken, report.samples) << "  "
            << with_commas(use.taken) << " of " << use.name << ", which has "
            << with_commas(use.samples) << ": " << times(use.taken, use.samples) << "\n";
    if (report.samples_cut > 0)
        out << "  cut off     " << with_commas(report.cut_tokens) << " tokens ("
            << percent(report.cut_tokens, report.tokens) << ") of "
            << with_commas(report.samples_cut) << ' ' << samples
            << " longer than max_length = " << *settings.max_length << "\n";
    if (report.dropped > 0)
        out << "  dropped     " << with_commas(report.dropped) << " " << dropped_documents(settings)
            << "\n";
    out << "  rows        " << with_commas(report.rows) << ", "
        << with_commas(report.of_rows.tokens) << " tokens";
    if (settings.packs)
        out << ", filled to " << percent(report.of_rows.tokens, report.rows * *settings.max_length);
    out << "\n  lengths of " << samples << "\n";
    const int64_t most = *std::ranges::max_element(report.lengths);
    for (size_t i = 0; i < report.lengths.size(); ++i) {
        if (report.lengths[i] == 0) continue;
        const auto width = static_cast<size_t>((report.lengths[i] * 40 + most - 1) / most);
        out << "    " << std::setw(10) << with_commas(int64_t{1} << i) << " + "
            << std::string(width, '#') << ' ' << with_commas(report.lengths[i]) << "\n";
    }
    return out.str();
}

}  // namespace ringshard::data
