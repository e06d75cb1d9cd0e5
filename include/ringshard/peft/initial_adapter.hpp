#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "ringshard/comm/agree.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/peft/adapters.hpp"

namespace ringshard::peft {

// The folder beside checkpoints, and the text of a checkpoint's state that holds the hash.
inline constexpr const char* initial_adapter_name = "initial_adapter";

// The adapter A0, B0 that a run with PiSSA or OLoRA begins with: factors of each weight W. The
// frozen weight is W - scaling x B0 A0. The file of PEFT's form is written once, and each rank
// reads what its shards need of it.
class InitialAdapter {
public:
    // Opens the folder, and hashes it, each rank a share. Fails (65, 66) where it does not hold the
    // adapter of this model. Collective over the group.
    static comm::Agreed<InitialAdapter> open(const std::filesystem::path& folder,
                                             const model::ModelSpec& spec,
                                             const comm::Group& group);

    // Hashes all elements; does not depend on the number of ranks.
    const std::string& hash() const { return hash_; }
    const hub::StoredModel& stored() const { return stored_; }

    // Subtracts scaling x B0 A0 from elements of a weight, from `first` on, if it has an adapter.
    // An element is the same however a weight is cut.
    std::optional<Failure> subtract(const std::string& weight, int64_t first,
                                    std::span<float> from) const;

    // An adapter of twice the rank has the same product beside W: A and A0 below one another, B and
    // -B0 side by side.
    static std::vector<int64_t> widened_shape(const std::string& tensor,
                                              std::vector<int64_t> shape);
    // Writes the elements of that adapter which belong to these elements of A or B.
    std::optional<Failure> write_widened(const std::string& tensor, int64_t first,
                                         std::span<const float> values,
                                         const hub::WriteElements& write) const;

private:
    struct Factors {
        hub::StoredTensor a;
        hub::StoredTensor b;
        double scaling;
    };
    std::optional<Failure> write_beside(const hub::StoredTensor& of_a, int64_t first,
                                        std::span<const float> values,
                                        const hub::WriteElements& write) const;

    hub::StoredModel stored_;
    std::map<std::string, Factors> factors_;  // by weight
    std::string hash_;
};

// Decomposes each weight that has an adapter, on one of the ranks, and writes the folder. `read`:
// of the weights of the model. `base`: its name. Collective over the group.
std::optional<comm::AgreedFailure> write_initial_adapter(const std::filesystem::path& folder,
                                                         const shard::ReadWeight& read,
                                                         const model::ModelSpec& spec,
                                                         const LoraConfig& config, uint64_t seed,
                                                         const std::string& base,
                                                         const comm::Group& group);

}  // namespace ringshard::peft
