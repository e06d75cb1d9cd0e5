#pragma once

#include <memory>

#include "ringshard/config/training_settings.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::config {
struct Config;
}

namespace ringshard::train {

// The parts with which a rank trains: its shards, the optimizer on them, and the schedule of a
// pass. Runs, plans, benchmarks and tests build it here.
struct TrainingStack {
    struct Options {
        mesh::Cuts cuts{};
        shard::Zero::Types types{at::kFloat, at::kFloat};
        config::TrainingSettings training{};  // of the optimizer
        shard::Zero::Offloading state{nullptr, nullptr};
        std::optional<model::DelayedScaling::Options> delayed_scaling{};
        model::Transformer::Options transformer{};
    };
    // `mesh` must outlive it. Collective over the world.
    TrainingStack(const Options& options, const model::ModelSpec& spec, const mesh::Mesh& mesh);

    // The parts that are no settings. They must outlive the stack.
    struct Surroundings {
        shard::Zero::Offloading state{nullptr, nullptr};
        offload::OffloadStore* activations = nullptr;
        const ops::Gemms* gemms = nullptr;
        double device_memory = 0;  // model::chunks_of()'s
        model::Recorder* recorder = nullptr;
        // The type of the device that meta tensors stand for.
        std::optional<c10::DeviceType> planned_device{};
        std::function<void(const std::string&)> on_phase{};
    };

    // The same, as the settings have it.
    TrainingStack(const config::Config& config, const model::ModelSpec& spec,
                  const mesh::Mesh& mesh, const Surroundings& surroundings);
    TrainingStack(const TrainingStack&) = delete;
    TrainingStack& operator=(const TrainingStack&) = delete;

    shard::Zero zero;
    std::unique_ptr<optim::Optimizer> optimizer;
    std::unique_ptr<model::DelayedScaling> delayed_scaling;  // null: not asked for
    model::Transformer transformer;
};

}  // namespace ringshard::train
