#include "ringshard/config/env_setting.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::config {

namespace {

// Of programs that have read them by then.
bool is_read_before(const std::string& name) {
    static constexpr std::array<std::string_view, 13> beginnings{
        "OMPI_", "PMIX_", "PMI_", "PRTE_",  "MPI",        "MV2_", "SLURM_",
        "UCX_",  "FI_",   "LD_",  "GLIBC_", "RINGSHARD_", "ASAN_"};
    return name == "PATH" || std::ranges::any_of(beginnings, [&](std::string_view beginning) {
               return name.starts_with(beginning);
           });
}

}  // namespace

Expected<std::map<std::string, std::string>> read_env(const std::string& text) {
    std::map<std::string, std::string> variables;
    if (text.empty()) return variables;
    const auto refuse = [](const std::string& rule) { return Failure{ExitCode::settings, rule}; };
    const auto object = json_or_null<nlohmann::ordered_json>(text);
    if (!object.is_object())
        return refuse("must be a mapping of variables, such as {\"HF_HOME\": \"/scratch/hf\"}");
    for (const auto& [name, value] : object.items()) {
        if (name.empty() || name.find('=') != std::string::npos)
            return refuse(format_text("'{}' is no name of a variable", name));
        if (!value.is_string() && !value.is_number() && !value.is_boolean())
            return refuse(format_text("{} must be a text or a number", name));
        if (is_read_before(name))
            return refuse(
                format_text("{} has been read before the settings are: set it in the "
                            "batch script, or before the command",
                            name));
        variables[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    return variables;
}

}  // namespace ringshard::config
