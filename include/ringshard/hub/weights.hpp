#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ringshard/base/byte_counter.hpp"
#include "ringshard/base/exit_code.hpp"
#include "ringshard/comm/group.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "ringshard/model/model_spec.hpp"
#include "ringshard/shard/tensor_sums.hpp"
#include "ringshard/shard/zero.hpp"

namespace ringshard::hub {

// Fails unless the file holds every weight of the units, in its shape, and no other. Checks names
// and shapes only. If the head is tied, the file may hold lm_head.weight: it is read if the file
// lacks the embedding. The embedding and the head have spec.stored_vocabulary rows in the file.
std::optional<Failure> check_weights(const StoredModel& stored, const model::ModelSpec& spec,
                                     const std::vector<shard::FlatUnit>& units);

// Checks some units of the model; the file may hold anything for the others.
std::optional<Failure> check_weights_of(const StoredModel& stored, const model::ModelSpec& spec,
                                        const std::vector<shard::FlatUnit>& units);

// Returns a reader of the weights of files that check_weights_of() has found good. The arguments
// must outlive it.
shard::ReadWeight reader_of(const StoredModel& stored, const model::ModelSpec& spec,
                            ByteCounter& bytes);

// Changes elements of a weight from `first` on.
using ChangeWeight = std::function<std::optional<Failure>(const std::string& tensor, int64_t first,
                                                          std::span<float> elements)>;

// Fills these shards of this rank, each number rounded to their type, and adds the elements that
// are this rank's alone to `sums`, before they are changed and rounded. Rows beyond
// spec.stored_vocabulary stay as they are. Not collective: ranks may fail by themselves, and agree
// afterwards.
std::optional<Failure> load_weights(const shard::ReadWeight& read, const model::ModelSpec& spec,
                                    const shard::Zero& zero,
                                    const std::vector<shard::Zero::Weights>& into,
                                    shard::TensorSums& sums, const ChangeWeight& change = {});

// The scales of the groups of weights that begin in this rank's shards, fp32 on the host, and
// nested scales that files hold of matrices, if the shards have a part of these: by unit.
struct CodeScales {
    std::map<size_t, at::Tensor> begun{};
    std::map<size_t, shard::CodeLayout::NestedByMatrix> stored{};
};

// Files that hold codes, which a run in four bits keeps where they are NF4.
struct CodedFiles {
    const StoredModel* files = nullptr;  // null: none
    ByteCounter* bytes = nullptr;
};

// Quantises the weights of the units of codes, those of this rank's shards, a part at a time, and
// adds the elements that are this rank's alone to `sums`, before they are quantised. Not
// collective.
std::optional<Failure> load_coded_weights(const shard::ReadWeight& read, const shard::Zero& zero,
                                          CodeScales& scales, shard::TensorSums& sums,
                                          const CodedFiles& coded = {});
// Writes the scales that all ranks have made into the shards. Collective over the zero group.
void write_scales(const CodeScales& scales, const shard::Zero& zero);

// Copies the weights of the file into this rank's shards, touching no more of it than they need.
// Rows that the file does not have stay as they are. No unit holds codes. Counts the bytes
// that it has read. Not collective: ranks may fail by themselves, and agree afterwards.
std::optional<Failure> load_weights(const StoredModel& stored, const model::ModelSpec& spec,
                                    shard::Zero& zero, ByteCounter& bytes);

// Sets the rows of the embedding and of the head that the files do not have to the mean of those
// that they have: the same bits in every layout. Collective over the world.
void set_added_rows(const model::ModelSpec& spec, shard::Zero& zero, const comm::Group& world);

}  // namespace ringshard::hub
