// Which modules PEFT 0.21 adapts under which settings (generator/adapter_targets.py): the same
// modules, ranks and scales here, or a refusal.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "golden.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/peft/adapters.hpp"
#include "unpacked.hpp"

using namespace ringshard;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

Expected<model::ModelSpec> adapted(const ordered_json& example, peft::LoraConfig& config) {
    auto spec = model::read_model_spec(test::golden_folder() / std::string(example["model"]) /
                                       "config.json");
    ordered_json text{{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}};
    text.update(example["settings"]);
    auto read = peft::parse_adapter_config(text.dump(), "settings");
    if (!read) return read.failure();
    config = std::move(read).value();
    if (const auto failure = peft::add_adapter(spec.value(), config)) return *failure;
    return spec;
}

// Rank and lora_alpha of every adapter, by the whole name of its layer.
json modules_of(const model::ModelSpec& spec, bool is_rslora) {
    json modules = json::object();
    for (const auto& [layer, adapter] : spec.layers_of(0)) {
        const auto rank = static_cast<double>(adapter.rank);
        modules[layer] = {adapter.rank, adapter.scaling * (is_rslora ? std::sqrt(rank) : rank)};
    }
    return modules;
}

// A name that stands alone, which PEFT takes for an expression; and the default for a model of
// which PEFT has none.
bool is_accepted_here_alone(const json& example) {
    const json& targets = example["settings"]["target_modules"];
    return targets == "q_proj" || (targets.is_null() && example["model"] == "models/olmo2-tiny");
}

// The modules whose tensors are trained.
std::set<std::string> saved_modules(const model::ModelSpec& spec) {
    std::set<std::string> modules;
    for (const shard::FlatUnit& unit : model::make_units(spec, 1))
        for (const shard::PlacedTensor& tensor : unit.tensors())
            if (const std::string& name = tensor.spec.name;
                unit.is_trained() && !tensor.is_made_by_run)
                modules.insert(name.substr(0, name.rfind('.')));
    return modules;
}

// Whether each of `parts` is one of `wholes` or lies in one, and none of these is without.
bool are_the_parts(const std::set<std::string>& parts, std::set<std::string> wholes) {
    const std::set<std::string> all = wholes;
    for (const std::string& part : parts) {
        const auto whole = std::ranges::find_if(all, [&](const std::string& name) {
            return part == name || part.starts_with(name + ".");
        });
        if (whole == all.end()) return false;
        wholes.erase(*whole);
    }
    return wholes.empty();
}

bool are_alike(const json& ours, const json& theirs) {
    if (ours.size() != theirs.size()) return false;
    for (const auto& [name, theirs_of] : theirs.items())
        if (!ours.contains(name) || ours[name][0] != theirs_of[0] ||
            std::abs(double(ours[name][1]) - double(theirs_of[1])) > 1e-9)
            return false;
    return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(targets_are_those_of_peft) {
    const ordered_json golden =
        ordered_json::parse(test::unpacked(test::golden_folder() / "adapters" / "targets.json"));
    int equal = 0;
    int refused = 0;
    int refused_by_both = 0;
    for (const ordered_json& example : golden["cases"]) {
        BOOST_TEST_INFO_SCOPE(example.dump());
        peft::LoraConfig config;
        const auto spec = adapted(example, config);
        if (example.contains("error")) {
            BOOST_TEST(!spec == !is_accepted_here_alone(example));
            refused_by_both += spec ? 0 : 1;
        } else if (!spec) {
            BOOST_TEST_MESSAGE(example["settings"].dump() << ": " << spec.failure().message);
            ++refused;
        } else {
            BOOST_TEST(are_alike(modules_of(spec.value(), config.use_rslora), example["modules"]),
                       modules_of(spec.value(), config.use_rslora).dump());
            BOOST_TEST(are_the_parts(saved_modules(spec.value()), example["modules_to_save"]));
            ++equal;
        }
    }
    BOOST_TEST_MESSAGE(equal << " equal, " << refused << " refused here alone, " << refused_by_both
                             << " by both");
}

// PEFT's default names the layers of Phi's MLP too.
BOOST_AUTO_TEST_CASE(phi_has_targets_of_its_own) {
    const std::string text = test::unpacked(test::golden_folder() / "families" / "phi.json");
    model::ModelSpec spec =
        model::parse_model_spec("config.json", json::parse(text)["config"].dump()).value();
    peft::LoraConfig config{.r = 2};
    BOOST_TEST(!peft::add_adapter(spec, config));
    std::ranges::sort(config.target_modules);
    BOOST_TEST(
        (config.target_modules == std::vector<std::string>{"fc1", "fc2", "q_proj", "v_proj"}));
}

BOOST_AUTO_TEST_CASE(matrices_are_turned_where_the_models_are) {
    model::ModelSpec spec =
        model::read_model_spec(test::golden_folder() / "models/qwen2-tiny/config.json").value();
    peft::LoraConfig config{.fan_in_fan_out = true};
    const auto failure = peft::add_adapter(spec, config);
    BOOST_REQUIRE(failure);
    BOOST_TEST(failure->message.find("fan_in_fan_out = true: Qwen2ForCausalLM") !=
               std::string::npos);
}

// all-linear names narrow layers too (k_proj and v_proj here), which PEFT gives any rank.
BOOST_AUTO_TEST_CASE(a_rank_may_exceed_both_sides) {
    const model::ModelSpec base =
        model::read_model_spec(test::golden_folder() / "models/qwen2-tiny/config.json").value();
    const auto refusal = [&](peft::LoraConfig config) {
        model::ModelSpec spec = base;
        const auto failure = peft::add_adapter(spec, config);
        return failure ? failure->message : "";
    };
    BOOST_TEST(refusal({.r = 48, .target_modules = {"all-linear"}}) == "");
    BOOST_TEST(refusal({.r = 65, .target_modules = {"k_proj"}}) == "");
    BOOST_TEST(
        refusal({.r = 33, .target_modules = {"k_proj"}, .init = {config::AdapterInit::Kind::pissa}})
            .find("no part of a rank above 32") != std::string::npos);
}

// PEFT 0.21 takes names of layers for the experts of models that transformers 5 stores otherwise:
// the configuration that it saved (generator/family_traces.py).
BOOST_AUTO_TEST_CASE(targets_in_models_with_experts_are_those_of_peft) {
    for (const char* const name : {"mixtral-all-linear", "qwen3_moe-all-linear"}) {
        BOOST_TEST_INFO_SCOPE(name);
        const json golden = json::parse(
            *read_file(test::golden_folder() / "family_traces" / format_text("{}.json", name)));
        const auto adapted = [&](peft::LoraConfig& config) {
            model::ModelSpec spec =
                model::parse_model_spec("config.json", golden["config"].dump()).value();
            return peft::add_adapter(spec, config);
        };
        const bool is_mixtral = golden["config"]["model_type"] == "mixtral";
        const std::vector<std::string> experts =
            is_mixtral ? std::vector<std::string>{"w1", "w3", "w2"}
                       : std::vector<std::string>{"gate_proj", "up_proj", "down_proj"};
        std::vector<std::string> named{"q_proj", "k_proj", "v_proj", "o_proj", "gate"};
        named.insert(named.end(), experts.begin(), experts.end());
        for (const auto& targets : {std::vector<std::string>{"all-linear"}, named}) {
            peft::LoraConfig config{.r = 2,
                                    .lora_alpha = 8,
                                    .target_modules = targets,
                                    .targets_are_expression = targets.size() == 1};
            const auto failure = adapted(config);
            BOOST_TEST(!failure, (failure ? failure->message : ""));
            BOOST_TEST(json::parse(peft::print_adapter_config(config, "")) ==
                       golden["adapter"]["config"]);
        }
        // Whole names keep a choice of blocks, of which PEFT would take the ends alone.
        peft::LoraConfig narrow{.r = 2,
                                .target_modules = {R"(.*layers\.0\..*(q|v)_proj)"},
                                .targets_are_expression = true};
        BOOST_TEST(!adapted(narrow));
        BOOST_TEST(
            (narrow.target_modules == std::vector<std::string>{"model.layers.0.self_attn.q_proj",
                                                               "model.layers.0.self_attn.v_proj"}));
        peft::LoraConfig wide{
            .r = 2, .target_modules = {R"(.*\.(q|v)_proj)"}, .targets_are_expression = true};
        BOOST_TEST(!adapted(wide));
        BOOST_TEST((wide.target_modules == std::vector<std::string>{"q_proj", "v_proj"}));
        const auto refusal = [&](peft::LoraConfig config) {
            const auto failure = adapted(config);
            return failure ? failure->message : "";
        };
        BOOST_TEST(refusal({.r = 2, .target_modules = {"q_proj", experts[0]}}).find("one tensor") !=
                   std::string::npos);
        BOOST_TEST(refusal({.r = 2, .lora_dropout = 0.05, .target_modules = {"all-linear"}})
                       .find("give lora_dropout 0") != std::string::npos);
        BOOST_TEST(refusal({.r = 2, .target_modules = {"all-linear"}, .use_dora = true})
                       .find("magnitudes") != std::string::npos);
        BOOST_TEST(refusal({.r = 2, .target_modules = {"q_proj", "layers.1.mlp." + experts[2]}})
                       .find("for all blocks") != std::string::npos);
        BOOST_TEST(refusal({.r = 2,
                            .target_modules = {"all-linear"},
                            .layers_to_transform = std::vector<int64_t>{0}})
                       .find("names the experts too") != std::string::npos);
        BOOST_TEST(refusal({.r = 2,
                            .target_modules = {format_text(".*(q_proj|{})", experts[0])},
                            .targets_are_expression = true})
                       .find("experts") != std::string::npos);
    }
}

// Of every field of PEFT 0.21's LoraConfig that a run would have to follow: a value that is not
// served is refused by the field's name.
BOOST_AUTO_TEST_CASE(what_is_not_served_is_refused_by_name) {
    const auto cases = ordered_json::parse(R"([
        {"r": 8.5}, {"r": "8"}, {"r": null}, {"lora_alpha": "8"}, {"lora_alpha": null},
        {"lora_dropout": 1}, {"lora_dropout": -0.5}, {"use_rslora": 1}, {"use_dora": null},
        {"target_modules": {"q_proj": 1}}, {"target_modules": [1]}, {"target_modules": []},
        {"exclude_modules": 1}, {"target_parameters": "weight"}, {"modules_to_save": "lm_head"},
        {"rank_pattern": {"q_proj": 4.7}}, {"rank_pattern": [1]}, {"alpha_pattern": {"q_proj": "x"}},
        {"layers_to_transform": [0.5]}, {"layers_to_transform": "0"}, {"layers_pattern": "h"},
        {"task_type": "TOKEN_CLS"}, {"peft_type": "ADALORA"}, {"bias": "some"}, {"bias": null},
        {"fan_in_fan_out": 1}, {"init_lora_weights": "eva"}, {"init_lora_weights": "loftq"},
        {"init_lora_weights": "corda"}, {"init_lora_weights": "lora_ga"},
        {"init_lora_weights": "orthogonal"}, {"loftq_config": {"loftq_bits": 4}},
        {"corda_config": {"a": 1}}, {"lora_ga_config": {"a": 1}}, {"megatron_config": {"a": 1}},
        {"trainable_token_indices": ["a"]}, {"trainable_token_indices": {"embed_tokens": 1}},
        {"velora_config": {"a": 1}}, {"alora_invocation_tokens": [1]}, {"use_qalora": true},
        {"monteclora_config": {"a": 1}}, {"layer_replication": [[0, 1]]}, {"lora_bias": 1},
        {"use_bdlora": true}, {"arrow_config": {"a": 1}}, {"kasa_config": {"a": 1}},
        {"ensure_weight_tying": true}, {"a_field_of_tomorrow": 1}])");
    for (const ordered_json& change : cases) {
        BOOST_TEST_INFO_SCOPE(change.dump());
        json text{{"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 8}};
        text.update(change);
        const auto read = peft::parse_adapter_config(text.dump(), "settings");
        BOOST_REQUIRE(!read);
        BOOST_TEST(read.failure().message.find(change.begin().key()) != std::string::npos,
                   read.failure().message);
    }
}
