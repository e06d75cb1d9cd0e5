#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "probe_rows.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/data/rows.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/peft/named_adapters.hpp"
#include "ringshard/train/training_stack.hpp"
#include "shard_batch.hpp"

namespace ringshard::test {

// Where models are tried: RINGSHARD_TEST_DEVICE, "cuda:0" for example, else the CPU.
at::Device device();
comm::CommunicatorOptions communicator_options(const comm::Group& group);

using prove::one_row_each;

// A model of a Hugging Face folder on a mesh, with everything it stands on.
class TestModel {
public:
    struct Options {
        mesh::MeshShape shape = {};
        mesh::Cuts cuts = {};
        at::ScalarType compute = at::kFloat;
        config::ActivationPolicies policies = {};
        std::optional<at::ScalarType> residual = {};
        const ops::Gemms* gemms = nullptr;  // null: by rule
        attention::ContextParallelOptions context_parallel = {};
        model::Recorder* recorder = nullptr;
        std::string freeze = {};  // as the setting
        std::optional<peft::LoraConfig> adapters = {};
        std::filesystem::path adapter = {};  // the folder of a PEFT adapter
        shard::Codec frozen_form = shard::Codec::compute;
        std::optional<model::Chunks> chunks = {};
        std::optional<model::Fp8Options> fp8 = {};
        std::optional<model::DelayedScaling::Options> delayed_scaling = {};
        mesh::Mesh::MakeCommunicator make_communicator = {};  // empty: those of a run
    };
    // Collective over the group.
    TestModel(const comm::Group& group, const std::filesystem::path& folder,
              const Options& options);

    // Whole tensors by their names, put together from all ranks. Collective over the world.
    std::map<std::string, at::Tensor> gradients();
    std::map<std::string, at::Tensor> weights();

    model::TokenBatch cut(const data::FlatBatch& batch) const {
        return train::shard_batch(batch, mesh, transformer.masks());
    }
    // Logits of all tokens of the batch, in order. Collective over the world.
    at::Tensor logits(const data::FlatBatch& batch);

    mesh::Mesh mesh;
    model::ModelSpec spec;
    train::TrainingStack stack;
    shard::Zero& zero = stack.zero;
    model::Transformer& transformer = stack.transformer;

private:
    std::unique_ptr<comm::Communicator> sequence_;  // ranks that share a batch
};

}  // namespace ringshard::test
