#include "unserved.hpp"

#include <vector>

#include "ringshard/base/text.hpp"

namespace ringshard::cli {

std::optional<Failure> find_unserved(const config::Settings& settings) {
    const config::Config& c = settings.values;
    const bool is_bf16 = c.training.mixed_precision == config::Precision::bf16;
    struct Rule {
        const char* name;
        bool is_asked_for;
        const char* what;
    };
    const Rule rules[] = {
        {"seq_parallel_communication_data_type",
         is_bf16 && c.parallel.seq_parallel_communication_data_type == config::NumberType::fp32,
         "a wider type on the way than in the computation"},
    };
    for (const Rule& rule : rules) {
        if (!rule.is_asked_for) continue;
        const auto given = settings.given.find(rule.name);
        const bool is_given = given != settings.given.end();
        return Failure{ExitCode::settings,
                       concat(rule.name, is_given ? " = " + given->second.text : "", " [",
                              settings.origin_of(rule.name).place, "]: ", rule.what,
                              " is not built in yet; leave it out")};
    }
    return std::nullopt;
}

}  // namespace ringshard::cli
