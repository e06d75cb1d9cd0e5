#include "ringshard/run/vocabulary.hpp"

#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/data/text_tools.hpp"

namespace ringshard::run {

std::optional<Failure> resize_vocabulary(const config::Config& config, const HubCache& hub,
                                         model::ModelSpec& spec, std::vector<std::string>& notes) {
    const std::string& path = config.model.chat_template_path;
    const bool takes_tokens = !path.empty() && !data::is_template_file(path);
    if (!takes_tokens && config.model.added_tokens.empty()) return std::nullopt;
    const auto format = data::format_settings(config, hub);
    if (!format) return format.failure();
    const auto tools = data::TextTools::load(format.value(), data::TextTools::Template::not_needed);
    if (!tools) return tools.failure();
    const data::TextTools::Adopted& adopted = tools.value().adopted();
    constexpr int64_t multiple = data::TextTools::vocabulary_multiple;
    const int64_t needed = adopted.tokens.empty() ? 0 : adopted.tokens.back().first + 1;
    // TRL gives the model as many rows as the tokenizer has tokens, be they fewer than before.
    const int64_t rows = adopted.vocabulary         ? *adopted.vocabulary
                         : needed > spec.vocabulary ? (needed + multiple - 1) / multiple * multiple
                                                    : spec.vocabulary;
    if (needed > rows)
        return Failure{ExitCode::bad_data,
                       format_text("{}: the tokenizer has {} tokens, whose ids leave gaps: no "
                                   "embedding of as many rows has one for the id {}",
                                   format.value().tokenizer.string(), rows, needed - 1)};
    if (takes_tokens && !adopted.tokens.empty())
        notes.push_back(
            format_text("chat_template_path = {}: its tokenizer adds {} tokens to the model's, as "
                        "in TRL, the first of them {}; a .jinja file adds none",
                        path, adopted.tokens.size(), shown(adopted.tokens.front().second.content)));
    if (rows != spec.vocabulary) spec.resize(rows);
    return std::nullopt;
}

}  // namespace ringshard::run
