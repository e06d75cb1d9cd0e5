#include <fcntl.h>

#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

// Opens the adapter that the checkpoint was made with. Collective over the world.
comm::Agreed<peft::InitialAdapter> open_of(const checkpoint::Checkpoint& checkpoint,
                                           const model::ModelSpec& spec, const comm::Group& world) {
    const fs::path folder = checkpoint.folder.parent_path() / peft::initial_adapter_name;
    auto initial = peft::InitialAdapter::open(folder, spec, world);
    if (!initial) return initial.failure();
    const auto then = checkpoint.state.texts.find(peft::initial_adapter_name);
    if (then == checkpoint.state.texts.end() || then->second != initial.value().hash())
        return comm::found_by_all(
            {ExitCode::bad_data,
             format_text("{}: holds other numbers than when {} was made, and its adapters have no "
                         "meaning with them; put the folder of that run beside its checkpoints, or "
                         "begin another run",
                         folder.string(), checkpoint.folder.string())});
    return initial;
}

// A run that goes on from a checkpoint of another folder has its own copy. On rank 0.
std::optional<Failure> copy_folder(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::create_directories(to, error);
    for (const char* name : {peft::adapter_config_name, hub::adapter_weights_name}) {
        const fs::path unfinished = to / (name + work_mark());
        if (!error) fs::copy_file(from / name, unfinished, error);
        if (error)
            return Failure{ExitCode::io,
                           format_text("{}: {}", (to / name).string(), error.message())};
        auto file = File::open(unfinished, O_RDONLY);
        if (!file) return file.failure();
        if (auto failure = file.value().flush()) return failure;
        if (auto failure = rename_atomically(unfinished, to / name)) return failure;
    }
    return flush_folder(to);
}

}  // namespace

std::optional<comm::AgreedFailure> take_out_initial_adapter(
    const config::Config& config, const peft::LoraConfig& adapter, const model::ModelSpec& spec,
    const checkpoint::Checkpoint* checkpoint, Pretrained& model, const comm::Group& world) {
    const fs::path folder = fs::path(config.run.output_dir) / peft::initial_adapter_name;
    if (checkpoint == nullptr) {
        world.flight_recorder().set_activity("decomposing weights");
        if (const auto failure = peft::write_initial_adapter(
                folder, model.reader(spec, world.flight_recorder().bytes()), spec, adapter,
                static_cast<uint64_t>(config.run.seed), config.model.model_name_or_path, world))
            return failure;
        auto initial = peft::InitialAdapter::open(folder, spec, world);
        if (!initial) return initial.failure();
        model.take_out(spec, std::move(initial).value(), Pretrained::Begins::yes);
        return std::nullopt;
    }
    auto initial = open_of(*checkpoint, spec, world);
    if (!initial) return initial.failure();
    model.take_out(spec, std::move(initial).value(), Pretrained::Begins::no);
    const fs::path source = checkpoint->folder.parent_path() / peft::initial_adapter_name;
    std::optional<Failure> failure;
    std::error_code ignored;
    if (world.is_root() && !fs::equivalent(source, folder, ignored))
        failure = copy_folder(source, folder);
    return comm::first_failure(world, failure);
}

std::optional<comm::AgreedFailure> take_out_initial_adapter(
    const checkpoint::Checkpoint& checkpoint, const model::ModelSpec& spec, Pretrained& model,
    const comm::Group& world) {
    auto initial = open_of(checkpoint, spec, world);
    if (!initial) return initial.failure();
    model.take_out(spec, std::move(initial).value(), Pretrained::Begins::no);
    return std::nullopt;
}

}  // namespace ringshard::run
