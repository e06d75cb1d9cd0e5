#include "train_command.hpp"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iostream>

#include "prepare_command.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/cli/tell.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/data/loader.hpp"
#include "ringshard/train/training_loop.hpp"
#include "run_state.hpp"
#include "start_up.hpp"
#include "unserved.hpp"

namespace ringshard::cli {

namespace {

// What is not built in yet is refused, not left out.
std::optional<Failure> check_served(const config::Config& config) {
    const auto refuse = [](const char* what) {
        return Failure{ExitCode::settings, concat(what, " is not built in yet")};
    };
    if (config.evaluation.eval_strategy != config::Interval::no || config.evaluation.eval_on_start)
        return refuse("eval_strategy: evaluation");
    if (config.data.train_sampling_strategy == config::SamplingStrategy::group_by_length)
        return refuse("train_sampling_strategy: group_by_length");
    return std::nullopt;
}

Expected<model::ModelSpec> read_spec(const std::filesystem::path& folder,
                                     const mesh::MeshShape& shape) {
    const auto spec = model::read_model_spec(folder / "config.json");
    if (!spec) return spec;
    const std::string why_not =
        attention::why_heads_do_not_split(spec.value().heads, shape.ulysses);
    if (why_not.empty()) return spec;
    return Failure{ExitCode::settings, concat("sp_size = ", shape.ulysses, ": ", why_not,
                                              "; use cp_size for the rest")};
}

// A block with a window sees all of a document that is no longer than the window.
std::optional<Failure> check_window(const model::ModelSpec& spec, const data::Rows& rows) {
    if (!spec.window) return std::nullopt;
    int64_t longest = 0;
    for (int64_t row = 0; row < rows.size(); ++row) {
        int64_t length = 0;
        for (const data::Piece& piece : rows.pieces(row)) {
            length = piece.length + (piece.goes_on != 0 ? length : 0);
            longest = std::max(longest, length);
        }
    }
    if (longest <= *spec.window) return std::nullopt;
    return Failure{ExitCode::settings,
                   concat("sliding_window = ", *spec.window,
                          " in the model's config.json: the data has a document of ", longest,
                          " tokens, and a window that does not hold a whole document is not "
                          "served; max_length = ",
                          *spec.window, " would be fine")};
}

// The rows to train on, made or found in the cache; what is worth knowing of them goes to stderr.
// Collective over the world.
comm::Agreed<data::Prepared> prepare_rows(const EngineCall& call, const HubCache& hub,
                                          int64_t num_threads, const model::ModelSpec& spec) {
    const auto chosen = comm::agreed(call.world, data::training_data(call.settings.values, hub));
    if (!chosen) return chosen.failure();
    auto prepared =
        data::prepare(chosen.value(), make_workshop(call, num_threads, hub), call.world);
    if (!prepared) return prepared;
    if (const int64_t largest = prepared.value().largest_token; largest >= spec.vocabulary)
        return comm::found_by_all(
            {ExitCode::bad_data,
             concat("the data holds the token ", largest, ", and the model's vocabulary has only ",
                    spec.vocabulary, "; was it tokenized for another model?")});
    if (const auto failure = check_window(spec, prepared.value().rows))
        return comm::found_by_all(*failure);
    if (call.world.is_root()) {
        for (const std::string& warning : prepared.value().warnings)
            std::cerr << "warning: " << warning << '\n';
        std::cerr << "data: " << prepared.value().plan_file.string() << '\n'
                  << to_text(prepared.value().report, chosen.value().rows);
    }
    return prepared;
}

}  // namespace

int run_train(const EngineCall& call) {
    const c10::InferenceMode no_autograd;
    const comm::Group& world = call.world;
    const config::Config& config = call.settings.values;
    if (const auto failure = check_served(config)) return tell(comm::found_by_all(*failure), world);
    if (const auto failure = find_unserved(call.settings))
        return tell(comm::found_by_all(*failure), world);
    auto faults = comm::agreed(world, Faults::read(call.environment, world.rank()));
    if (!faults) return tell(faults.failure(), world);
    const auto place = start_up(call);
    if (!place) return tell(place.failure(), world);
    const StartUp& here = place.value();
    print_start(call, here);
    const mesh::Mesh mesh(world, here.shape, here.device);

    const HubCache hub(call.environment);
    const auto folder =
        comm::agreed(world, hub.model_folder(config.model.model_name_or_path,
                                             config.model.model_revision, "model_name_or_path"));
    if (!folder) return tell(folder.failure(), world);
    const auto spec = comm::agreed(world, read_spec(folder.value(), here.shape));
    if (!spec) return tell(spec.failure(), world);
    const auto data = prepare_rows(call, hub, here.num_threads, spec.value());
    if (!data) return tell(data.failure(), world);
    const data::Rows& rows = data.value().rows;
    data::Loader loader(rows, data::make_dealing(config, rows.size(), here.shape),
                        mesh.data().rank(), config.training.gradient_accumulation_steps);

    const auto store = checkpoint::Store::open(config.run.output_dir, world);
    if (!store) return tell(store.failure(), world);
    auto units = model::make_units(spec.value(), here.shape.zero());
    auto origin = find_origin(call, folder.value(), store.value(), spec.value(), units);
    if (!origin) return tell(origin.failure(), world);
    auto companions = read_companions(world, folder.value());
    if (!companions) return tell(companions.failure(), world);

    const bool is_bf16 = config.training.mixed_precision == config::Precision::bf16;
    const bool reduces_bf16 = config.parallel.reduce_dtype == config::WireType::bf16;
    shard::Zero zero(
        std::move(units), mesh::cuts_of(config.parallel),
        {is_bf16 ? at::kBFloat16 : at::kFloat, reduces_bf16 ? at::kBFloat16 : at::kFloat}, mesh);
    optim::AdamW optimizer(zero, config.training);
    const model::Transformer transformer(spec.value(), zero, mesh,
                                         config.training.activations_kept(),
                                         {config.training.loss_type == config::LossType::dft,
                                          config.training.label_smoothing_factor});
    const auto progress =
        load_state(call, origin.value(), store.value(), spec.value().tied, zero, optimizer);
    if (!progress) return tell(progress.failure(), world);
    origin.value() = {};  // the pretrained files are no longer needed

    train::Trainer trainer(config.training, world, mesh, loader, transformer, zero, optimizer);
    trainer.go_on_from(progress.value());
    const checkpoint::Extras extras{
        std::move(companions).value(),
        {{"settings", config::print_yaml(call.settings, config::OptionTable())},
         {"mesh", to_text(here.shape)}}};
    const auto failure = train::train_to_the_end(config, world, trainer, store.value(), zero,
                                                 optimizer, extras, faults.value());
    return failure ? tell(*failure, world) : number(ExitCode::done);
}

}  // namespace ringshard::cli
