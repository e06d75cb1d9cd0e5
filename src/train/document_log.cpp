#include "document_log.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "log.hpp"
#include "metrics_text.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/train/training_loop.hpp"
#include "step_documents.hpp"

namespace ringshard::train {

namespace {

constexpr const char* spikes_text = "spikes";  // of a checkpoint

// Formats nine digits, which an fp32 number needs; null for one that is not finite.
std::string nine_digits(double number) {
    if (!std::isfinite(number)) return "null";
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number,
                                   std::chars_format::general, 9)
                         .ptr;
    return {digits.data(), end};
}

struct StepRecord {
    int64_t step;
    int64_t attempt;
    std::string spike;  // why it is one, or empty
    const StepNumbers& numbers;
    const std::filesystem::path& rows;
    std::vector<StepDocument> documents;
};

// A document takes about 45 bytes: row, place in the row, targets, sum of losses, share.
std::string to_line(const StepRecord& record) {
    const auto& [step, attempt, spike, numbers, rows, documents] = record;
    const char* const is_lost = numbers.is_lost() ? R"(,"is_lost":true)" : "";
    double squares = 0;
    for (const StepDocument& document : documents) squares += document.gradient_squares;
    std::string line =
        concat(R"({"step":)", step, R"(,"attempt":)", attempt, is_lost, R"(,"spike":)",
               spike.empty() ? "null" : json_text(spike), R"(,"loss":)", nine_digits(numbers.loss),
               R"(,"grad_norm":)", nine_digits(numbers.grad_norm), R"(,"rows":)",
               json_text(rows.string()), R"(,"documents":[)");
    for (const StepDocument& document : documents) {
        if (&document != documents.data()) line += ',';
        line += concat("[", document.row, ",", document.place, ",", document.targets, ",",
                       nine_digits(document.loss), ",",
                       nine_digits(document.gradient_squares / squares), "]");
    }
    return line + "]}";
}

}  // namespace

DocumentLog::DocumentLog(const RunParts& parts, Log& log)
    : world_(parts.world),
      trainer_(parts.trainer),
      log_(log),
      steps_(parts.config.logging.document_log),
      file_(parts.store.output_dir() / "documents.jsonl"),
      resumed_from_(parts.resumed_from),
      rows_(std::filesystem::absolute(parts.rows_file)),
      attempt_(parts.store.attempt()) {
    trainer_.watch_documents();
}

// A checkpoint of a run without the log has no numbers.
std::optional<comm::AgreedFailure> DocumentLog::begin(const Texts& texts) {
    const auto stored = texts.find(spikes_text);
    if (stored == texts.end() || spikes_.load(stored->second)) return std::nullopt;
    return comm::found_by_all(
        {ExitCode::bad_data,
         format_text("{}: text {} holds something other than the losses and norms of up to {} "
                     "steps; go on from an earlier checkpoint",
                     resumed_from_.string(), spikes_text, Spikes::window)});
}

void DocumentLog::save(checkpoint::Contents contents, checkpoint::Extras& extras) const {
    extras.texts.erase(spikes_text);
    if (contents == checkpoint::Contents::everything && world_.is_root())
        extras.texts[spikes_text] = spikes_.to_text();
}

std::optional<comm::AgreedFailure> DocumentLog::after_step(int64_t step,
                                                           const StepNumbers& numbers) {
    const std::string spike = spikes_.judge(numbers);
    if (!spike.empty() || steps_ == config::DocumentLogging::all) log(step, spike, numbers);
    return std::nullopt;
}

void DocumentLog::after_lost_step(int64_t step, const StepNumbers& numbers) {
    log(step, numbers.skipped_because, numbers);
}

void DocumentLog::log(int64_t step, const std::string& spike, const StepNumbers& numbers) {
    world_.flight_recorder().set_activity("gathering the documents of the step");
    const StepRecord record{step,    attempt_, spike,
                            numbers, rows_,    trainer_.documents().gather(world_)};
    if (world_.is_root()) write(step, to_line(record));
}

// A step that the disk does not take is left out, and said: training goes on.
void DocumentLog::write(int64_t step, const std::string& line) {
    if (const auto failure = append_line(file_, line)) {
        if (++num_lost_ == 1)
            log_.say(
                format_text("warning: {}; the documents of step {} and of further steps are "
                            "not logged until the disk takes them",
                            failure->message, step));
        return;
    }
    if (const int64_t lost = std::exchange(num_lost_, 0); lost > 0)
        log_.say(format_text("note: {} takes lines again, from step {} on; it lacks {} steps",
                             file_.string(), step, lost));
}

}  // namespace ringshard::train
