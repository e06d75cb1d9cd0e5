#include "config_reader.hpp"
#include "ringshard/base/shown.hpp"

#include <cmath>

namespace ringshard::model {

using nlohmann::json;

int64_t ConfigReader::whole_number(const char* name, int64_t most) {
    const json value = part(name);
    const bool is_whole = value.is_number_integer();
    if (is_whole && value.get<int64_t>() > 0 && value.get<int64_t>() <= most)
        return value.get<int64_t>();
    complain(format_text(
        "{} = {}: must be a whole number above 0{}", name, shown(value.dump()),
        is_whole && value.get<int64_t>() > most ? format_text(", at most {}", most) : ""));
    return 1;
}

int64_t ConfigReader::whole_number_or(const char* name, int64_t most, int64_t otherwise) {
    return has(name) ? whole_number(name, most) : otherwise;
}

double ConfigReader::number_above_0(const char* name) {
    const json value = part(name);
    if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0)
        return value.get<double>();
    complain(format_text("{} = {}: must be a number above 0", name, shown(value.dump())));
    return 1;
}

double ConfigReader::number_above_0(const char* name, double otherwise) {
    return has(name) ? number_above_0(name) : otherwise;
}

bool ConfigReader::boolean(const char* name, bool otherwise) {
    const json value = part(name);
    if (value.is_null()) return otherwise;
    if (value.is_boolean()) return value.get<bool>();
    complain(format_text("{} = {}: must be true or false", name, shown(value.dump())));
    return otherwise;
}

std::string ConfigReader::word(const char* name, const std::string& otherwise) {
    const json value = part(name);
    if (value.is_null()) return otherwise;
    if (value.is_string()) return value.get<std::string>();
    complain(format_text("{} = {}: must be a word in quotes", name, shown(value.dump())));
    return otherwise;
}

void ConfigReader::complain(const std::string& rule) {
    if (!failure_)
        failure_ =
            Failure{ExitCode::settings, format_text("{}: {}{}", file_.string(), prefix_, rule)};
}

void ConfigReader::complain(const ConfigReader& inner) {
    if (!failure_) failure_ = inner.failure_;
}

}  // namespace ringshard::model
