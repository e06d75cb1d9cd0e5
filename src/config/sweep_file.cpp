#include "ringshard/config/sweep_file.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <random>
#include <sstream>

#include "ringshard/base/files.hpp"
#include "ringshard/base/shown.hpp"
#include "value_text.hpp"
#include "yaml_value.hpp"

namespace ringshard::config {

namespace {

// Far more than the elements of a SLURM array, and fewer than would fill the memory.
constexpr size_t most_runs = 100'000;

[[noreturn]] void refuse(const YAML::Node& node, const std::string& why) {
    throw YAML::Exception(node.Mark(), why);
}

std::vector<std::string> texts_of(const YAML::Node& list, const std::string& name) {
    if (!list.IsSequence()) refuse(list, name + ": must be a list of values");
    if (list.size() == 0) refuse(list, name + ": has no value, so there is no run");
    std::vector<std::string> texts;
    for (const YAML::Node& value : list) texts.push_back(to_text(value));
    return texts;
}

NamedTexts settings_of(const YAML::Node& mapping, const std::string& what) {
    if (!mapping.IsMap()) refuse(mapping, what + ": must hold lines such as `learning_rate: 2e-5`");
    NamedTexts settings;
    for (const auto& entry : mapping)
        settings.emplace_back(to_text(entry.first), to_text(entry.second));
    return settings;
}

std::vector<NamedTexts> runs_of_grid(const YAML::Node& grid) {
    if (!grid.IsMap() || grid.size() == 0)
        refuse(grid, "grid: must name settings, each with a list of values");
    std::vector<NamedTexts> runs{{}};
    for (const auto& entry : grid) {
        const std::string name = to_text(entry.first);
        const std::vector<std::string> values = texts_of(entry.second, name);
        if (runs.size() * values.size() > most_runs)
            refuse(grid, format_text("grid: makes more than {} runs", most_runs));
        std::vector<NamedTexts> longer;
        for (const NamedTexts& run : runs)
            for (const std::string& value : values) {
                longer.push_back(run);
                longer.back().emplace_back(name, value);
            }
        runs = std::move(longer);
    }
    return runs;
}

std::vector<NamedTexts> runs_of_list(const YAML::Node& list) {
    if (!list.IsSequence() || list.size() == 0)
        refuse(list, "list: must hold runs, each with the settings that it has for itself");
    std::vector<NamedTexts> runs;
    for (const YAML::Node& run : list) runs.push_back(settings_of(run, "list"));
    return runs;
}

// Random numbers that do not depend on the platform.
class Draw {
public:
    explicit Draw(uint64_t seed) : random_(seed) {}
    double between(double low, double high) {
        const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
        return low + share * (high - low);
    }
    size_t below(size_t count) {
        return std::min(count - 1, static_cast<size_t>(between(0, static_cast<double>(count))));
    }

private:
    std::mt19937_64 random_;
};

std::pair<double, double> range_of(const YAML::Node& range, const std::string& name) {
    if (range.IsSequence() && range.size() == 2) {
        const auto low = read_number(range[0].Scalar());
        const auto high = read_number(range[1].Scalar());
        if (low && high && *low <= *high) return {*low, *high};
    }
    refuse(range, name + ": must be two numbers, the lower one first");
}

// Rounds to four digits, as people write such numbers.
std::string rounded(double value) {
    std::ostringstream out;
    out << std::setprecision(4) << value;
    return shortest(read_number(out.str()).value_or(value));
}

// Draws from a list, or from {uniform: [a, b]}, {log_uniform: [a, b]}, {integer: [a, b]}.
std::string draw_one(const YAML::Node& from, const std::string& name, Draw& draw) {
    if (from.IsSequence()) {
        const std::vector<std::string> values = texts_of(from, name);
        return values[draw.below(values.size())];
    }
    if (!from.IsMap() || from.size() != 1)
        refuse(from, name +
                         ": must be a list of values, or one of uniform, log_uniform and "
                         "integer with [lowest, highest]");
    const std::string kind = from.begin()->first.Scalar();
    const YAML::Node written = from.begin()->second;
    const auto [low, high] = range_of(written, name);
    if (kind == "uniform") return rounded(draw.between(low, high));
    constexpr double most = 1e15;  // double represents whole numbers exactly up to here
    if (kind == "integer" && (low < -most || high > most))
        refuse(written, name + ": integer takes numbers up to 1e15");
    if (kind == "integer")
        return concat(static_cast<int64_t>(std::floor(draw.between(low, high + 1))));
    if (kind != "log_uniform")
        refuse(from,
               format_text(
                   "{}: there is no {}; give uniform, log_uniform or integer, or a list of values",
                   name, kind));
    if (low <= 0) refuse(written, name + ": log_uniform takes numbers above 0");
    return rounded(std::exp(draw.between(std::log(low), std::log(high))));
}

std::vector<NamedTexts> runs_of_random(const YAML::Node& random) {
    const YAML::Node over = random["over"];
    const int64_t count =
        random["count"] ? read_whole_number(random["count"].Scalar()).value_or(0) : 0;
    const auto seed = random["seed"] ? read_whole_number(random["seed"].Scalar()) : 0;
    if (count < 1 || count > static_cast<int64_t>(most_runs))
        refuse(random, format_text("random: count must be from 1 to {}", most_runs));
    if (!seed) refuse(random, "random: seed must be a whole number");
    if (!over || !over.IsMap() || over.size() == 0)
        refuse(random, "random: `over` must name settings, each with a distribution or a list");
    Draw draw(static_cast<uint64_t>(*seed));
    std::vector<NamedTexts> runs;
    for (int64_t i = 0; i < count; ++i) {
        NamedTexts run;
        for (const auto& entry : over) {
            const std::string name = to_text(entry.first);
            run.emplace_back(name, draw_one(entry.second, name, draw));
        }
        runs.push_back(std::move(run));
    }
    return runs;
}

bool is_yes(const YAML::Node& value, const std::string& name) {
    const auto given = value.IsScalar() ? read_boolean(value.Scalar()) : std::nullopt;
    if (!given) refuse(value, name + ": must be true or false");
    return *given;
}

Sweep sweep_of(const YAML::Node& root, const std::string& called) {
    if (!root.IsMap()) refuse(root, "must hold `settings`, and `grid`, `list` or `random`");
    Sweep sweep{called, {}, {}};
    int kinds = 0;
    for (const auto& entry : root) {
        const std::string key = entry.first.Scalar();
        const YAML::Node value = entry.second;
        const bool is_kind = key == "grid" || key == "list" || key == "random";
        kinds += is_kind ? 1 : 0;
        if (key == "name")
            sweep.name = to_text(value);
        else if (key == "one_job")
            sweep.is_one_job = is_yes(value, key);
        else if (key == "settings")
            sweep.common = settings_of(value, key);
        else if (key == "grid")
            sweep.runs = runs_of_grid(value);
        else if (key == "list")
            sweep.runs = runs_of_list(value);
        else if (key == "random")
            sweep.runs = runs_of_random(value);
        else
            refuse(entry.first,
                   key + ": a sweep has name, settings, one_job, and grid, list or random");
    }
    if (kinds != 1) refuse(root, "must define the runs by one of grid, list and random");
    const bool is_folder_name = !sweep.name.empty() && sweep.name != "." && sweep.name != ".." &&
                                sweep.name.find('/') == std::string::npos &&
                                sweep.name == with_escapes(sweep.name);
    if (!is_folder_name)
        refuse(root, format_text("name = {}: must be the name of a folder, without control "
                                 "characters",
                                 shown(sweep.name)));
    return sweep;
}

}  // namespace

Expected<Sweep> read_sweep(const std::filesystem::path& file) {
    const auto yaml = read_file(file);
    if (!yaml)
        return Failure{
            ExitCode::missing_input,
            format_text("{}: there is no such file, or it cannot be read", file.string())};
    try {
        return sweep_of(YAML::Load(*yaml), file.stem());
    } catch (const YAML::Exception& error) {  // turns it into a failure
        return Failure{ExitCode::settings,
                       format_text("{}:{}: {}", file.string(), error.mark.line + 1, error.msg)};
    }
}

NamedTexts Sweep::all_settings(size_t index) const {
    NamedTexts all;
    for (const auto& setting : common) {
        const bool is_said_again = std::ranges::any_of(
            runs[index], [&](const auto& own) { return own.first == setting.first; });
        if (!is_said_again) all.push_back(setting);
    }
    all.insert(all.end(), runs[index].begin(), runs[index].end());
    return all;
}

NamedTexts Sweep::settings_of_one_job() const {
    nlohmann::ordered_json adapters = nlohmann::ordered_json::array();
    for (size_t index = 0; index < runs.size(); ++index) {
        nlohmann::ordered_json adapter{{"name", concat(index)}};
        for (const auto& [setting, text] : runs[index]) adapter[setting] = text;
        adapters.push_back(std::move(adapter));
    }
    NamedTexts all = common;
    all.emplace_back("adapters", adapters.dump());
    return all;
}

std::string to_settings_file(const NamedTexts& settings) {
    std::string file;
    for (const auto& [name, text] : settings) {
        const bool is_plain = read_number(text) || read_boolean(text) || is_null(text) ||
                              text.starts_with("[") || text.starts_with("{");
        file += name + ": " + (is_plain ? text : nlohmann::json(text).dump()) + "\n";
    }
    return file;
}

}  // namespace ringshard::config
