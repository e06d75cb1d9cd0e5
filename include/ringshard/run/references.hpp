#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringshard/comm/agree.hpp"
#include "ringshard/data/reference_rows.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "ringshard/mesh/mesh.hpp"
#include "ringshard/model/transformer.hpp"

// verify.json: what the model of an export or a checkpoint computes for a few short rows.
namespace ringshard::run {

// Returns the most likely tokens behind the places of every row, on rank 0; nothing if the model's
// numbers are not finite. `before`: called before each batch with its operations. Collective over
// the world.
comm::Agreed<std::optional<std::vector<data::LikelyOfPlaces>>> find_likely(
    const std::vector<data::ReferenceRow>& rows, const comm::Group& world, const mesh::Mesh& mesh,
    const model::Transformer& model, const std::function<void(double)>& before);

// Reads the references of a folder on rank 0, for all ranks. Collective over the world.
comm::Agreed<data::References> read_references(const std::filesystem::path& folder,
                                               const comm::Group& world);

// Makes the rows of an exported model, whose tokenizer is in `folder`. Collective over the world.
comm::Agreed<data::References> begin_references(const std::filesystem::path& folder,
                                                const model::ModelSpec& spec,
                                                const comm::Group& world);

// Removes those of an older model. On rank 0.
void remove_references(const std::filesystem::path& folder);

// Adds verify.json to the folder into which a model, or its adapter, was written in this form. A
// head of scores gives no log-probabilities of tokens, and gets none.
// `zero` holds its weights in fp32 on processors; they are rounded to the type that was written.
// merged: the adapters of the spec are added to the weights already. Collective over the world.
enum class Merged { no, yes };
std::optional<comm::AgreedFailure> write_references(const std::filesystem::path& folder,
                                                    const model::ModelSpec& spec, Merged merged,
                                                    const hub::ExportForm& form, shard::Zero& zero,
                                                    const mesh::Mesh& mesh,
                                                    const comm::Group& world);

// The same of a run, in the type and on the devices of its model.
class RunReferences {
public:
    // Makes the rows from the files beside the model, on rank 0, content by name; nothing, with a
    // warning, where no temporary files can be written. Collective over the world.
    static comm::Agreed<std::optional<RunReferences>> make(
        const std::map<std::string, std::string>& files, const model::ModelSpec& spec,
        const comm::Group& world);

    // Computes the rows with the weights as they are. Returns the text of verify.json, on rank 0;
    // an empty one if the numbers are not finite. `before`: as of find_likely(). Collective over
    // the world.
    comm::Agreed<std::string> compute(const model::Transformer& model, at::ScalarType type,
                                      const mesh::Mesh& mesh, const comm::Group& world,
                                      const std::function<void(double)>& before) const;

private:
    explicit RunReferences(data::References rows) : rows_(std::move(rows)) {}
    data::References rows_;  // without their numbers
};

}  // namespace ringshard::run
