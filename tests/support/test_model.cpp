#include "test_model.hpp"

#include <ATen/ATen.h>

#include <cstdlib>
#include <numeric>

#include "ringshard/base/files.hpp"
#include "ringshard/data/plan_rows.hpp"
#include "ringshard/model/freeze.hpp"
#include "ringshard/model/quantize.hpp"
#include "ringshard/model/weights.hpp"
#include "ringshard/model/wrapped_files.hpp"

namespace ringshard::test {

data::Rows one_row_each(data::SampleList samples) {
    data::TokenStore store(std::move(samples));
    std::vector<int64_t> numbers(static_cast<size_t>(store.size()));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    data::RowReport report;
    data::RowPlan plan = data::plan_rows(store, numbers, {}, report);
    return {std::move(store), std::move(plan)};
}

at::Device device() {
    const char* const wish = std::getenv("RINGSHARD_TEST_DEVICE");
    return wish == nullptr ? at::Device(at::kCPU) : at::Device(wish);
}

comm::CommunicatorOptions communicator_options(const comm::Group& group) {
    // All ranks of a test are on one GPU.
    return {.test_delay = {}, .by_way_of_host = device().is_cuda() && group.size() > 1};
}

namespace {

model::ModelSpec spec_of(const std::filesystem::path& folder, const TestModel::Options& options) {
    model::ModelSpec spec = model::read_model_spec(folder / "config.json").value();
    spec.frozen = model::find_frozen(spec, options.freeze, {}).value();
    auto adapters = options.adapters;
    if (!options.adapter.empty()) {
        const auto file = options.adapter / model::adapter_config_name;
        adapters = model::parse_adapter_config(*read_file(file), file.string()).value();
    }
    if (adapters)
        if (const auto failure = model::add_adapters(spec, *adapters)) throw Error(*failure);
    if (options.frozen_form != shard::Codec::compute)
        if (const auto failure = model::quantize_frozen(spec, options.frozen_form))
            throw Error(*failure);
    return spec;
}

}  // namespace

TestModel::TestModel(const comm::Group& group, const std::filesystem::path& folder,
                     const Options& options)
    : mesh(options.make_communicator
               ? mesh::Mesh(options.shape, group.rank(), device(), options.make_communicator)
               : mesh::Mesh(group, options.shape, device(), communicator_options(group))),
      spec(spec_of(folder, options)),
      stack({.cuts = options.cuts,
             .types = {options.compute, at::kFloat},
             .delayed_scaling = options.delayed_scaling,
             .transformer = {.policies = options.policies,
                             .residual = options.residual,
                             .context_parallel = options.context_parallel,
                             .fp8 = options.fp8,
                             .gemms = options.gemms,
                             .recorder = options.recorder,
                             .chunks = options.chunks}},
            spec, mesh),
      sequence_(
          comm::make_communicator(group.split(group.rank() / options.shape.sequence(), "sequence"),
                                  device(), communicator_options(group))) {
    auto stored = model::StoredModel::open(folder);
    if (const auto failure = model::find_weights(stored.value(), spec)) throw Error(*failure);
    ByteCounter& bytes = group.flight_recorder().bytes();
    std::optional<model::StoredModel> adapter;
    if (!options.adapter.empty())
        adapter =
            model::StoredModel::open_file(options.adapter / model::adapter_weights_name, group)
                .value();
    const model::AdapterStart start{
        1, options.adapters ? options.adapters->init : config::AdapterInit()};
    const auto read = model::with_adapters(model::reader_of(stored.value(), spec, bytes), spec,
                                           start, adapter ? &*adapter : nullptr);
    shard::TensorSums none({});
    if (const auto failure = model::load_weights(read, spec, zero, zero.all_weights(), none))
        throw Error(*failure);
    model::Nf4Scales scales;
    if (const auto failure = model::load_nf4_weights(read, zero, scales, none))
        throw Error(*failure);
    model::write_nf4_scales(scales, zero);
    zero.refresh_compute_weights();
    if (!adapter) model::set_magnitudes(spec, zero);
    zero.refresh_compute_weights();
    zero.clear_gradients();
}

std::map<std::string, at::Tensor> TestModel::put_together(bool gradients) {
    std::map<std::string, at::Tensor> tensors;
    for (size_t unit = 0; unit < zero.num_units(); ++unit) {
        const shard::FlatUnit& layout = zero.units()[unit];
        at::Tensor flat = at::empty({layout.size()}, at::TensorOptions(device()));
        if (gradients && !zero.is_trained(unit)) continue;
        const auto [chunks, weights] = zero.weights_at_rest_of(unit);
        put_shards(flat, chunks.shard(unit),
                   (gradients ? *zero.shelf_of(unit).gradients : weights).load_shard(unit));
        for (const shard::PlacedTensor& tensor : layout.tensors())
            if (!tensor.begins_before)
                tensors[tensor.spec.name] =
                    at::empty(tensor.spec.shape, at::TensorOptions(at::kFloat));
        for (const shard::TensorPiece& piece : layout.pieces({0, layout.size()}))
            tensors[piece.tensor->spec.name]
                .flatten()
                .narrow(0, piece.first, piece.size)
                .copy_(flat.narrow(0, piece.in_range, piece.size));
    }
    return tensors;
}

// Every rank of the zero group says where its shard lies.
void TestModel::put_shards(const at::Tensor& flat, const shard::Range& range,
                           const at::Tensor& shard) {
    const int64_t ranks = mesh.zero().size();
    const at::Tensor begins = at::empty({ranks}, at::TensorOptions(device()).dtype(at::kLong));
    const at::Tensor shards = at::empty({ranks, range.size()}, flat.options());
    mesh.zero().all_gather(begins, at::full({1}, range.begin, begins.options())).wait();
    mesh.zero().all_gather(shards, shard.to(at::kFloat).contiguous()).wait();
    for (int64_t rank = 0; rank < ranks; ++rank)
        flat.narrow(0, begins[rank].item<int64_t>(), range.size()).copy_(shards[rank]);
}

std::map<std::string, at::Tensor> TestModel::gradients() { return put_together(true); }
std::map<std::string, at::Tensor> TestModel::weights() { return put_together(false); }

at::Tensor TestModel::logits(const data::FlatBatch& batch) {
    const at::Tensor mine = transformer.logits(cut(batch)).to(at::kFloat).contiguous();
    at::Tensor gathered =
        at::empty({sequence_->size() * mine.size(0), mine.size(1)}, mine.options());
    sequence_->all_gather(gathered, mine).wait();
    at::Tensor all = at::empty_like(gathered);
    const attention::SequencePartition partition = train::partition_of(batch, mesh.shape());
    int64_t row = 0;
    for (int64_t ring = 0; ring < mesh.shape().ring; ++ring) {
        for (int64_t ulysses = 0; ulysses < mesh.shape().ulysses; ++ulysses) {
            for (const attention::Run& run : partition.of_rank(ring, ulysses)) {
                all.narrow(0, run.start, run.length).copy_(gathered.narrow(0, row, run.length));
                row += run.length;
            }
        }
    }
    return all.narrow(0, 0, static_cast<int64_t>(batch.tokens.size())).cpu();
}

}  // namespace ringshard::test
