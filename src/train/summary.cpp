#include "summary.hpp"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "progress.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/shell_word.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::train {

void RunTotals::add(const StepNumbers& numbers) {
    ++num_steps;
    rows += numbers.rows;
    tokens += numbers.step_tokens;
    seconds_in_steps += numbers.seconds;
    operations += numbers.operations;
    if (numbers.is_skipped()) return;
    if (num_losses == 0) first_loss = numbers.loss;
    ++num_losses;
    last_loss = numbers.loss;
    sum_of_losses += numbers.loss;
}

MetricsLine RunTotals::end_line(int64_t step, double epoch) const {
    const double seconds = since_start.seconds();
    const int64_t all_losses = before.num_losses + num_losses;
    return {{"step", step},
            {"epoch", epoch},
            {"train_loss",
             (before.loss + sum_of_losses) / static_cast<double>(std::max<int64_t>(1, all_losses))},
            {"train_runtime", seconds},
            {"train_samples_per_second", static_cast<double>(rows) / seconds},
            {"train_steps_per_second", static_cast<double>(num_steps) / seconds},
            {"total_flos", all_operations()}};
}

std::string RunTotals::summary(int64_t step, const std::vector<EvaluationNumbers>& evaluated,
                               int64_t peak_memory_bytes, const BestModel& best,
                               const std::filesystem::path& folder,
                               const std::string& result) const {
    std::ostringstream out;
    out << std::fixed << std::setprecision(4);
    const auto line = [&](const char* name) -> std::ostream& {
        return out << "\n  " << std::left << std::setw(13) << name << ' ';
    };
    const double per_step = seconds_in_steps / static_cast<double>(std::max<int64_t>(1, num_steps));
    out << "done: step " << step << " after " << hours_minutes_seconds(since_start.seconds());
    if (num_losses > 0) line("loss") << first_loss << " -> " << last_loss;
    for (const EvaluationNumbers& numbers : evaluated)
        line((numbers.set.empty() ? "eval_loss" : format_text("eval_{}_loss", numbers.set)).c_str())
            << numbers.loss;
    if (best.step() && best.step() != step)
        out << " (best " << best.metric() << ' ' << *best.value() << " at step " << *best.step()
            << ')';
    if (num_steps > 0)
        line("speed") << with_thousands(static_cast<double>(tokens) / seconds_in_steps)
                      << " tokens/s, " << per_step << " s per step";
    line("memory") << human_bytes(static_cast<double>(peak_memory_bytes))
                   << " at most, on one rank";
    line("model") << result;
    line("metrics") << (folder / "metrics.jsonl").string();
    if (const auto latest = read_file(folder / "latest"))
        line("checkpoint") << (folder / trim(*latest)).string();
    return out.str();
}

std::string predict_results(const std::vector<EvaluationNumbers>& all) {
    nlohmann::ordered_json results = nlohmann::ordered_json::object();
    for (const EvaluationNumbers& numbers : all) {
        const std::string prefix =
            numbers.set.empty() ? "predict_" : format_text("predict_{}_", numbers.set);
        results[prefix + "loss"] = numbers.loss;
        if (!numbers.names.entropy.empty())
            results[prefix + numbers.names.entropy] = numbers.entropy;
        if (!numbers.names.accuracy.empty())
            results[prefix + numbers.names.accuracy] = numbers.accuracy;
        for (const auto& [name, value] : numbers.of_objective) results[prefix + name] = value;
        results[prefix + "samples"] = numbers.rows;
        results[prefix + "runtime"] = numbers.seconds;
    }
    return results.dump(4) + "\n";
}

std::string joined_losses(const std::vector<EvaluationNumbers>& all) {
    std::vector<std::string> losses;
    for (const EvaluationNumbers& numbers : all)
        losses.push_back(numbers.set.empty()
                             ? shortest(numbers.loss)
                             : format_text("{} ({})", shortest(numbers.loss), numbers.set));
    return join(losses, ", ");
}

std::string sample_text(const TextSample& sample) {
    constexpr size_t shown = 80;
    const auto quoted = [](const std::string& text) {  // a cut may fall inside a character
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    const bool is_long = sample.prompt.size() > shown;
    const std::string prompt =
        is_long ? sample.prompt.substr(sample.prompt.size() - shown) : sample.prompt;
    return format_text("  {}{} -> {}", is_long ? "..." : "", quoted(prompt), quoted(sample.text));
}

std::string upload_command(const config::CheckpointSettings& settings,
                           const std::filesystem::path& folder) {
    const std::string name = without_slash(folder).filename().string();
    const std::string id = settings.hub_model_id.empty() ? name : settings.hub_model_id;
    return format_text(
        "hf upload {} {} . --exclude 'checkpoint-*'{}{}", shell_word(id),
        shell_word(folder.string()), settings.hub_private_repo.value_or(false) ? " --private" : "",
        settings.hub_revision.empty() ? "" : " --revision " + shell_word(settings.hub_revision));
}

std::string evaluation_text(int64_t step, const EvaluationNumbers& numbers) {
    std::ostringstream out;
    out << std::fixed << std::setprecision(4) << "eval "
        << (numbers.set.empty() ? "" : format_text("of {} ", numbers.set)) << "after step " << step
        << ": loss " << numbers.loss;
    if (!numbers.names.entropy.empty()) out << " entropy " << numbers.entropy;
    if (!numbers.names.accuracy.empty()) out << " accuracy " << numbers.accuracy;
    for (const auto& [name, value] : numbers.of_objective) out << ' ' << name << ' ' << value;
    out << " (" << numbers.rows << " rows in " << std::setprecision(1) << numbers.seconds << " s)";
    return out.str();
}

}  // namespace ringshard::train
