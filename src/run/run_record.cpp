#include "run_record.hpp"

#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/config/option_table.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/run/library_versions.hpp"

namespace ringshard::run {

using nlohmann::ordered_json;

namespace {

ordered_json describe_ranks(const Placement& placement) {
    ordered_json ranks = ordered_json::array();
    for (const RankPlace& place : placement.places)
        ranks.push_back({{"host", place.host}, {"device", place.device}, {"cores", place.cores}});
    return ranks;
}

// The proof of the run's job, or null.
ordered_json describe_proof(const std::optional<Certificate>& certificate) {
    if (!certificate) return nullptr;
    return {{"file", certificate->file}, {"hash", certificate->hash}, {"holds", true}};
}

}  // namespace

std::optional<comm::AgreedFailure> write_run_record(const CommandContext& context,
                                                    const Placement& placement,
                                                    const model::ModelSpec& spec,
                                                    const RecordedRun& run) {
    std::optional<Failure> failure;
    if (context.world.is_root()) {
        const config::Config& config = context.settings.values;
        const mesh::MeshShape& shape = placement.shape;
        const std::string settings = config::print_json(context.settings, config::OptionTable());
        const ordered_json record{
            {"attempt", run.attempt},
            {"command", context.command},
            {"versions", parse_json<ordered_json>(versions_text()).value()},
            {"mesh",
             {{"dp_replicate", shape.replicate},
              {"dp_shard", shape.shard},
              {"cp", shape.ring},
              {"sp", shape.ulysses},
              {"cuts", to_text(mesh::cuts_of(config.parallel))}}},
            {"effective_batch", config.training.per_device_train_batch_size * shape.data() *
                                    config.training.gradient_accumulation_steps},
            {"num_steps", run.num_steps},
            {"threads_per_rank", placement.num_threads},
            {"memory_of_rank_0", placement.memory},
            {"activations_kept",
             describe(config.training.activations_kept(), narrow<int64_t>(spec.blocks.size()))},
            {"cpu_gemm", parse_json<ordered_json>(run.gemms.record).value()},
            {"gpu_gemm", parse_json<ordered_json>(run.gemms.gpu_record).value()},
            {"ranks", describe_ranks(placement)},
            {"proof", describe_proof(run.certificate)},
            {"settings", parse_json<ordered_json>(settings).value()}};
        failure = write_file_atomically(
            std::filesystem::path(config.run.output_dir) / "run.json",
            record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    }
    return comm::first_failure(context.world, failure);
}

}  // namespace ringshard::run
