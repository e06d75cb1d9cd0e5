#include "run_inputs.hpp"

#include "checkpoint_as_model.hpp"
#include "ringshard/attention/sequence_attention.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::cli {

namespace {

Expected<model::ModelSpec> parse_spec(const std::filesystem::path& config_json,
                                      const std::string& text, int64_t ulysses,
                                      const config::Settings& settings) {
    const auto spec = model::parse_model_spec(config_json, text);
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
    const auto found = comm::of_root(world, [&]() -> Expected<std::string> {
        const auto name =
            hub.model_folder(wish.model_name_or_path, wish.model_revision, "model_name_or_path");
        if (!name) return name.failure();
        if (auto unfinished = refuse_unfinished_run(name.value(), "model_name_or_path"))
            return *unfinished;
        return name.value().string();
    });
    if (!found) return found.failure();
    const std::filesystem::path folder = found.value();
    const auto config_json = folder / "config.json";
    const auto text = comm::of_root(world, [&] { return model::read_config_json(config_json); });
    if (!text) return text.failure();
    const auto spec = parse_spec(config_json, text.value(), here.shape.ulysses, call.settings);
    if (!spec) return comm::found_by_all(spec.failure());
    world.journal().doing("preparing data");
    faults.reach("start");
    auto data = prepare_run_data(call, hub, here.num_threads, spec.value());
    if (!data) return data.failure();
    return RunInputs{folder, spec.value(), std::move(data).value()};
}

}  // namespace ringshard::cli
