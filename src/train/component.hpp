#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/saver.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/train/trainer.hpp"

namespace ringshard::train {

struct RunParts;
class Log;

// Something that a run does beside its steps. It knows of no other component, and the loop knows
// none by name. All functions are collective over the world.
class Component {
public:
    using Texts = std::map<std::string, std::string>;

    Component() = default;
    Component(const Component&) = delete;
    Component& operator=(const Component&) = delete;
    virtual ~Component() = default;

    // Before the first step of this attempt. `texts`: of the checkpoint from which it goes on.
    virtual std::optional<comm::AgreedFailure> begin(const Texts& /*texts*/) {
        return std::nullopt;
    }
    virtual void before_step(int64_t /*step*/) {}
    virtual std::optional<comm::AgreedFailure> after_step(int64_t /*step*/,
                                                          const StepNumbers& /*numbers*/) {
        return std::nullopt;
    }
    // After a pass that became no step, since its numbers are not finite: the run goes back, or
    // ends. `step`: that it would have been.
    virtual void after_lost_step(int64_t /*step*/, const StepNumbers& /*numbers*/) {}
    // Adds its state to a checkpoint.
    virtual void save(checkpoint::Contents /*contents*/, checkpoint::Extras& /*extras*/) const {}
};

// The components of a run, in the order in which they work. The arguments must outlive them.
std::vector<std::unique_ptr<Component>> make_components(const RunParts& parts, Log& log);

}  // namespace ringshard::train
