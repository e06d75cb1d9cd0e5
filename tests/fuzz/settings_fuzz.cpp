// libFuzzer: a byte that says what the rest is: a file for --config, for --accelerate_config, for
// --deepspeed_config_file, or a sweep. Settings that were accepted survive their own text.
#include "fuzz_folder.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/config/schedule_settings.hpp"
#include "ringshard/config/sweep_file.hpp"

namespace {

using namespace ringshard;

void check_flags(const config::OptionTable& table, const std::vector<std::string>& flags) {
    const auto resolution = config::resolve(table, flags, Environment());
    if (!resolution.problems.empty()) {
        (void)config::summary(resolution.problems);
        return;
    }
    const config::Settings& settings = resolution.settings;
    (void)config::read_schedule_settings(settings.values.training);
    (void)print_json(settings, table);
    const std::string yaml = print_yaml(settings, table);
    const auto letter = config::Settings::from_text(settings.to_text(), table);
    if (letter.to_text() != settings.to_text() || print_yaml(letter, table) != yaml)
        __builtin_trap();
}

}  // namespace

int try_reader(const uint8_t* data, size_t size) {
    static const test::FuzzFolder folder;
    static const config::OptionTable table;
    if (size == 0) return 0;
    const std::string_view content = test::text_of(data + 1, size - 1);
    const char kind = static_cast<char>(data[0]);
    if (kind == 's') {
        const auto sweep = config::read_sweep(folder.write("sweep.yaml", content));
        if (sweep && !sweep.value().runs.empty())
            (void)config::to_settings_file(sweep.value().all_settings(0));
        return 0;
    }
    const char* const flag = kind == 'a'   ? "--accelerate_config"
                             : kind == 'd' ? "--deepspeed_config_file"
                                           : "--config";
    check_flags(table, {flag, folder.write("settings.yaml", content).string()});
    return 0;
}
