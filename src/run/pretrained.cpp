#include "ringshard/run/pretrained.hpp"
#include "ringshard/base/files.hpp"

#include "ringshard/base/text.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/run/run_adapters.hpp"

namespace ringshard::run {

namespace fs = std::filesystem;

namespace {

constexpr int64_t whole = 1;  // parts of a unit

std::vector<shard::FlatUnit> frozen_units(const model::ModelSpec& spec) {
    std::vector<shard::FlatUnit> units = model::make_units(spec, whole);
    std::erase_if(units, [](const auto& unit) { return unit.is_trained(); });
    return units;
}

// Returns the spec with as many rows for tokens as the model's files have, and with these weights
// frozen.
model::ModelSpec stored_spec(const model::ModelSpec& spec, std::set<std::string> frozen) {
    model::ModelSpec stored = spec;
    stored.vocabulary = stored.stored_vocabulary;
    stored.frozen = std::move(frozen);
    return stored;
}

// A list that names a tensor which the model does not have, or with another shape, is of another
// model.
std::optional<Failure> check_names(const fs::path& folder, const checkpoint::FrozenWeights& frozen,
                                   const model::ModelSpec& spec) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const shard::FlatUnit& unit : model::make_units(spec, whole))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            shapes[tensor.spec.name] = tensor.spec.shape;
    for (const auto& [name, tensor] : frozen.tensors) {
        const auto found = shapes.find(name);
        if (found == shapes.end() || found->second != tensor.shape)
            return Failure{ExitCode::bad_data,
                           format_text("{}: names the frozen weight {}, and the model has none of "
                                       "that name and shape: it is not of this model",
                                       folder.string(), name)};
    }
    return std::nullopt;
}

}  // namespace

Failure other_base(const fs::path& checkpoint, const std::string& then, const std::string& now,
                   const std::string& tensor) {
    return {
        ExitCode::bad_data,
        format_text(
            "{}: was made with the frozen weights of {}, and {} has other values in {}{}; give the "
            "model of then as model_name_or_path, or begin another run in another output_dir",
            checkpoint.string(), then, tensor, now,
            now == then ? ", which has changed since" : "")};
}

Failure holds_an_adapter(const fs::path& checkpoint) {
    return {ExitCode::bad_data,
            format_text("{}: holds an adapter, and not a whole model; make one of it: trainer "
                        "export {} --merge true --output_dir FOLDER; or export the adapter and "
                        "name it as adapter_name_or_path",
                        checkpoint.string(), checkpoint.string())};
}

namespace {

// How the files of a model hold matrices: a checkpoint beside it has its config.json without
// quantization_config. Collective over the group.
model::StoredForm stored_form_of(const fs::path& folder, const comm::Group& group) {
    const fs::path file = folder / "config.json";
    const auto text = comm::of_root(group, [&] { return model::read_config_json(file); });
    if (!text) return {};  // of weights alone
    const auto spec = model::parse_model_spec(file, text.value());
    return spec ? spec.value().stored_form : model::StoredForm();
}

// The numbers of an adapter of this model.
comm::Agreed<hub::StoredModel> open_adapter(const fs::path& folder, const model::ModelSpec& spec,
                                            const comm::Group& group) {
    auto stored = hub::StoredModel::open_file(folder / hub::adapter_weights_name, group);
    if (!stored) return stored;
    if (const auto misfit = peft::check_adapter(stored.value(), spec, folder.string()))
        return comm::found_by_all(*misfit);
    return stored;
}

}  // namespace

comm::Agreed<Pretrained> Pretrained::open(const fs::path& folder, const model::ModelSpec& spec,
                                          Wanted wanted, checkpoint::Verification verification,
                                          const comm::Group& group,
                                          const std::optional<fs::path>& named_base) {
    Pretrained made;
    made.folder_ = without_slash(folder);
    made.wanted_ = wanted;
    const bool is_checkpoint = group.is_root() && checkpoint::is_checkpoint(made.folder_);
    if (group.maximum(is_checkpoint ? 1 : 0) == 0) {
        auto stored = hub::StoredModel::open(made.folder_, group);
        if (!stored) return stored.failure();
        if (const auto failure = hub::find_weights(stored.value(), spec))
            return comm::found_by_all(*failure);
        if (const auto failure = comm::first_failure(
                group,
                wanted == Wanted::all
                    ? hub::check_weights(stored.value(), spec, model::make_units(spec, whole))
                    : hub::check_weights_of(stored.value(), spec, frozen_units(spec))))
            return *failure;
        made.stored_ = std::move(stored).value();
        return made;
    }
    auto checked =
        check_checkpoint(made.folder_, checkpoint::Contents::weights, verification, group);
    if (!checked) return checked.failure();
    auto elsewhere = frozen_weights_of(checked.value().state, made.folder_.string());
    if (!elsewhere) return comm::found_by_all(elsewhere.failure());
    made.checkpoint_ = std::move(checked).value();
    made.elsewhere_ = std::move(elsewhere).value();
    if (const auto misfit = check_names(made.folder_, made.elsewhere_, stored_spec(spec, {})))
        return comm::found_by_all(*misfit);
    model::ModelSpec of_checkpoint = stored_spec(spec, made.elsewhere_.names());
    if (!made.holds_adapters())
        of_checkpoint.remove_learners();
    else if (!spec.has_adapters())
        return comm::found_by_all(holds_an_adapter(made.folder_));
    if (const auto misfit = check_fit(*made.checkpoint_, model::make_units(of_checkpoint, whole)))
        return comm::found_by_all(*misfit);
    if (made.elsewhere_.tensors.empty()) return made;
    const fs::path base_folder = named_base.value_or(made.elsewhere_.base);
    of_checkpoint.stored_form = stored_form_of(base_folder, group);
    auto base = open(base_folder, of_checkpoint, Wanted::frozen, verification, group);
    if (!base) return base.failure();
    made.base_ = std::make_unique<Pretrained>(std::move(base).value());
    return made;
}

std::optional<comm::AgreedFailure> Pretrained::begin_adapters(
    const model::ModelSpec& spec, const std::vector<BegunAdapter>& beginnings,
    const comm::Group& group) {
    std::vector<peft::AdapterOrigin> origins;
    for (size_t number = 0; number < beginnings.size(); ++number) {
        const auto& [start, folder] = beginnings[number];
        origins.push_back({start});
        if (folder.empty()) continue;
        auto opened = open_adapter(folder, peft::with_adapter_alone(spec, number), group);
        if (!opened) return opened.failure();
        origins.back().stored = std::move(opened).value();
    }
    adapters_ = Adapters{spec, std::move(origins)};
    return std::nullopt;
}

void Pretrained::take_out(const model::ModelSpec& spec, peft::InitialAdapter initial,
                          Begins begins) {
    if (begins == Begins::yes) adapters_ = Adapters{spec, {{{}, initial.stored()}}};
    initial_ = std::move(initial);
}

model::ModelSpec Pretrained::with_begun_adapters(model::ModelSpec spec) const {
    for (size_t number = 0; number < adapters_->origins.size(); ++number) {
        if (!adapters_->origins[number].stored) continue;
        spec.adapters[number].layers.clear();
        for (model::BlockSpec& block : spec.blocks) block.adapters[number].layers.clear();
    }
    return spec;
}

bool Pretrained::holds_adapters() const {
    return checkpoint_ && (checkpoint_->state.texts.contains(peft::adapter_text) ||
                           checkpoint_->state.texts.contains(peft::named_adapters_text));
}

shard::ReadWeight Pretrained::reader(const model::ModelSpec& spec, ByteCounter& bytes) const {
    if (!adapters_) return reader_of_model(spec, bytes);
    return peft::with_adapters(reader_of_model(spec, bytes), adapters_->spec, adapters_->origins);
}

const hub::StoredModel* Pretrained::files() const {
    if (stored_) return &*stored_;
    return base_ ? base_->files() : nullptr;
}

shard::ReadWeight Pretrained::reader_of_model(const model::ModelSpec& spec,
                                              ByteCounter& bytes) const {
    if (stored_) return hub::reader_of(*stored_, spec, bytes);
    shard::ReadWeight held = reader_of(*checkpoint_, bytes);
    if (!base_) return held;
    return [this, held = std::move(held), below = base_->reader(spec, bytes)](
               const std::string& tensor, int64_t first, std::span<float> into) {
        return elsewhere_.tensors.contains(tensor) ? below(tensor, first, into)
                                                   : held(tensor, first, into);
    };
}

comm::Agreed<checkpoint::FrozenWeights> Pretrained::load(const model::ModelSpec& spec,
                                                         shard::Zero& zero,
                                                         const comm::Group& group) const {
    std::set<std::string> hashed = spec.frozen;
    for (const Pretrained* model = this; model != nullptr; model = model->base_.get())
        hashed.merge(model->elsewhere_.names());
    shard::TensorSums sums(hashed);
    const auto into = wanted_ == Wanted::all ? zero.all_weights() : zero.frozen_weights();
    const shard::ReadWeight read = reader(spec, group.flight_recorder().bytes());
    hub::ChangeWeight change;
    if (initial_)
        change = [this](const std::string& tensor, int64_t first, std::span<float> elements) {
            return initial_->subtract(tensor, first, elements);
        };
    std::optional<Failure> failure = hub::load_weights(read, spec, zero, into, sums, change);
    hub::CodeScales scales;
    if (!failure)
        failure = hub::load_coded_weights(read, zero, scales, sums,
                                          {files(), &group.flight_recorder().bytes()});
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    hub::write_scales(scales, zero);
    const std::map<std::string, std::string> hashes = sums.over(group);
    // A weight is read from the first model in the chain that holds it.
    std::set<std::string> read_here = wanted_ == Wanted::all ? hashed : spec.frozen;
    for (const Pretrained* model = this; model->base_; model = model->base_.get()) {
        std::set<std::string> read_below;
        for (const auto& [name, tensor] : model->elsewhere_.tensors) {
            if (!read_here.contains(name)) continue;
            read_below.insert(name);
            if (hashes.at(name) != tensor.hash)
                return comm::found_by_all(other_base(model->folder_, model->elsewhere_.base,
                                                     model->base_->folder_.string(), name));
        }
        read_here = std::move(read_below);
    }
    checkpoint::FrozenWeights frozen{.base = fs::absolute(folder_).string(), .tensors = {}};
    for (const shard::FlatUnit& unit : zero.units())
        for (const shard::PlacedTensor& tensor : unit.tensors())
            if (spec.frozen.contains(tensor.spec.name))
                frozen.tensors[tensor.spec.name] = {tensor.spec.shape, hashes.at(tensor.spec.name)};
    return frozen;
}

bool Pretrained::fits_exactly(const std::set<std::string>& names, at::ScalarType type) const {
    if (type == at::kFloat) return true;
    for (const std::string& name : names) {
        if (base_ && elsewhere_.tensors.contains(name)) {
            if (!base_->fits_exactly({name}, type)) return false;
            continue;
        }
        const hub::StoredTensor* const stored = stored_ ? stored_->find(name) : nullptr;
        if (stored == nullptr || stored->type != hub::StoredType::bf16) return false;
    }
    return true;
}

}  // namespace ringshard::run
