#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringshard/mesh/mesh_shape.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/train/metrics.hpp"

namespace ringshard::config {
struct Config;
}
namespace ringshard::ops {
class Gemms;
}

namespace ringshard::plan {

// The step to plan: model, settings, mesh and the length of rows.
struct Question {
    const config::Config& config;
    const model::ModelSpec& spec;
    mesh::MeshShape shape;
    int64_t row_length;  // tokens; every row is one document of it
    c10::DeviceType device = c10::DeviceType::CPU;
    // The plan of a micro-batch with more tokens follows from two steps with fewer rows, by a line
    // through both.
    int64_t most_tokens = int64_t{1} << 20;
    int64_t most_micro_batches = 4;  // plans of more follow in the same way
    double device_memory = 0;        // bytes, for model::chunks_of()
    int64_t documents = 1;  // in a row, equally long: for the time alone, memory is that of one
    // The libraries of matrix products on the host, whose workspace counts; null: those of a rule.
    const ops::Gemms* gemms = nullptr;

    // The same question about other settings, which must outlive it.
    Question with(const config::Config& other) const {
        return {
            other,         spec,      shape, row_length, device, most_tokens, most_micro_batches,
            device_memory, documents, gemms};
    }
};

// The bytes that this rank sends over a group in a step.
struct Traffic {
    std::string group;
    int64_t ranks;
    int64_t operations;
    int64_t bytes;
};

struct StepPlan {
    train::MemoryByKind memory;  // of the rank that holds most; at most, in a step
    int64_t peak = 0;            // of tensors on the device that computes
    // Bytes in the host's memory, which `peak` does not count where that is the device's.
    int64_t host_bytes() const { return memory.staging + memory.save_copy; }
    std::string peak_at;  // the moment of the step
    std::vector<Traffic> traffic;
    int64_t scratch_bytes = 0;          // of tensors that are kept in files
    int64_t offloaded_activations = 0;  // bytes of their store, which the above counts too
    int64_t moved_bytes = 0;            // written and read there in a step
    double update_products = 0;         // operations of the optimizer's products in a step
    int64_t saved_bytes = 0;            // that this rank writes of a checkpoint
    int64_t checkpoint_bytes = 0;       // of all ranks
    int64_t imaginary_tokens = 0;       // that the simulated steps had: the cost of this plan
};

// Takes the step with meta tensors (sizes without data), through the program's own schedule
// and accounting: it holds and sends the tensors of a run on the CPU, which runs the same code.
// Time and memory do not grow with rows beyond `most_tokens`, nor with micro-batches.
// `num_threads` is that of a rank. The process should do nothing else with tensors meanwhile.
StepPlan plan_step(const Question& question, int num_threads);

// Returns the model with plans of the worst case of its routers: one of equal parts of its experts,
// which ranks share or a rank gathers in slices, gets all rows, or as many as a token can choose
// there.
model::ModelSpec with_uneven_rows(model::ModelSpec spec, int64_t parts);

}  // namespace ringshard::plan
