#include "ringshard/data/check_templates.hpp"

#include "ringshard/base/files.hpp"
#include "ringshard/data/text_tools.hpp"
#include "row_template.hpp"

namespace ringshard::data {

namespace {

using text::Value;

std::optional<Failure> check_row_template(const std::string& setting) {
    if (setting.empty()) return std::nullopt;
    const auto source = read_row_template(setting);
    if (!source) return source.failure();
    const auto made = RowTemplate::parse(source.value(), {});
    if (!made) return made.failure();
    return std::nullopt;
}

std::optional<Failure> check_chat_template(std::string source, const std::string& name) {
    const auto parsed = text::ChatTemplate::parse(std::move(source), name);
    if (!parsed) return Failure{ExitCode::settings, parsed.failure().message};
    return std::nullopt;
}

}  // namespace

std::vector<Failure> check_templates(const TemplateSettings& settings) {
    std::vector<Failure> failures;
    const auto add = [&](std::optional<Failure> failure) {
        if (failure) failures.push_back(std::move(*failure));
    };
    add(check_row_template(settings.row_template));
    if (const auto variables = read_template_variables(settings.template_variables); !variables)
        failures.push_back(variables.failure());
    const auto datasets = text::read_json(settings.datasets);
    if (datasets && datasets.value().list() != nullptr)
        for (const Value& entry : *datasets.value().list()) {
            const Value* const own = entry.find("row_template");
            if (own == nullptr) continue;
            add(check_row_template(own->string() != nullptr ? *own->string() : to_json(*own)));
        }
    if (!settings.chat_template.empty())
        add(check_chat_template(settings.chat_template, "chat_template"));
    if (is_template_file(settings.chat_template_path)) {
        auto source = read_file(settings.chat_template_path);
        if (source)
            add(check_chat_template(std::move(*source), settings.chat_template_path));
        else
            failures.push_back({ExitCode::missing_input,
                                format_text("chat_template_path = {}: there is no such file",
                                            settings.chat_template_path)});
    }
    return failures;
}

}  // namespace ringshard::data
