#include "train_command.hpp"

#include <c10/core/InferenceMode.h>

#include <iostream>

#include "ringshard/base/files.hpp"
#include "ringshard/checkpoint/store.hpp"
#include "ringshard/comm/agree.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/model/weights.hpp"
#include "ringshard/train/training_loop.hpp"
#include "start_up.hpp"

namespace ringshard::cli {

namespace {

// What is not built in yet is refused, not left out.
std::optional<Failure> check_served(const config::Config& config) {
    const auto refuse = [](const char* what) {
        return Failure{ExitCode::settings, concat(what, " is not built in yet")};
    };
    if (config.data.packing)
        return refuse("packing = true: packing (rows may be given packed, with seq_lengths)");
    if (config.evaluation.eval_strategy != config::Interval::no || config.evaluation.eval_on_start)
        return refuse("eval_strategy: evaluation");
    if (config.training.lr_scheduler_type != config::Schedule::linear)
        return refuse("lr_scheduler_type: a schedule other than linear");
    if (config.training.loss_type != config::LossType::nll ||
        config.training.label_smoothing_factor != 0)
        return refuse("loss_type: a loss other than nll");
    if (config.data.train_sampling_strategy == config::SamplingStrategy::group_by_length)
        return refuse("train_sampling_strategy: group_by_length");
    return std::nullopt;
}

Expected<model::ModelSpec> read_spec(const config::Config& config, const mesh::MeshShape& shape) {
    const std::filesystem::path folder(config.model.model_name_or_path);
    if (folder.empty())
        return Failure{ExitCode::settings,
                       "model_name_or_path is not set: name the folder of a model"};
    if (!is_directory(folder))
        return Failure{ExitCode::missing_input, concat("model_name_or_path = ", folder.string(),
                                                       ": there is no such folder")};
    const auto spec = model::read_model_spec(folder / "config.json");
    if (!spec) return spec;
    const std::string why_not =
        attention::why_heads_do_not_split(spec.value().heads, shape.ulysses);
    if (why_not.empty()) return spec;
    return Failure{ExitCode::settings, concat("sp_size = ", shape.ulysses, ": ", why_not,
                                              "; use cp_size for the rest")};
}

Expected<data::TokenRows> read_rows(const config::Config& config, const model::ModelSpec& spec) {
    if (config.data.dataset_name.empty())
        return Failure{ExitCode::settings,
                       "dataset_name is not set: name a JSONL file with input_ids"};
    return data::read_pretokenized(config.data.dataset_name, config.data.max_length,
                                   spec.vocabulary);
}

std::optional<Failure> load_pretrained(const config::Config& config, const model::ModelSpec& spec,
                                       shard::Zero& zero) {
    const auto stored = model::StoredModel::open(config.model.model_name_or_path);
    return stored ? model::load_weights(stored.value(), spec.tied, zero)
                  : std::optional(stored.failure());
}

// The checkpoint that the settings ask to go on from, if any. Collective over the world.
Expected<std::optional<std::filesystem::path>> find_checkpoint(const EngineCall& call,
                                                               const checkpoint::Store& store) {
    const std::string& wish = call.settings.values.checkpoint.resume_from_checkpoint;
    const std::string word = lower_case(wish);
    if (word == "never" || word == "false") return std::optional<std::filesystem::path>();
    const bool names_folder = word != "auto" && word != "true" && !word.empty();
    if (names_folder) {
        if (is_directory(std::filesystem::path(wish)))
            return std::optional(std::filesystem::path(wish));
        return Failure{ExitCode::missing_input,
                       concat("resume_from_checkpoint = ", wish, ": there is no such folder")};
    }
    std::vector<std::string> warnings;
    const auto newest = store.newest(warnings);
    for (const std::string& warning : warnings)
        std::cerr << "warning: checkpoint left out: " << warning << '\n';
    if (newest) return std::optional(newest->folder);
    if (word == "true")
        return Failure{
            ExitCode::missing_input,
            concat("resume_from_checkpoint = true: ", store.output_dir().string(),
                   " holds no finished checkpoint; leave the setting out to begin a run")};
    return std::optional<std::filesystem::path>();
}

// Weights, moments and place of the run: from a checkpoint, or from the pretrained model.
// Collective over the world.
Expected<checkpoint::Progress> load_state(const EngineCall& call, const checkpoint::Store& store,
                                          const model::ModelSpec& spec, shard::Zero& zero,
                                          optim::AdamW& optimizer) {
    checkpoint::Progress progress;
    const auto from = find_checkpoint(call, store);
    if (!from) return from.failure();
    if (from.value()) {
        const auto loaded = store.load(*from.value(), zero, optimizer);
        if (!loaded) return loaded;
        progress = loaded.value();
        if (call.world.is_root()) std::cerr << "going on from " << from.value()->string() << '\n';
    } else if (const auto failure = comm::first_failure(
                   call.world, load_pretrained(call.settings.values, spec, zero))) {
        return *failure;
    }
    zero.publish_weights();
    if (const auto failure = store.record_start(progress.step)) return *failure;
    return progress;
}

// Files of the model folder that belong beside its weights.
std::vector<std::filesystem::path> companions(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> found;
    for (const auto* name : {"config.json", "generation_config.json", "tokenizer.json",
                             "tokenizer_config.json", "special_tokens_map.json",
                             "chat_template.jinja", "vocab.json", "merges.txt", "tokenizer.model"})
        if (exists(folder / name)) found.push_back(folder / name);
    return found;
}

int end_with(const Failure& failure, const comm::Group& world) {
    if (world.is_root()) std::cerr << "trainer: " << failure.message << '\n';
    return number(failure.code);
}

}  // namespace

int run_train(const EngineCall& call) {
    const c10::InferenceMode no_autograd;
    const comm::Group& world = call.world;
    const config::Config& config = call.settings.values;
    if (const auto failure = check_served(config)) return end_with(*failure, world);

    auto faults = comm::agreed(world, Faults::read(call.environment, world.rank()));
    if (!faults) return end_with(faults.failure(), world);
    const auto place = start_up(call);
    if (!place) return end_with(place.failure(), world);
    const StartUp& here = place.value();
    print_start(call, here);
    const mesh::Mesh mesh(world, here.shape, here.device);

    const auto spec = comm::agreed(world, read_spec(config, here.shape));
    if (!spec) return end_with(spec.failure(), world);
    const auto rows = comm::agreed(world, read_rows(config, spec.value()));
    if (!rows) return end_with(rows.failure(), world);
    data::Loader loader(rows.value(), data::make_dealing(config, rows.value().size(), here.shape),
                        mesh.data().rank(), config.training.gradient_accumulation_steps);

    const bool is_bf16 = config.training.mixed_precision == config::Precision::bf16;
    const bool reduces_bf16 = config.parallel.reduce_dtype == config::WireType::bf16;
    shard::Zero zero(
        model::make_units(spec.value(), here.shape.zero()), mesh::cuts_of(config.parallel),
        {is_bf16 ? at::kBFloat16 : at::kFloat, reduces_bf16 ? at::kBFloat16 : at::kFloat}, mesh);
    optim::AdamW optimizer(zero, config.training);
    const model::Transformer transformer(spec.value(), zero, mesh,
                                         config.training.activations_kept());

    const auto store = checkpoint::Store::open(config.run.output_dir, world);
    if (!store) return end_with(store.failure(), world);
    const auto progress = load_state(call, store.value(), spec.value(), zero, optimizer);
    if (!progress) return end_with(progress.failure(), world);

    train::Trainer trainer(config.training, world, mesh, loader, transformer, zero, optimizer);
    trainer.go_on_from(progress.value());
    const train::CheckpointExtras extras{
        companions(config.model.model_name_or_path),
        {{"settings", config::print_yaml(call.settings, config::OptionTable())},
         {"mesh", to_text(here.shape)}}};
    const auto failure = train::train_to_the_end(config, world, trainer, store.value(), zero,
                                                 optimizer, extras, faults.value());
    return failure ? end_with(*failure, world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
