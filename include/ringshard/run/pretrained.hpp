#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/checkpoint/checkpoint.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/peft/initial_adapter.hpp"
#include "ringshard/peft/named_adapters.hpp"

namespace ringshard::run {

// How an adapter begins: with the numbers of the adapter in `folder`, or if that is empty anew.
struct BegunAdapter {
    peft::AdapterStart start;
    std::filesystem::path folder;
};

// The model that a run begins with: a Hugging Face folder, or a checkpoint. Weights that were
// frozen when the checkpoint was made lie in the model that it names, which is another one of
// these.
class Pretrained {
public:
    // Weights to read: all, or those of spec.frozen; the file may hold others too.
    enum class Wanted { all, frozen };

    // Verifies that the folder holds the wanted tensors, in the shapes of the spec. `base`:
    // replaces the folder that a checkpoint names, if set. Collective over the group.
    static comm::Agreed<Pretrained> open(const std::filesystem::path& folder,
                                         const model::ModelSpec& spec, Wanted wanted,
                                         checkpoint::Verification verification,
                                         const comm::Group& group,
                                         const std::optional<std::filesystem::path>& base = {});

    // Fills the shards of this rank with the wanted tensors, and returns the frozen weights by
    // their hashes. Fails (65) if weights that a checkpoint names have changed since. Collective
    // over the group.
    comm::Agreed<checkpoint::FrozenWeights> load(const model::ModelSpec& spec, shard::Zero& zero,
                                                 const comm::Group& group) const;

    // Returns a reader of every wanted weight. This must outlive it.
    shard::ReadWeight reader(const model::ModelSpec& spec, ByteCounter& bytes) const;

    // The adapters of the spec, with their modules that are trained whole, begin so. Fails (65)
    // where an adapter in a folder is of another model. Collective over the group.
    std::optional<comm::AgreedFailure> begin_adapters(const model::ModelSpec& spec,
                                                      const std::vector<BegunAdapter>& beginnings,
                                                      const comm::Group& group);
    // The adapter is a part of the weights: load() takes it out of them. With `begins` the adapters
    // of the spec begin with its numbers.
    enum class Begins { no, yes };
    void take_out(const model::ModelSpec& spec, peft::InitialAdapter initial, Begins begins);
    // Returns that adapter, or nullptr.
    const peft::InitialAdapter* initial_adapter() const { return initial_ ? &*initial_ : nullptr; }
    // Returns true if this gives adapters their first values.
    bool begins_adapters() const { return adapters_.has_value(); }
    // Returns the spec without the layers of adapters that have the numbers of a file.
    model::ModelSpec with_begun_adapters(model::ModelSpec spec) const;
    // Returns true if the checkpoint holds adapters.
    bool holds_adapters() const;

    // Returns true if this type represents each of these weights exactly.
    bool fits_exactly(const std::set<std::string>& names, at::ScalarType type) const;

private:
    Pretrained() = default;
    // The files of the model, below all checkpoints; null: there are none.
    const hub::StoredModel* files() const;
    shard::ReadWeight reader_of_model(const model::ModelSpec& spec, ByteCounter& bytes) const;

    std::filesystem::path folder_;
    Wanted wanted_ = Wanted::all;
    std::optional<hub::StoredModel> stored_;  // or:
    std::optional<checkpoint::Checkpoint> checkpoint_;
    checkpoint::FrozenWeights elsewhere_;  // the weights that the checkpoint does not hold
    std::unique_ptr<Pretrained> base_;     // the folder that holds them
    struct Adapters {
        model::ModelSpec spec;
        std::vector<peft::AdapterOrigin> origins;
    };
    std::optional<Adapters> adapters_;
    std::optional<peft::InitialAdapter> initial_;
};

// The failure of a model whose frozen weights are not those that a checkpoint names: `tensor` is
// the first of them.
Failure other_base(const std::filesystem::path& checkpoint, const std::string& then,
                   const std::string& now, const std::string& tensor);

// Returns the failure of a checkpoint with adapters in place of a whole model.
Failure holds_an_adapter(const std::filesystem::path& checkpoint);

}  // namespace ringshard::run
