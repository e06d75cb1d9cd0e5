#include "row_tools.hpp"

#include <algorithm>

namespace ringshard::data {

namespace {

bool is_chat(const DatasetFormat& format) {
    return format.form == RowForm::chat || format.form == RowForm::chat_prompt_completion ||
           format.form == RowForm::chat_pair || format.form == RowForm::labelled_chat;
}
bool is_alpaca(const DatasetFormat& format) { return format.form == RowForm::alpaca; }

// Fails if a setting is for conversations: rows with instruction and output are text where there is
// no chat template.
std::optional<Failure> check_alpaca_text(const FormatSettings& settings) {
    if (settings.assistant_only_loss)
        return Failure{ExitCode::settings,
                       "assistant_only_loss = true: rows with instruction and output are text "
                       "where there is no chat template; leave it out (completions alone are "
                       "learned), or name a template with chat_template_path"};
    const char* const setting = !settings.system_prompt.empty()    ? "system_prompt"
                                : !settings.loss_scale.empty()     ? "loss_scale"
                                : !settings.agent_template.empty() ? "agent_template"
                                                                   : nullptr;
    if (setting == nullptr) return std::nullopt;
    return Failure{ExitCode::settings,
                   format_text("{} is for conversations, and rows with instruction and output are "
                               "text where there is no chat template; leave it out, or name a "
                               "template with chat_template_path",
                               setting)};
}

}  // namespace

Expected<TextTools> load_row_tools(const FormatSettings& settings,
                                   std::span<const DatasetFormat> formats) {
    const bool has_alpaca = std::ranges::any_of(formats, is_alpaca);
    auto tools = TextTools::load(settings, std::ranges::any_of(formats, is_chat)
                                               ? TextTools::Template::needed
                                           : has_alpaca ? TextTools::Template::if_there
                                                        : TextTools::Template::not_needed);
    if (!tools) return tools.failure();
    if (has_alpaca && !tools.value().has_chat_template())
        if (auto failure = check_alpaca_text(settings)) return *failure;
    const auto ends_by_itself = [](const DatasetFormat& format) {
        return is_chat(format) || format.form == RowForm::segments ||
               format.form == RowForm::labelled_text;
    };
    if (tools.value().eos().empty() && !std::ranges::all_of(formats, ends_by_itself))
        return Failure{ExitCode::settings,
                       format_text("eos_token: the tokenizer of {} has none, and text rows end "
                                   "with it; set eos_token to a token of its vocabulary",
                                   settings.tokenizer.string())};
    if (settings.assistant_only_loss) tools.value().use_training_template();
    return tools;
}

}  // namespace ringshard::data
