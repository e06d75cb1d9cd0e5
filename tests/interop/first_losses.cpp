// The loss of models before their first step: for each line of the input, the folder of a model
// and its tokens as {"folder": ..., "tokens": [...]}, one line {"loss": ...}, or {"code": ...,
// "message": ...} where the model is refused. One process for all: its start takes longer than a
// tiny model.
#include <ATen/ATen.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/comm/mpi_session.hpp"
#include "ringshard/hub/weights.hpp"
#include "ringshard/hub/wrapped_files.hpp"
#include "ringshard/model/config_fields.hpp"
#include "test_model.hpp"

using namespace ringshard;
using nlohmann::json;

namespace {

// Of one row that is one document. transformers adds the loss that balances experts if config.json
// has output_router_logits; a run adds it always (docs/experts.md).
double first_loss(const comm::Group& world, const json& wish) {
    const std::filesystem::path folder = wish.at("folder").get<std::string>();
    auto stored = hub::StoredModel::open(folder);
    const auto spec = model::read_model_spec(folder / "config.json");
    if (const auto failure = hub::find_weights(stored.value(), spec.value())) throw Error(*failure);
    if (const auto failure =
            hub::check_weights(stored.value(), spec.value(), model::make_units(spec.value(), 1)))
        throw Error(*failure);
    test::TestModel model(world, folder, {});
    const std::vector<int32_t> tokens = wish.at("tokens");
    std::vector<int32_t> labels = tokens;
    labels.front() = -100;
    data::SampleList rows;
    rows.add(tokens, labels, std::vector<int32_t>{static_cast<int32_t>(tokens.size())});
    const std::vector<int64_t> first{0};
    const data::FlatBatch batch = data::flatten(test::one_row_each(std::move(rows)), first);
    const double targets = static_cast<double>(tokens.size()) - 1;
    const double loss =
        ops::add_up(model.transformer.forward_backward(model.cut(batch), 1 / targets)).loss /
        targets;
    const json config = json::parse(spec.value().config_json);
    const std::string& of_text = spec.value().text_config;
    if ((of_text.empty() ? config : config[of_text]).value("output_router_logits", json()) != true)
        return loss;
    model.zero.finish_gradients();
    return loss + spec.value().router_aux_loss_coef * model.transformer.take_router_load().aux_loss;
}

json answer(const comm::Group& world, const json& wish) {
    const std::filesystem::path folder = wish.at("folder").get<std::string>();
    const auto spec = model::read_model_spec(folder / "config.json");
    if (!spec)
        return {{"code", static_cast<int>(spec.failure().code)},
                {"message", spec.failure().message}};
    if (!wish.contains("tokens"))
        return {{"architecture", spec.value().architecture},
                {"unknown", model::unknown_fields(folder / "config.json")}};
    try {
        return {{"loss", first_loss(world, wish)}};
    } catch (const std::exception& error) {
        return {{"crash", error.what()}};
    }
}

}  // namespace

int main() {
    const comm::MpiSession mpi;
    for (std::string line; std::getline(std::cin, line);)
        std::cout << answer(mpi.world(), json::parse(line)).dump() << std::endl;
    return 0;
}
