#include "ringshard/model/model_spec.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reading/architecture.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/python_numbers.hpp"
#include "ringshard/model/conversion.hpp"
#include "ringshard/model/score_head.hpp"

namespace ringshard::model {

using nlohmann::json;

namespace {

constexpr int64_t most_labels = 1 << 20;

// As transformers 5 writes it; a fine-tuned model's config.json has it so.
std::string as_object(std::string_view word) { return concat("{\"__float__\": \"", word, "\"}"); }

}  // namespace

Expected<std::string> read_config_json(const std::filesystem::path& config_json) {
    auto text = read_file(config_json);
    if (const auto failure = refuse_adapter(config_json.parent_path())) return *failure;
    if (!text)
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such file", config_json.string())};
    return replace_python_numbers(*text, as_object);
}

Expected<ModelSpec> read_model_spec(const std::filesystem::path& config_json,
                                    const std::string& overrides) {
    const auto text = read_config_json(config_json);
    if (!text) return text.failure();
    const auto changed = override_config(config_json, text.value(), overrides);
    return changed ? parse_model_spec(config_json, changed.value()) : changed.failure();
}

namespace {

// Weights are written as floats.
std::string without_quantization(const std::string& config_json) {
    auto config = parse_json<nlohmann::ordered_json>(config_json).value();
    config.erase("quantization_config");
    if (auto text = config.find("text_config"); text != config.end() && text->is_object())
        text->erase("quantization_config");
    return config.dump(2) + "\n";
}

}  // namespace

Expected<ModelSpec> parse_model_spec(const std::filesystem::path& config_json,
                                     const std::string& text) {
    auto content = parse_json<json>(text);
    if (!content || !content.value().is_object())
        return Failure{ExitCode::bad_data,
                       format_text("{}: is not readable JSON{}", config_json.string(),
                                   content ? "" : format_text(": {}", content.failure().message))};

    ConfigReader config(config_json, std::move(content.value()));
    const Architecture* const architecture = find_architecture(config);
    if (architecture == nullptr) return *config.failure();
    ModelSpec spec = architecture->read(config);
    if (config.failure()) return *config.failure();
    spec.architecture = architecture->name;
    spec.peft = architecture->more.peft;
    spec.config_json = with_architecture(text, *architecture);
    spec.frozen = spec.never_trained();
    if (names_score_class(config.content())) {
        const json labels = config.content().value("id2label", json::object());
        constexpr int64_t usual = 2;  // transformers'
        const int64_t count = labels.empty()
                                  ? config.whole_number_or("num_labels", most_labels, usual)
                                  : std::ssize(labels);
        if (config.failure()) return *config.failure();
        take_score_head(spec, count);
    }
    if (spec.stored_form.is_quantised()) spec.config_json = without_quantization(spec.config_json);
    return spec;
}

std::set<std::string> ModelSpec::never_trained() const {
    std::set<std::string> tensors;
    const auto add = [&](size_t block, const std::string& name) {
        if (!name.empty()) tensors.insert(format_text("{}.{}.{}", names.blocks, block, name));
    };
    for (size_t block = 0; block < blocks.size(); ++block) {
        add(block, blocks[block].stream_factor);
        if (const ExpertsSpec* const experts = blocks[block].experts())
            add(block, experts->correction);
    }
    return tensors;
}

bool ModelSpec::is_table(const std::string& tensor) const {
    return tensor == names.embedding + ".weight" ||
           (layer_embeddings && tensor == layer_embeddings->table + ".weight");
}

bool ModelSpec::has_row_for_each_token(const std::string& tensor) const {
    return is_table(tensor) ||
           (!scores && (tensor == names.head + ".weight" || tensor == names.head + ".bias"));
}

std::vector<int64_t> ModelSpec::stored_shape(const shard::TensorSpec& tensor) const {
    std::vector<int64_t> shape = tensor.shape;
    if (has_row_for_each_token(tensor.name)) shape.front() = stored_vocabulary;
    return shape;
}

std::map<std::string, AdapterSpec> ModelSpec::layers_of(size_t learner) const {
    std::map<std::string, AdapterSpec> layers = adapters.at(learner).layers;
    for (size_t block = 0; block < blocks.size(); ++block)
        for (const auto& [layer, adapter] : blocks[block].adapters.at(learner).layers)
            layers[format_text("{}.{}.{}", names.blocks, block, layer)] = adapter;
    return layers;
}

bool ModelSpec::any_adapter(const std::function<bool(const AdapterSpec&)>& is_so) const {
    for (size_t learner = 0; learner < adapters.size(); ++learner)
        for (const auto& [layer, adapter] : layers_of(learner))
            if (is_so(adapter)) return true;
    return false;
}

size_t ModelSpec::add_learner(const std::string& name) {
    adapters.push_back({name});
    for (BlockSpec& block : blocks) block.adapters.push_back({name});
    return adapters.size() - 1;
}

void ModelSpec::remove_learners() {
    adapters.clear();
    trained_rows = {};
    for (BlockSpec& block : blocks) block.adapters.clear();
}

bool ModelSpec::adapters_part_tied_head() const {
    const auto adapts = [&](const NamedAdapter& adapter) {
        return adapter.layers.contains(names.head) || adapter.layers.contains(names.embedding);
    };
    return tied && (std::ranges::any_of(adapters, adapts) ||
                    (!trained_rows.empty() && !trained_rows.head_has_those_of_embedding));
}

int64_t ModelSpec::num_learners() const { return std::max<int64_t>(1, std::ssize(adapters)); }

int64_t ModelSpec::num_experts() const {
    for (const BlockSpec& block : blocks)
        if (const ExpertsSpec* const experts = block.experts()) return experts->count;
    return 0;
}

bool ModelSpec::blocks_share_rows() const {
    const auto shares = [](const LayerSpec<MixerSpec>& mixer) {
        const auto* const attention = std::get_if<AttentionSpec>(&mixer.part);
        return attention != nullptr && attention->shared_keys;
    };
    return layer_embeddings || std::ranges::any_of(blocks, [&](const BlockSpec& block) {
               return std::ranges::any_of(block.mixers, shares);
           });
}

std::string ModelSpec::why_experts_do_not_split(int64_t ranks) const {
    const int64_t experts = num_experts();
    if (ranks == 1) return {};
    if (experts == 0) return format_text("{} has no experts", architecture);
    if (experts % ranks == 0) return {};
    return format_text("the model's {} experts do not divide into {} equal parts", experts, ranks);
}

std::string ModelSpec::why_prompts_are_apart() const {
    if (std::ranges::any_of(masks(), &attention::Mask::through_state))
        return "states pass through the tokens of one answer";
    if (std::ranges::find(ropes, RopeKind::longrope, &RopeSpec::kind) != ropes.end())
        return "positions of longrope depend on the length of the answer";
    if (router_aux_loss_coef > 0) return "router_aux_loss_coef counts the tokens of both";
    return {};
}

void ModelSpec::set_router_aux_loss(double coefficient) {
    router_aux_loss_coef = coefficient;
    auto config = parse_json<nlohmann::ordered_json>(config_json).value();
    auto& of_text = text_config.empty() ? config : config[text_config];
    of_text["router_aux_loss_coef"] = coefficient;
    of_text["output_router_logits"] = coefficient != 0;
    config_json = config.dump(2) + "\n";
}

void ModelSpec::untie() {
    tied = false;
    auto config = parse_json<nlohmann::ordered_json>(config_json).value();
    config["tie_word_embeddings"] = false;
    if (!text_config.empty() && config[text_config].contains("tie_word_embeddings"))
        config[text_config]["tie_word_embeddings"] = false;
    config_json = config.dump(2) + "\n";
}

void ModelSpec::resize(int64_t rows) {
    vocabulary = rows;
    auto config = parse_json<nlohmann::ordered_json>(config_json).value();
    auto& of_text = text_config.empty() ? config : config[text_config];
    of_text["vocab_size"] = rows;
    if (layer_embeddings) of_text["vocab_size_per_layer_input"] = rows;
    if (padding_token && *padding_token >= rows) {
        padding_token.reset();
        of_text["pad_token_id"] = nullptr;
    }
    config_json = config.dump(2) + "\n";
}

namespace {

// The heads of all mixers, those that attend first.
std::vector<attention::HeadCounts> all_heads(const ModelSpec& spec) {
    std::vector<attention::HeadCounts> heads;
    std::vector<attention::HeadCounts> of_states;
    for (const BlockSpec& block : spec.blocks)
        for (const auto& mixer : block.mixers)
            (state_sizes(mixer.part) ? of_states : heads).push_back(heads_of(mixer.part));
    heads.insert(heads.end(), of_states.begin(), of_states.end());
    return heads;
}

}  // namespace

attention::HeadCounts ModelSpec::heads() const {
    for (const BlockSpec& block : blocks)
        for (const auto& mixer : block.mixers)
            if (!state_sizes(mixer.part)) return heads_of(mixer.part);
    throw Error(Failure{
        ExitCode::settings,
        format_text("{}: has no block that attends, which is not served so far", architecture)});
}

std::string ModelSpec::why_heads_do_not_split(int64_t ulysses) const {
    std::string why_not;
    for (const attention::HeadCounts& heads : all_heads(*this))
        if (why_not.empty()) why_not = attention::why_heads_do_not_split(heads, ulysses);
    return why_not;
}

std::vector<int64_t> ModelSpec::ulysses_sizes() const {
    std::vector<int64_t> sizes = attention::ulysses_sizes(all_heads(*this).front());
    std::erase_if(sizes, [&](int64_t size) { return !why_heads_do_not_split(size).empty(); });
    return sizes;
}

std::vector<attention::Mask> ModelSpec::masks() const {
    std::vector<attention::Mask> masks;
    for (const BlockSpec& block : blocks)
        for (const auto& mixer : block.mixers)
            if (const auto mask = mask_of(mixer.part); !std::ranges::count(masks, mask))
                masks.push_back(mask);
    return masks;
}

}  // namespace ringshard::model
