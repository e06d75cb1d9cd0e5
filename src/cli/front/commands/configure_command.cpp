#include <unistd.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <optional>

#include "ringshard/base/text.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"

namespace ringshard::cli {

namespace {

// Asks until the answer is one that `is_good` takes; nothing once the input has ended.
std::optional<std::string> ask(const std::string& question, const std::string& usual,
                               const std::function<bool(const std::string&)>& is_good,
                               const std::string& rule) {
    for (;;) {
        std::cout << question << " [" << usual << "] " << std::flush;
        std::string answer;
        if (!std::getline(std::cin, answer)) return std::nullopt;
        answer = std::string(trim(answer));
        if (answer.empty()) answer = usual;
        if (is_good(answer)) return answer;
        std::cout << "  " << rule << '\n';
    }
}

struct Answers {
    std::string model;
    std::string dataset;
    int64_t num_devices = 1;
    int64_t max_length = 1024;
    bool fits = true;
};

std::optional<Answers> ask_all() {
    Answers answers;
    const auto anything = [](const std::string& answer) { return !answer.empty(); };
    const auto is_number = [](const std::string& answer) {
        return read_whole_number(answer).value_or(0) >= 1;
    };
    const auto yes_or_no = [](const std::string& answer) {
        return answer == "yes" || answer == "no";
    };
    const auto model = ask("Which model (a folder, or a hub name in the local cache)?",
                           "Qwen/Qwen2.5-0.5B", anything, "");
    if (!model) return std::nullopt;
    const auto dataset =
        ask("Which dataset (a file, a folder, or a hub name)?", "data/train.jsonl", anything, "");
    if (!dataset) return std::nullopt;
    const auto devices = ask("How many GPUs (or ranks, on CPUs) will the job have?", "8", is_number,
                             "a whole number above 0");
    if (!devices) return std::nullopt;
    const auto length = ask("How many tokens has the longest sequence?", "1024", is_number,
                            "a whole number above 0");
    if (!length) return std::nullopt;
    const auto fits =
        ask("Do the model, its gradients and its optimizer fit one device (16 bytes per weight)?",
            "no", yes_or_no, "yes or no");
    if (!fits) return std::nullopt;
    return Answers{*model, *dataset, *read_whole_number(*devices), *read_whole_number(*length),
                   *fits == "yes"};
}

// Beyond about 32k tokens one device no longer holds a row; each doubling asks for twice the ranks.
int64_t ring_size(const Answers& answers) {
    int64_t ring = 1;
    while (answers.max_length > 32768 * ring && answers.num_devices % (2 * ring) == 0) ring *= 2;
    return ring;
}

// A text as YAML takes it, whatever stands in it.
std::string quoted(const std::string& text) {
    std::string yaml = "'";
    for (const char c : text) yaml += c == '\'' ? std::string("''") : std::string(1, c);
    return yaml + "'";
}

std::string settings_for(const Answers& answers) {
    const int64_t ring = ring_size(answers);
    const bool is_alone = answers.num_devices == 1;
    const std::string profile = is_alone ? "single_gpu" : answers.fits ? "zero1" : "zero3";
    std::string yaml = "# Settings of a run, for: srun ./trainer --config FILE\n";
    yaml += format_text("model_name_or_path: {}\n", quoted(answers.model));
    yaml += format_text("dataset_name: {}\n", quoted(answers.dataset));
    yaml += "output_dir: trainer_output   # metrics, checkpoints and the trained model\n\n";
    yaml +=
        is_alone ? "# One device.\n"
        : answers.fits
            ? "# The model fits one device: only the optimizer state is sharded over the ranks.\n"
            : "# The model does not fit one device: weights, gradients and optimizer state are "
              "sharded.\n";
    yaml += format_text("profile: {}\n", profile);
    if (ring > 1)
        yaml += format_text("# Long rows: {} ranks share each of them.\ncp_size: {}\n", ring, ring);
    yaml += format_text("\nmax_length: {}\n", answers.max_length);
    yaml += "packing: true                # several documents to a row; none sees another\n";
    yaml += format_text("per_device_train_batch_size: {}\n", answers.max_length >= 8192 ? 1 : 8);
    yaml +=
        "learning_rate: 2.0e-5\nlr_scheduler_type: cosine\nwarmup_steps: 0.03           # a share "
        "of all steps\n";
    yaml += "num_train_epochs: 3\nmixed_precision: bf16\nlogging_steps: 10\nsave_steps: 500\n";
    return yaml;
}

}  // namespace

int configure(const Invocation& invocation) {
    const std::string file = invocation.flags.empty() ? "run.yaml" : invocation.flags.front();
    if (file.starts_with("-"))
        return report_failure(
            {ExitCode::usage,
             format_text("trainer configure takes the name of the file to write, not {}", file)});
    if (std::ifstream(file).good())
        return report_failure(
            {ExitCode::settings,
             format_text("{} exists already: name another file, `trainer configure FILE`", file)});
    const auto answers = ask_all();
    if (!answers)
        return report_failure({ExitCode::usage, "the answers ended early; nothing was written"});
    std::ofstream out(file);
    out << settings_for(*answers);
    out.close();
    if (!out) return report_failure({ExitCode::io, format_text("{} cannot be written", file)});
    std::cout << "wrote " << file << "; look at it with: trainer config --config " << file << '\n';
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
