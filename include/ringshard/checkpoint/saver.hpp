#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
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

// How a save writes files.
struct SaveOptions {
    bool one_file_per_node = false;    // and a master file of whole tensors; otherwise one file
    bool through_mpio = false;         // through HDF5's collective writes
    std::vector<std::string> hints{};  // key=value, for MPI-IO
    std::optional<int64_t> ranks_per_node{};  // unset: ranks that share memory are a node
};

// Bytes that this rank copies into one of the model's files from elsewhere.
struct CopiedBytes {
    using Read = std::function<std::optional<Failure>(int64_t first, std::span<std::byte> into)>;
    int64_t offset;  // in the file
    int64_t count;
    Read read;  // those from `first` on of the `count`; the thread of a save calls it
};

// Writes other elements in the place of these of a dataset, each stretch of them with `write`.
using WriteElements =
    std::function<std::optional<Failure>(int64_t first, std::span<const float> values)>;
using ChangeElements = std::function<std::optional<Failure>(
    const std::string& dataset, int64_t first, std::span<const float> values,
    const WriteElements& write)>;

// A file with another copy of the weights, flat, for programs that do not read HDF5.
struct ModelFile {
    std::string name;
    std::string head;                        // its first bytes: the header
    std::map<std::string, int64_t> offsets;  // of the first byte of each dataset in the file
    ElementType type = ElementType::fp32;
    std::vector<CopiedBytes> copied{};
    ChangeElements change{};  // of a file in fp32; unset: the file holds the elements of the state
};

// Files and a choice that rank 0 makes on the thread of a save before writing, so that training
// does not wait.
struct SaveNotes {
    using Write = std::function<std::optional<Failure>(const std::filesystem::path& file)>;
    std::map<std::string, Write> files{};  // besides the state, what writes them by their names
    std::set<int64_t> kept_steps{};        // of checkpoints that stay however old they are
};

// Contiguous elements of a frozen tensor that this rank writes into the model's files.
struct FrozenPart {
    std::string tensor;
    int64_t first;
    int64_t count;
    bool is_wide = false;  // written in fp32, whatever the type of the model
};
// Returns the parts that this rank alone writes.
std::vector<FrozenPart> frozen_parts(const shard::Zero& zero);

// Content of a checkpoint besides tensors and progress.
struct Extras {
    std::map<std::string, std::string> files;  // besides the state, content by name: config.json
    std::map<std::string, std::string> texts;  // inside the state file
    std::vector<ModelFile> model{};            // besides the state, copies of its weights
    std::vector<FrozenPart> frozen{};          // of `model`
    shard::FrozenSource frozen_source{};       // of these; the thread of a save calls it
    std::function<SaveNotes()> make_notes{};   // rank 0 calls it; may outlive its maker
};

// The result of a save: the same on every rank, except for the warnings, which are on rank 0.
struct SaveOutcome {
    int64_t step = 0;
    std::optional<comm::AgreedFailure> failure{};
    std::vector<std::string> warnings{};
    double seconds = 0;  // until the checkpoint was durable, or the save had failed
    int64_t bytes = 0;   // of tensors, over all ranks
};

// Writes checkpoints while training continues. Every rank writes its own ranges, without a gather.
// start() copies the state before it returns; a thread on each rank does the rest, and the threads
// agree over groups of their own. One save at a time.
class Saver {
public:
    // Collective over the world.
    Saver(const Store& store, SaveOptions options, const comm::Group& world, Faults& faults);
    ~Saver();  // waits for a save in progress
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    // Returns the host memory that the copy needs beyond the memory that this rank holds already.
    int64_t bytes_to_set_aside(const shard::Zero& zero, optim::Optimizer& optimizer,
                               Contents contents) const;
    int64_t bytes_set_aside() const;

    // `copies`: copy the state, so that it may change as soon as this returns; otherwise write it
    // before returning, in parts. Call wait() for an earlier save first. `limit`: as in Retention.
    void start(const Progress& progress, const shard::Zero& zero, optim::Optimizer& optimizer,
               Contents contents, const Extras& extras, std::optional<int64_t> limit, bool copies);

    bool is_under_way() const { return outcome_.valid(); }
    // Returns true if this rank has finished the save; other ranks may not have.
    bool is_done() const;
    // Collective over the world, since the threads of all ranks must finish.
    SaveOutcome wait();

private:
    void make_room(int64_t bytes, at::Device of_state);
    void give_up_room();

    const Store& store_;
    SaveOptions options_;
    std::unique_ptr<SaveGroups> groups_;
    Faults& faults_;
    at::Tensor copy_;  // bytes, kept for the next save
    std::unique_ptr<offload::SideStream> pins_;
    std::future<SaveOutcome> outcome_;
};

}  // namespace ringshard::checkpoint
