#include "run_inputs.hpp"

#include "checkpoint_as_model.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

namespace {

Expected<model::ModelSpec> read_spec(const std::filesystem::path& folder, int64_t ulysses,
                                     const config::Settings& settings) {
    const auto spec = model::read_model_spec(folder / "config.json");
    if (!spec) return spec;
    const attention::HeadCounts& heads = spec.value().heads;
    const std::string why_not = attention::why_heads_do_not_split(heads, ulysses);
    if (why_not.empty()) return spec;
    std::vector<std::string> sizes;
    for (const int64_t size : attention::ulysses_sizes(heads)) sizes.push_back(concat(size));
    return Failure{ExitCode::settings,
                   concat("sp_size = ", ulysses, " [", settings.origin_of("sp_size").place,
                          "]: ", why_not, "; sizes that work with this model: ", join(sizes, ", "),
                          "; use cp_size for the rest")};
}

}  // namespace

comm::Agreed<RunInputs> find_inputs(const EngineCall& call, const StartUp& here, Faults& faults) {
    const comm::Group& world = call.world;
    const config::ModelSettings& wish = call.settings.values.model;
    const HubCache hub(call.environment);
    const auto folder = comm::agreed(
        world,
        hub.model_folder(wish.model_name_or_path, wish.model_revision, "model_name_or_path"));
    if (!folder) return folder.failure();
    if (const auto failure = comm::first_failure(
            world, world.is_root() ? refuse_unfinished_run(folder.value(), "model_name_or_path")
                                   : std::nullopt))
        return *failure;
    const auto spec =
        comm::agreed(world, read_spec(folder.value(), here.shape.ulysses, call.settings));
    if (!spec) return spec.failure();
    world.journal().doing("preparing data");
    faults.reach("start");
    auto data = prepare_run_data(call, hub, here.num_threads, spec.value());
    if (!data) return data.failure();
    return RunInputs{folder.value(), spec.value(), std::move(data).value()};
}

}  // namespace ringshard::cli
