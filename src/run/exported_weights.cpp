#include "ringshard/run/exported_weights.hpp"

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/model/quantize.hpp"
#include "ringshard/peft/merge_adapters.hpp"
#include "ringshard/run/loss_fingerprint.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;
using MaybeFailure = std::optional<comm::AgreedFailure>;

comm::Agreed<std::optional<fs::path>> named_model(const CommandContext& context) {
    const config::ModelSettings& model = context.settings.values.model;
    if (model.model_name_or_path.empty()) return std::optional<fs::path>();
    const HubCache hub(context.environment);
    const auto found = comm::of_root(context.world, [&]() -> Expected<std::string> {
        const auto folder =
            hub.model_folder(model.model_name_or_path, model.model_revision, "model_name_or_path");
        if (!folder) return folder.failure();
        return folder.value().string();
    });
    if (!found) return found.failure();
    return std::optional<fs::path>(found.value());
}

comm::Agreed<Pretrained> open_weights(const CommandContext& context,
                                      const ExportedCheckpoint& exported) {
    const checkpoint::Checkpoint& checkpoint = exported.checkpoint;
    std::optional<fs::path> base;
    if (checkpoint.state.texts.contains(checkpoint::frozen_text)) {
        const auto named = named_model(context);
        if (!named) return named.failure();
        base = named.value();
    }
    return Pretrained::open(checkpoint.folder, exported.spec, Pretrained::Wanted::all,
                            checkpoint::Verification::sizes, context.world, base);
}

namespace {

// The form in which a run held its frozen matrices.
shard::Codec frozen_form_of(const checkpoint::Checkpoint& checkpoint) {
    if (setting_then(checkpoint, "load_in_8bit") == "true") return shard::Codec::int8;
    if (setting_then(checkpoint, "load_in_4bit") != "true") return shard::Codec::compute;
    const bool is_nested = setting_then(checkpoint, "use_bnb_nested_quant") == "true";
    return is_nested ? shard::Codec::nested_nf4 : shard::Codec::nf4;
}

// Adapters that were trained beside quantised weights belong to these, and not to those that
// were quantised. Collective over the world.
std::optional<comm::AgreedFailure> replace_quantized(const checkpoint::Checkpoint& checkpoint,
                                                     const Pretrained& weights,
                                                     model::ModelSpec spec, const mesh::Mesh& mesh,
                                                     const shard::Zero& zero,
                                                     const comm::Group& world) {
    const shard::Codec form = frozen_form_of(checkpoint);
    if (form == shard::Codec::compute) return std::nullopt;
    if (const auto failure = model::quantize_frozen(spec, form))
        return comm::found_by_all(*failure);
    shard::Zero quantized(model::make_units(spec, mesh.shape().zero()), shards_everything,
                          {at::kFloat, at::kFloat}, mesh);
    if (const auto loaded = weights.load(spec, quantized, world); !loaded) return loaded.failure();
    model::copy_dequantized(quantized, zero);
    return std::nullopt;
}

}  // namespace

MaybeFailure load_exported(const ExportedCheckpoint& exported, Pretrained& weights,
                           const mesh::Mesh& mesh, shard::Zero& zero, const comm::Group& world) {
    if (!exported.adapters.empty() && exported.adapters.front().config.init.takes_from_weights())
        if (const auto failure =
                take_out_initial_adapter(exported.checkpoint, exported.spec, weights, world))
            return failure;
    if (const auto loaded = weights.load(exported.spec, zero, world); !loaded)
        return loaded.failure();
    if (!exported.merges) return std::nullopt;
    if (const auto failure =
            replace_quantized(exported.checkpoint, weights, exported.spec, mesh, zero, world))
        return failure;
    zero.refresh_compute_weights();
    peft::merge_adapters(exported.spec, zero);
    return std::nullopt;
}

}  // namespace ringshard::run
