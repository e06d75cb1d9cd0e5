#include "ringshard/run/eval_prompts.hpp"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ringshard/base/files.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/choose_data.hpp"

namespace ringshard::run {

using nlohmann::json;

namespace {

Expected<EvalPrompts> read_on_root(const config::Config& config, const HubCache& hub,
                                   const model::ModelSpec& spec) {
    const std::string& file = config.evaluation.eval_prompts;
    if (!file_exists(file))
        return Failure{ExitCode::missing_input,
                       format_text("eval_prompts = {}: there is no such file", file)};
    const auto format = data::format_settings(config, hub);
    if (!format) return format.failure();
    auto tools = data::TextTools::load(format.value(), data::TextTools::Template::if_there);
    if (!tools) return tools.failure();
    EvalPrompts read{{}, std::make_shared<const data::TextTools>(std::move(tools).value())};
    std::vector<std::string> warnings;
    auto prompts = data::read_prompts(file, *read.tools, warnings);
    if (!prompts) return prompts.failure();
    for (const std::string& warning : warnings)
        std::cerr << "warning: " << shown_message(warning) << '\n';
    read.prompts = std::move(prompts).value();
    for (const data::Prompt& prompt : read.prompts)
        if (const int32_t largest = *std::ranges::max_element(prompt.tokens);
            largest >= spec.vocabulary)
            return Failure{ExitCode::bad_data,
                           format_text("eval_prompts = {}: a prompt has the token {}, and the "
                                       "model's vocabulary has only {}",
                                       file, largest, spec.vocabulary)};
    return read;
}

}  // namespace

comm::Agreed<std::optional<EvalPrompts>> read_eval_prompts(const CommandContext& context,
                                                           const HubCache& hub,
                                                           const model::ModelSpec& spec) {
    const config::Config& config = context.settings.values;
    if (config.evaluation.eval_prompts.empty()) return std::optional<EvalPrompts>();
    EvalPrompts prompts;
    const auto tokens = comm::of_root(context.world, [&]() -> Expected<std::string> {
        auto read = read_on_root(config, hub, spec);
        if (!read) return read.failure();
        prompts = std::move(read).value();
        json all = json::array();
        for (const data::Prompt& prompt : prompts.prompts) all.push_back(prompt.tokens);
        return all.dump();
    });
    if (!tokens) return tokens.failure();
    if (!context.world.is_root()) {
        const json received = parse_json<json>(tokens.value()).value();
        for (const json& prompt : received)
            prompts.prompts.push_back({{}, prompt.get<std::vector<int32_t>>()});
    }
    return std::optional(std::move(prompts));
}

std::vector<int32_t> find_end_tokens(const std::map<std::string, std::string>& sidecar_files,
                                     const comm::Group& world) {
    json found = json::array();
    for (const char* const name : {"generation_config.json", "config.json"}) {
        const auto file = sidecar_files.find(name);
        if (file == sidecar_files.end() || !found.empty()) continue;
        const json read = json_or_null<json>(file->second);
        json eos = read.is_object() ? read.value("eos_token_id", json()) : json();
        if (eos.is_null() && read.is_object() && read.contains("text_config"))
            eos = read["text_config"].value("eos_token_id", json());
        for (const json& id : eos.is_array() ? eos : json::array({eos}))
            if (id.is_number_integer()) found.push_back(id);
    }
    return parse_json<json>(world.broadcast(found.dump())).value().get<std::vector<int32_t>>();
}

}  // namespace ringshard::run
