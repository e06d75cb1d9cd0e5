#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/base/faults.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/offload/host_offload_store.hpp"
#include "ringshard/optim/optimizer.hpp"

namespace ringshard::checkpoint {

class Store;
struct SaveJob;
struct SaveGroups;

// How checkpoints get onto the disk.
struct SaveOptions {
    bool one_file_per_node = false;    // and a master that shows whole tensors; else one file
    bool through_mpio = false;         // HDF5's own collective writes
    std::vector<std::string> hints{};  // key=value, for MPI-IO
    std::optional<int64_t> ranks_per_node{};  // unset: ranks that share memory are a node
};

// A file that holds weights once more, flat, for programs that read no HDF5.
struct ModelFile {
    std::string name;
    std::string head;                        // its first bytes
    std::map<std::string, int64_t> offsets;  // of the first byte of each dataset in the file
    ElementType type = ElementType::fp32;
};

// Files and a choice that rank 0 makes in the thread of a save, before it writes: training does not
// wait for them.
struct SaveNotes {
    std::map<std::string, std::string> files{};  // beside the state, content by name
    std::optional<int64_t> kept_step{};          // of a checkpoint that stays however old it is
};

// Neighbouring elements of a frozen tensor that this rank writes into a model's files.
struct FrozenPart {
    std::string tensor;
    int64_t first;
    int64_t count;
};
// Those that are this rank's alone.
std::vector<FrozenPart> frozen_parts(const shard::Zero& zero);

// The content of a checkpoint beside tensors and progress.
struct Extras {
    std::map<std::string, std::string> files;  // beside the state, content by name: config.json ...
    std::map<std::string, std::string> texts;  // in the state
    std::vector<ModelFile> model{};            // beside the state, made of the same numbers
    std::vector<FrozenPart> frozen{};          // of `model`
    shard::FrozenSource frozen_source{};       // of these; used in the thread of a save
    std::function<SaveNotes()> make_notes{};   // for rank 0; may outlive its maker
};

// The result of a save: the same on every rank, except for the warnings, which rank 0 has.
struct SaveOutcome {
    int64_t step = 0;
    std::optional<comm::AgreedFailure> failure{};
    std::vector<std::string> warnings{};
    double seconds = 0;  // until it was durable, or had failed
    int64_t bytes = 0;   // of tensors, over all ranks
};

// Writes checkpoints beside training. Nobody gathers: every rank writes its own ranges. What is
// asked for in start() is copied there and then; all else happens on a thread of each rank, and the
// threads agree with each other over groups of their own. One save at a time.
class Saver {
public:
    // Collective over the world.
    Saver(const Store& store, SaveOptions options, const comm::Group& world, Faults& faults);
    ~Saver();  // waits for a save under way
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    // Host memory that the copy needs beyond what this rank has set aside already.
    int64_t bytes_to_set_aside(const shard::Zero& zero, optim::Optimizer& optimizer,
                               Contents contents) const;
    int64_t bytes_set_aside() const;

    // `copies`: whether the state is copied, so that it may change as soon as this returns. Else it
    // is written here and now, in parts. A save under way must have been waited for. `limit`: as
    // Retention has it.
    void start(const Progress& progress, const shard::Zero& zero, optim::Optimizer& optimizer,
               Contents contents, const Extras& extras, std::optional<int64_t> limit, bool copies);

    bool is_under_way() const { return outcome_.valid(); }
    // This rank is through with it; others may not be.
    bool is_done() const;
    // Collective over the world, as all ranks' threads have to come to an end.
    SaveOutcome wait();

private:
    void make_room(int64_t bytes, at::Device of_state);
    void give_up_room();

    const Store& store_;
    SaveOptions options_;
    std::unique_ptr<SaveGroups> groups_;
    Faults& faults_;
    at::Tensor copy_;  // bytes; kept for the next save
    std::unique_ptr<offload::SideStream> pins_;
    std::future<SaveOutcome> outcome_;
};

}  // namespace ringshard::checkpoint
