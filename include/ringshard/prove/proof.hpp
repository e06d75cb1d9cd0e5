#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/prove/small_model.hpp"

// The proof that a mesh computes what one rank computes, on a small model.
namespace ringshard::prove {

enum class What { loss, gradients, norm, documents };

// One comparison of the run in the mesh with that on one rank.
struct Check {
    std::string precision;  // "fp32", or that of the job
    int64_t steps = 0;      // that the weights have taken
    What what = What::loss;
    // The largest relative difference. Of documents: numbers that move in all documents but the one
    // whose tokens change.
    double difference = 0;
    double limit = 0;
    int64_t compared = 0;   // numbers, of documents; tensors, of gradients
    std::string tensor{};   // of the gradients, the one with that difference
    std::string failure{};  // that ended one of the runs
    bool holds() const { return failure.empty() && difference <= limit; }  // a NaN does not
};

struct Proof {
    std::vector<Check> checks;  // on rank 0
    bool holds = false;         // on all ranks
    // Settings that change no number by their documentation, and that no check is about.
    std::vector<std::string> left_out;
    double seconds_alone = 0;  // of the runs on one rank
    double seconds_in_mesh = 0;
};

// A job: its settings, its model made small, and its mesh.
struct Job {
    const config::Config& config;
    const SmallModel& small;
    const comm::Group& world;
    const mesh::Mesh& mesh;
    Faults& faults;  // seeded ones, of the run in the mesh: prove:ring, prove:targets and others
    std::function<void()> made_progress;  // called as the work goes on
};

// Trains the small model for four steps of random rows, on rank 0 alone and in the mesh, in fp32
// and in the job's precision, and compares the loss, every gradient and what documents see of each
// other, before the first step and after three. Collective over the world.
Proof prove(const Job& job);

}  // namespace ringshard::prove
