#pragma once

#include "ringshard/base/environment.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/room.hpp"
#include "ringshard/plan/step_plan.hpp"
#include "ringshard/plan/step_time.hpp"
#include "ringshard/run/plan_args.hpp"

namespace ringshard::run {

// The memory and time of a step with some settings.
struct Answer {
    mesh::MeshShape shape;
    int64_t num_rows = 1;  // of a device, in a micro-batch
    int64_t row_length = 0;
    config::ActivationPolicies policies{};  // chosen, if activation_policy is auto
    plan::StepPlan plan{};
    int64_t held = 0;  // of the device's memory
    std::optional<plan::Shortage> shortage{};
    bool fits() const { return !shortage; }
    plan::StepTime seconds{};
    plan::SaveTime save{};
};

// Further flags of the command line, the reason for them, and the step with them.
struct Suggestion {
    std::string flags;
    std::string reason;
    Answer answer;
};

// Returns the mesh for the world of `args`, if it and the model can be sharded as the settings say.
Expected<mesh::MeshShape> choose_layout(const config::Settings& settings,
                                        const model::ModelSpec& spec, const PlanArgs& args);

// Returns why this model cannot have activation_policy; nothing if it can.
std::optional<Failure> check_policies(const config::Settings& settings,
                                      const model::ModelSpec& spec);

// Returns why the ranks of this mesh cannot share the experts of this model; nothing if they can.
std::optional<Failure> check_experts(const config::Settings& settings, const model::ModelSpec& spec,
                                     const mesh::MeshShape& shape);

// "activation_policy auto: 18 of 24 blocks keep all, 6 keep attention (all:18,attention)"
std::string describe_automatic(const config::ActivationPolicies& chosen,
                               const model::ModelSpec& spec);

// Answers for one model, device and world.
class Planner {
public:
    Planner(const model::ModelSpec& spec, const plan::Device& device, const PlanArgs& args,
            const Environment& environment, int64_t num_threads, int64_t passed_bytes = 0,
            const ops::Gemms* gemms = nullptr)
        : spec_(spec),
          device_(device),
          args_(args),
          environment_(environment),
          num_threads_(static_cast<int>(num_threads)),
          passed_bytes_(passed_bytes),
          gemms_(gemms) {}

    // Returns a planner of another model, which must outlive it.
    Planner of(const model::ModelSpec& spec) const {
        return {spec, device_, args_, environment_, num_threads_, passed_bytes_, gemms_};
    }
    Expected<Answer> answer(const config::Settings& settings) const;
    // On a mesh that is made already.
    Answer answer(const config::Settings& settings, const mesh::MeshShape& shape,
                  int64_t row_length) const;
    // With the longest rows that fit, and the resource that longer ones lack.
    struct Longest {
        Answer answer;
        std::optional<plan::Shortage> end;
    };
    Expected<Longest> longest(const config::Settings& settings) const;
    // Single changes with which settings that do not fit would fit. Rows are that long, or
    // max_length.
    std::vector<Suggestion> cures(const config::Settings& settings,
                                  std::optional<int64_t> row_length = {}) const;
    // Layouts that fit, the least costly first.
    std::vector<Suggestion> suggest(const config::Settings& settings) const;
    // All that fit, with these flags before the others.
    std::vector<Suggestion> try_layouts(const config::Settings& settings,
                                        const std::string& batch) const;

private:
    Expected<Answer> answer(const config::Settings& settings, int64_t row_length) const;
    void add_passed_bytes(const config::Config& config, const mesh::MeshShape& shape,
                          plan::StepPlan& plan) const;
    // Nothing where the words are refused, or it does not fit.
    std::optional<Suggestion> try_words(const std::string& words, const std::string& reason) const;

    const model::ModelSpec& spec_;
    const plan::Device& device_;
    const PlanArgs& args_;
    const Environment& environment_;
    int num_threads_;
    int64_t passed_bytes_;     // of a wrapped model's other tensors
    const ops::Gemms* gemms_;  // of plan::Question
};

}  // namespace ringshard::run
