#include <algorithm>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/survey.hpp"
#include "ringshard/report/run_story.hpp"

namespace ringshard::report {

namespace {

namespace fs = std::filesystem;
using Condition = SavedState::Condition;

SavedState look_at(const fs::path& folder, int64_t step, const checkpoint::Attempts& attempts,
                   Verification verification) {
    SavedState state{.name = folder.filename(), .step = step};
    const auto info = checkpoint::read_info(folder);
    std::optional<Failure> damage;
    if (!info) {
        damage = info.failure();
    } else {
        state.attempt = info.value().attempt;
        for (const auto& [name, size] : info.value().file_sizes) state.bytes += size;
        if (!info.value().has_moments) state.remark = "weights alone: no run can go on from it";
    }
    if (!damage && verification == Verification::every_byte)
        if (const auto found = checkpoint::survey(folder); !found) damage = found.failure();
    if (damage) {
        state.condition = Condition::damaged;
        state.remark = damage->message;
    } else if (attempts.is_void(state.attempt, step)) {
        state.condition = Condition::superseded;
        state.remark = "a later attempt did not build on it";
    }
    return state;
}

}  // namespace

std::vector<SavedState> list_checkpoints(const fs::path& run, Verification verification) {
    const checkpoint::Attempts attempts(run);
    std::vector<SavedState> states;
    std::error_code ignored;
    for (const fs::path& entry : folder_entries(run, ignored))
        if (const auto step = number_in_name(entry.filename().string(), "checkpoint-"))
            states.push_back(look_at(entry, *step, attempts, verification));
    std::ranges::sort(states, std::greater<>(), &SavedState::step);
    return states;
}

}  // namespace ringshard::report
