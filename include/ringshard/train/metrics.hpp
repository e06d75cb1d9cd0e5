#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/shard/zero.hpp"
#include "ringshard/train/numbers.hpp"

namespace ringshard::train {

// A line of metrics: names and numbers, in the order in which they are shown.
using MetricsValue = std::variant<int64_t, double>;
using MetricsLine = std::vector<std::pair<std::string, MetricsValue>>;

// Returns the value of that name as a number; NaN without one.
double number_in(const MetricsLine& line, std::string_view name);

// The steps since the last line, and their summary for the next one: loss, entropy and accuracy are
// means over the steps that were not skipped, norm and rate those of the last step.
class StepWindow {
public:
    struct Summary {
        StepNumbers numbers;  // tokens, operations, work, seconds and times of ranks are sums
        int64_t num_steps = 0;
        int64_t num_skipped = 0;
    };
    void add(const StepNumbers& step);
    bool is_empty() const { return sums_.num_steps == 0; }
    Summary take();

private:
    Summary sums_;  // of everything, and the last step's where a line reports it
};

// Warnings about skipped steps. Those without a target are rows of the data, which come again in
// every epoch: it warns of the first one alone.
class SkipWarnings {
public:
    // Returns the warning; empty if there is none.
    std::string warning_of(const StepNumbers& skipped);

private:
    bool has_warned_of_targets_ = false;
};

// Bytes of tensors by their use.
struct MemoryByKind {
    int64_t weights = 0;
    int64_t gathered = 0;  // weights of other ranks, for a moment
    int64_t gradients = 0;
    int64_t optimizer = 0;
    int64_t activations = 0;    // all else that was held at the peak
    int64_t communication = 0;  // copies of gradients, made to be sent or to arrive
    int64_t staging = 0;        // of transfers to and from files
    int64_t save_copy = 0;      // of the shards that a save writes
    // Beside the tensors: the most that the process held, resident or by the GPU's allocator; and
    // beside a GPU the bytes that its driver has given away, and those in the memory of the host:
    // offloaded tensors, and the copy of a save.
    int64_t process_peak = 0;
    int64_t driver = 0;
    int64_t host = 0;
};

// The kinds of tensors, by the names that metrics and plans give them.
struct MemoryKind {
    const char* name;
    int64_t MemoryByKind::*bytes;
    bool is_on_host = false;  // beside a GPU
};
inline constexpr std::array memory_kinds{MemoryKind{"weights", &MemoryByKind::weights},
                                         MemoryKind{"gathered", &MemoryByKind::gathered},
                                         MemoryKind{"gradients", &MemoryByKind::gradients},
                                         MemoryKind{"optimizer", &MemoryByKind::optimizer},
                                         MemoryKind{"activations", &MemoryByKind::activations},
                                         MemoryKind{"communication", &MemoryByKind::communication},
                                         MemoryKind{"staging", &MemoryByKind::staging, true},
                                         MemoryKind{"save_copy", &MemoryByKind::save_copy, true}};

// `peak`: of all tensors. Tensors of no other kind count as activations.
MemoryByKind memory_by_kind(const shard::Zero& zero, const optim::Optimizer& optimizer,
                            int64_t peak, int64_t staging, int64_t save_copy = 0);

// Returns a text with the memory of a rank without its activations, and the settings that reduce
// it, for a rank that runs out of memory.
std::string describe_held(const shard::Zero& zero, const optim::Optimizer& optimizer);

// The resources that all ranks used.
struct Usage {
    // The largest of each kind over the world, by one collective operation.
    void take_maxima(const MemoryByKind& mine, const comm::Group& world);

    int64_t num_ranks = 1;
    double peak_operations = 0;     // per second, of all ranks together
    int64_t peak_memory_bytes = 0;  // of the rank that held most
    int64_t peak_memory_rank = 0;
    MemoryByKind memory{};  // of each kind, of the rank that held most of it
};

MetricsLine step_line(const StepWindow::Summary& summary, const Usage& usage);
MetricsLine evaluation_line(int64_t step, double epoch, int64_t num_tokens,
                            const EvaluationNumbers& numbers);

// Returns true if a run of so many steps has written its last line, which no later attempt made
// void, and trainer_state.json after it.
bool has_results_of(const std::filesystem::path& output_dir, int64_t num_steps);

// metrics.jsonl, in output_dir or in a folder there: one object per line. A line carries its
// attempt; lines of steps that a later attempt repeated are void (checkpoint/attempts.hpp).
class MetricsFile {
public:
    MetricsFile(checkpoint::Claim claim, const std::filesystem::path& folder);

    // Takes out void lines, and a line that a crash cut short, and shows the others, with their
    // numbers alone. For the newest attempt, at its start. Readers of a file that was not cleaned
    // leave out what Attempts::is_void() says.
    std::optional<Failure> clean(const std::function<void(const MetricsLine&)>& show) const;
    // Puts back the lines up to a checkpoint that the file lacks and `state`, the checkpoint's
    // trainer_state.json, has, with the numbers that it has. Call it before clean(). Returns a
    // warning about them, or about a state that cannot be read; empty if nothing is lost.
    Expected<std::string> restore(const std::filesystem::path& state) const;
    // Fails if a newer attempt has begun. A line that the disk does not take is kept, and goes
    // there with the next one: then it says why, once.
    struct Appended {
        std::optional<Failure> failure;
        std::string warning;
    };
    Appended append(MetricsLine line, const std::vector<TextSample>& samples = {});
    // Fails if lines are still kept.
    std::optional<Failure> write_kept();
    std::filesystem::path folder() const { return file_.parent_path(); }

private:
    std::vector<std::string> kept_;  // lines that are not in the file yet
    std::filesystem::path file_;
    checkpoint::Claim claim_;
};

}  // namespace ringshard::train
