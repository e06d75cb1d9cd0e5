#include "ringshard/run/run_inputs.hpp"

#include <iostream>

#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/checkpoint/attempts.hpp"
#include "ringshard/checkpoint/manifest.hpp"
#include "ringshard/hub/tied_head.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/model/config_fields.hpp"
#include "ringshard/run/checkpoint_as_model.hpp"
#include "ringshard/run/plan_answers.hpp"
#include "ringshard/run/settle_head.hpp"
#include "ringshard/run/vocabulary.hpp"
#include "share_prompts.hpp"

namespace ringshard::run {

namespace {

// Routers learn with the loss that balances experts if the setting, or else config.json, has a
// share of it, as in TRL, whatever output_router_logits says.
std::optional<Failure> settle_routers(const config::Settings& settings, model::ModelSpec& spec) {
    const double share =
        settings.values.model.router_aux_loss_coef.value_or(spec.router_aux_loss_coef);
    if (share != 0 && spec.router_loss_left_out > 0)
        return Failure{
            ExitCode::settings,
            format_text("router_aux_loss_coef = {} [{}]: the routers of {} choose experts by "
                        "corrections, and the loss that balances them is not served; set it to 0",
                        share, settings.origin_of("router_aux_loss_coef").place,
                        spec.architecture)};
    if (share != 0 && !spec.has_router_aux_loss)
        return Failure{
            ExitCode::settings,
            format_text("router_aux_loss_coef = {} [{}]: {}{}; leave the setting out", share,
                        settings.origin_of("router_aux_loss_coef").place, spec.architecture,
                        spec.num_experts() == 0
                            ? " has no experts, so that there is no loss that balances them"
                            : " has no such loss in transformers: corrections of its routers "
                              "balance the experts")};
    if (spec.num_experts() == 0) return std::nullopt;
    if (spec.has_router_aux_loss) spec.set_router_aux_loss(share);
    return std::nullopt;
}

std::optional<Failure> check_recording(const config::Settings& settings,
                                       const model::ModelSpec& spec) {
    if (!settings.values.training.cuda_graphs) return std::nullopt;
    const auto refuse = [&](const char* why) {
        return Failure{
            ExitCode::settings,
            format_text("cuda_graphs = true [{}]: {} {}; leave the setting out",
                        settings.origin_of("cuda_graphs").place, spec.architecture, why)};
    };
    if (spec.num_experts() > 0)
        return refuse(
            "has experts, and the host reads in every block how many tokens each of them "
            "has");
    if (spec.blocks_share_rows())
        return refuse("has blocks that read rows of other parts, which are new in every batch");
    return std::nullopt;
}

Expected<model::ModelSpec> parse_spec(const std::filesystem::path& config_json,
                                      const std::string& text, int64_t padding,
                                      const mesh::MeshShape& shape,
                                      const config::Settings& settings) {
    const auto config =
        model::override_config(config_json, text, settings.values.model.overrides());
    if (!config) return config.failure();
    auto spec = model::parse_model_spec(config_json, config.value());
    if (!spec) return spec;
    if (const auto failure = settle_head(settings, padding, spec.value())) return *failure;
    if (const auto failure = settle_routers(settings, spec.value())) return *failure;
    if (const auto failure = check_recording(settings, spec.value())) return *failure;
    if (const auto failure = check_policies(settings, spec.value())) return *failure;
    if (const auto failure = check_experts(settings, spec.value(), shape)) return *failure;
    const std::string why_not = spec.value().why_heads_do_not_split(shape.ulysses);
    if (why_not.empty()) return spec;
    std::vector<std::string> sizes;
    for (const int64_t size : spec.value().ulysses_sizes()) sizes.push_back(concat(size));
    return Failure{
        ExitCode::settings,
        format_text(
            "sp_size = {} [{}]: {}; sizes that work with this model: {}; use cp_size for the rest",
            shape.ulysses, settings.origin_of("sp_size").place, why_not, join(sizes, ", "))};
}

// Returns true if the checkpoint from which the run resumes has a head of its own: the checkpoint
// that the settings name, or the newest in output_dir. On rank 0.
bool is_untied_in_checkpoint(const config::Config& config, const std::filesystem::path& model) {
    if (checkpoint::is_checkpoint(model)) return false;  // its config.json says so itself
    std::filesystem::path folder = config.checkpoint.resume_from_checkpoint;
    if (!checkpoint::is_checkpoint(folder)) {
        std::vector<std::string> ignored;  // find_origin() reports them
        const auto valid = checkpoint::valid_checkpoints(config.run.output_dir, ignored);
        if (!valid || valid.value().empty()) return false;
        folder = valid.value().front().folder;
    }
    const auto spec = model::read_model_spec(folder / "config.json");
    return spec && !spec.value().tied;
}

// Returns true if the head is the embedding, as config.json says. transformers ties them only where
// they are equal, if the files hold both: each rank compares its share. Without the files the run
// goes on from a checkpoint, which decides. Collective over the world.
comm::Agreed<bool> is_head_tied(const comm::Group& world, const std::filesystem::path& folder,
                                const model::ModelSpec& spec, const config::Config& config) {
    auto stored = hub::StoredModel::open(folder, world);
    if (!stored)
        return world.maximum(world.is_root() && is_untied_in_checkpoint(config, folder) ? 1 : 0) ==
               0;
    if (const auto failure = hub::find_weights(stored.value(), spec))
        return comm::found_by_all(*failure);
    if (!hub::holds_head_and_embedding(stored.value(), spec.names)) return true;
    const auto share_is_equal = comm::agreed(
        world, hub::is_head_the_embedding(stored.value(), spec.names, world.rank(), world.size()));
    if (!share_is_equal) return share_is_equal.failure();
    return world.all(share_is_equal.value());
}

using MaybeFailure = std::optional<comm::AgreedFailure>;

MaybeFailure untie_if_stored_apart(const CommandContext& context,
                                   const std::filesystem::path& folder, model::ModelSpec& spec) {
    const comm::Group& world = context.world;
    if (!spec.tied) return std::nullopt;
    const auto is_tied = is_head_tied(world, folder, spec, context.settings.values);
    if (!is_tied) return is_tied.failure();
    if (is_tied.value()) return std::nullopt;
    spec.untie();
    if (world.is_root())
        std::cerr << "warning: " << (folder / "config.json").string()
                  << ": tie_word_embeddings = true, but " << spec.names.head << ".weight and "
                  << spec.names.embedding
                  << ".weight differ; they are trained as two weights, as in "
                     "transformers, and the result says tie_word_embeddings = false\n";
    return std::nullopt;
}

// One rank reads the tokenizers.
MaybeFailure make_room_for_tokens(const CommandContext& context, const HubCache& hub,
                                  model::ModelSpec& spec) {
    const comm::Group& world = context.world;
    std::optional<Failure> failure;
    model::ModelSpec resized = spec;
    std::vector<std::string> notes;
    if (world.is_root()) failure = resize_vocabulary(context.settings.values, hub, resized, notes);
    if (const auto agreed = comm::first_failure(world, failure)) return agreed;
    for (const std::string& note : notes) std::cerr << "note: " << note << '\n';
    const int64_t rows = world.maximum(world.is_root() ? resized.vocabulary : 0);
    if (rows == spec.vocabulary) return std::nullopt;
    if (world.is_root())
        std::cerr << "the vocabulary has " << rows << " rows in place of " << spec.vocabulary
                  << (rows > spec.vocabulary ? "; the new ones begin as the mean of the others\n"
                                             : ", one for each token, as in TRL\n");
    spec.resize(rows);
    return std::nullopt;
}

void tell_left_out_loss(const config::Settings& settings, const model::ModelSpec& spec) {
    if (spec.router_loss_left_out > 0 && !settings.values.model.router_aux_loss_coef)
        std::cerr << format_text(
            "note: router_aux_loss_coef = {} of config.json: TRL adds this share of the loss that "
            "balances experts, which is left out here, since corrections of the routers balance "
            "them\n",
            spec.router_loss_left_out);
}

void tell_unknown_fields(const std::filesystem::path& config_json) {
    const std::string warning = model::warn_of_unknown_fields(config_json);
    if (!warning.empty()) std::cerr << "warning: " << warning << '\n';
}

void tell_quantised_experts(const model::ModelSpec& spec,
                            const config::QuantizationSettings& quantization) {
    if (quantization.is_on() && spec.num_experts() > 0)
        std::cerr << "note: " << quantization.setting() << ": the experts are in "
                  << (quantization.load_in_8bit ? "eight" : "four")
                  << " bits, too; beside it TRL and axolotl on transformers 5 leave them in bf16\n";
}

void tell_quantised_again(const model::ModelSpec& spec,
                          const config::QuantizationSettings& quantization) {
    const bool keeps_some = quantization.load_in_4bit && spec.stored_form.bits == 4 &&
                            spec.stored_form.method == "bitsandbytes";
    if (quantization.is_on() && spec.stored_form.is_quantised())
        std::cerr << "note: " << quantization.setting() << ": the model's files hold codes of "
                  << spec.stored_form.method
                  << (keeps_some ? "; those in nf4 are kept, others are read" : "; they are read")
                  << " as numbers, which are quantised to "
                  << (quantization.load_in_8bit ? "int8" : "nf4") << '\n';
}

comm::Agreed<model::ModelSpec> find_spec(const CommandContext& context, const Placement& placement,
                                         const HubCache& hub, const std::filesystem::path& folder,
                                         AskedAdapters& adapters) {
    const auto config_json = folder / "config.json";
    const auto text =
        comm::of_root(context.world, [&] { return model::read_config_json(config_json); });
    if (!text) return text.failure();
    const config::Settings& settings = context.settings;
    const auto padding = comm::of_root(context.world, [&]() -> Expected<std::string> {
        const bool writes_model = context.command != "prove";
        if (!writes_model || !settings.values.training.learns_scores()) return std::string("0");
        const auto token = find_padding_token(settings.values, hub);
        return token ? Expected<std::string>(std::to_string(token.value())) : token.failure();
    });
    if (!padding) return padding.failure();
    auto spec = parse_spec(config_json, text.value(), read_whole_number(padding.value()).value(),
                           placement.shape, settings);
    if (!spec) return comm::found_by_all(spec.failure());
    if (context.world.is_root()) {
        tell_unknown_fields(config_json);
        tell_left_out_loss(context.settings, spec.value());
    }
    if (const auto failure = untie_if_stored_apart(context, folder, spec.value())) return *failure;
    if (const auto failure = make_room_for_tokens(context, hub, spec.value())) return *failure;
    auto asked = read_asked_adapters(context.settings, hub, context.world);
    if (!asked) return asked.failure();
    adapters = std::move(asked).value();
    if (context.command != "score")
        if (const auto failure = refuse_whole_training(spec.value(), context.settings))
            return comm::found_by_all(*failure);
    if (const auto failure = choose_trained(spec.value(), context.settings, adapters))
        return comm::found_by_all(*failure);
    if (context.world.is_root()) {
        tell_quantised_experts(spec.value(), context.settings.values.quantization);
        tell_quantised_again(spec.value(), context.settings.values.quantization);
    }
    return std::move(spec).value();
}

}  // namespace

comm::Agreed<RunModel> find_model(const CommandContext& context, const HubCache& hub,
                                  const Placement& placement) {
    const comm::Group& world = context.world;
    const config::ModelSettings& args = context.settings.values.model;
    const auto found = comm::of_root(world, [&]() -> Expected<std::string> {
        const auto name =
            hub.model_folder(args.model_name_or_path, args.model_revision, "model_name_or_path");
        if (!name) return name.failure();
        if (auto unfinished = refuse_unfinished_run(name.value(), "model_name_or_path"))
            return *unfinished;
        return name.value().string();
    });
    if (!found) return found.failure();
    const std::filesystem::path folder = found.value();
    AskedAdapters adapters;
    auto spec = find_spec(context, placement, hub, folder, adapters);
    if (!spec) return spec.failure();
    return RunModel{folder, std::move(spec).value(), std::move(adapters)};
}

comm::Agreed<RunInputs> find_inputs(const CommandContext& context, const Placement& placement,
                                    Faults& faults, RowsToKeep keeps) {
    const HubCache hub(context.environment);
    auto found = find_model(context, hub, placement);
    if (!found) return found.failure();
    RunModel& model = found.value();
    context.world.flight_recorder().set_activity("preparing data");
    faults.reach("start");
    auto data = prepare_run_data(context, hub, placement.num_threads, model.spec,
                                 learners_of(context.settings, model.adapters), keeps);
    if (!data) return data.failure();
    if (const auto failure =
            check_negatives(context.settings, placement.shape.data(), data.value()))
        return comm::found_by_all(*failure);
    if (const auto failure = give_baselines(context.settings, placement.shape.data(), data.value()))
        return comm::found_by_all(*failure);
    if (keeps == RowsToKeep::with_targets)
        if (const auto failure = share_prompts(context, model.spec, data.value()))
            return comm::found_by_all(*failure);
    find_longest_row(context.world, data.value());
    return RunInputs{std::move(model.folder), std::move(model.spec), std::move(model.adapters),
                     std::move(data).value()};
}

}  // namespace ringshard::run
