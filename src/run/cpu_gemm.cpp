#include "ringshard/run/cpu_gemm.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/base/hub_cache.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"
#include "ringshard/config/settings.hpp"
#include "ringshard/data/choose_data.hpp"
#include "ringshard/model/operations.hpp"

namespace ringshard::run {

using nlohmann::ordered_json;
using ops::GemmKind;
using ops::GemmPass;

namespace {

at::ScalarType compute_type(const config::Config& config) {
    return config.training.computes_in_bf16() ? at::kBFloat16 : at::kFloat;
}

const char* to_text(config::CpuGemm named) {
    switch (named) {
        case config::CpuGemm::automatic: return "auto";
        case config::CpuGemm::onednn: return "onednn";
        case config::CpuGemm::mkl: return "mkl";
        case config::CpuGemm::aten: return "aten";
        case config::CpuGemm::native: return "native";
    }
    return "";
}

std::vector<std::string> names_of(const ops::Gemms& gemms) {
    std::vector<std::string> names;
    for (const auto& backend : gemms.backends()) names.emplace_back(backend->name());
    return names;
}

// "forward by onednn, input gradients by mkl and onednn, weight gradients by mkl"
std::string describe(const ops::Gemms& gemms, const std::vector<GemmKind>& kinds) {
    std::vector<std::string> parts;
    std::set<std::string> all;
    for (const GemmPass pass : ops::gemm_passes) {
        std::set<std::string> names;
        for (const GemmKind& kind : kinds)
            if (kind.pass == pass) names.emplace(gemms.backend_of(kind).name());
        all.insert(names.begin(), names.end());
        parts.push_back(concat(pass == GemmPass::forward          ? "forward by "
                               : pass == GemmPass::input_gradient ? "input gradients by "
                                                                  : "weight gradients by ",
                               join({names.begin(), names.end()}, " and ")));
    }
    return all.size() == 1 ? "all by " + *all.begin() : join(parts, ", ");
}

// The choices that `auto` finds in files, and the kinds that remain to be timed.
struct AutomaticChoice {
    GemmTable table;
    std::string chosen_by;  // for people
};

// The choice of the start of this run, though the cache was lost.
void read_former_run(const config::Config& config, GemmTable& table) {
    const GemmTable former = former_table(config, "cpu_gemm");
    if (former.processor == table.processor && former.libraries == table.libraries &&
        former.threads == table.threads)
        table.products = former.products;
}

// On rank 0 alone.
AutomaticChoice choose_automatically(const CommandContext& context, const ops::Gemms& gemms,
                                     int64_t threads, const std::vector<GemmKind>& kinds) {
    const config::Config& config = context.settings.values;
    GemmTable cache = empty_table(gemms, threads);
    const auto file =
        gemm_cache_file(data::cache_folder(config.data, HubCache(context.environment)), cache);
    const std::string warning = read_gemm_cache(file, cache);
    if (!warning.empty()) std::cerr << "warning: " << warning << '\n';
    GemmTable former = empty_table(gemms, threads);
    read_former_run(config, former);

    std::vector<GemmKind> untimed;
    for (const GemmKind& kind : kinds)
        if (!cache.products.contains(name_of(kind)) && !former.products.contains(name_of(kind)))
            untimed.push_back(kind);
    const Timer timer;
    const auto fastest = ops::time_gemms(gemms, untimed);
    const double milliseconds = 1e3 * timer.seconds();
    for (const auto& [kind, backend] : fastest) cache.products[name_of(kind)] = backend->name();

    // The former choice of a resumed run overrides the cache.
    AutomaticChoice choice{former, "by rule"};
    choice.table.products.insert(cache.products.begin(), cache.products.end());
    if (!cache.products.empty()) choice.chosen_by = "as in " + file.string();
    if (!former.products.empty()) choice.chosen_by = "as in run.json of output_dir";
    if (fastest.empty()) return choice;
    choice.chosen_by =
        format_text("timed in {} ms, kept in {}", std::llround(milliseconds), file.string());
    if (const auto failure = write_file_atomically(file, to_json(cache)))
        std::cerr << "warning: the next run times matrix products again: data_cache_dir: "
                  << failure->message << '\n';
    return choice;
}

// Also where a file names a library that this build does not have.
std::string_view name_in(const GemmTable& table, const ops::Gemms& gemms, const GemmKind& kind) {
    const auto timed = table.products.find(name_of(kind));
    if (timed != table.products.end())
        for (const ops::GemmBackend* candidate : gemms.candidates(kind))
            if (candidate->name() == timed->second) return candidate->name();
    return gemms.by_rule(kind).name();
}

std::string record_of(const ops::Gemms& gemms, const std::vector<GemmKind>& kinds,
                      const std::string& chosen_by, int64_t threads) {
    GemmTable table = empty_table(gemms, threads);
    for (const GemmKind& kind : kinds)
        table.products[name_of(kind)] = gemms.backend_of(kind).name();
    ordered_json record = parse_json<ordered_json>(to_json(table)).value();
    record["chosen_by"] = chosen_by;
    return record.dump();
}

}  // namespace

std::vector<GemmKind> gemm_kinds(const model::ModelSpec& spec, at::ScalarType type) {
    std::vector<GemmKind> kinds;
    for (const auto& [out, in] : model::linear_layers(spec))
        for (const GemmPass pass : ops::gemm_passes) kinds.push_back({pass, type, out, in});
    return kinds;
}

std::optional<Failure> take_named_gemm(ops::Gemms& gemms, config::CpuGemm named,
                                       at::ScalarType type, const std::string& origin) {
    const auto failure = [&](const std::string& why) {
        return Failure{ExitCode::settings,
                       format_text("cpu_gemm = {} [{}]: {}; take one of {}, or auto",
                                   to_text(named), origin, why, join(names_of(gemms), ", "))};
    };
    ops::GemmBackend* backend = gemms.find(to_text(named));
    if (backend == nullptr)
        return failure(named == config::CpuGemm::onednn
                           ? "this build has no oneDNN (CMake finds it where libdnnl-dev is "
                             "installed)"
                           : "the LibTorch of this build has no MKL");
    if (!backend->serves(type))
        return failure(
            format_text("it has no products of bf16 for {}", gemms.processor().description()));
    gemms.choose_for_all(*backend);
    return std::nullopt;
}

std::optional<comm::AgreedFailure> take_choice_of_root(const comm::Group& world, ops::Gemms& gemms,
                                                       const std::vector<GemmKind>& kinds,
                                                       const GemmTable& table) {
    std::vector<std::string> names;
    if (world.is_root())
        for (const GemmKind& kind : kinds) names.emplace_back(name_in(table, gemms, kind));
    const std::vector<std::string> chosen = split(world.broadcast(join(names, " ")), ' ');
    std::optional<Failure> failure;
    for (size_t i = 0; i < kinds.size(); ++i) {
        ops::GemmBackend* backend = gemms.find(chosen.at(i));
        if (backend != nullptr && backend->serves(kinds[i].type))
            gemms.choose(kinds[i], *backend);
        else
            failure = Failure{
                ExitCode::settings,
                format_text("cpu_gemm = auto: rank 0 takes {}, which has no products of bf16 for "
                            "{}; cpu_gemm = aten serves every processor of this job",
                            chosen[i], gemms.processor().description())};
    }
    return comm::first_failure(world, failure);
}

std::string name_of(const GemmKind& kind) {
    return format_text("{}{}{}x{}", ops::to_text(kind.pass),
                       kind.type == at::kBFloat16 ? " bf16 " : " fp32 ", kind.out, kind.in);
}

GemmTable empty_table(const ops::Gemms& gemms, int64_t threads) {
    std::vector<std::string> libraries;
    for (const auto& backend : gemms.backends())
        libraries.push_back(format_text("{} {}", backend->name(), backend->version()));
    return {gemms.processor().description(), join(libraries, ", "), threads, {}};
}

std::string to_json(const GemmTable& table) {
    return ordered_json{{"processor", table.processor},
                        {"libraries", table.libraries},
                        {"threads", table.threads},
                        {"products", table.products}}
               .dump(2, ' ', false, ordered_json::error_handler_t::replace) +
           "\n";
}

Expected<GemmTable> parse_table(const std::string& text) {
    const Failure damaged{ExitCode::bad_data, "is no table of matrix products"};
    const ordered_json json = json_or_null<ordered_json>(text);
    const auto has = [&](const char* key, ordered_json::value_t type) {
        return json.contains(key) && json[key].type() == type;
    };
    using Type = ordered_json::value_t;
    if (!json.is_object() || !has("processor", Type::string) || !has("libraries", Type::string) ||
        !has("threads", Type::number_unsigned) || !has("products", Type::object))
        return damaged;
    GemmTable table{json["processor"], json["libraries"], json["threads"], {}};
    for (const auto& [kind, name] : json["products"].items()) {
        if (!name.is_string()) return damaged;
        table.products[kind] = name;
    }
    return table;
}

GemmTable former_table(const config::Config& config, const std::string& key) {
    const auto text = read_file(std::filesystem::path(config.run.output_dir) / "run.json");
    if (!text) return {};
    const ordered_json record = json_or_null<ordered_json>(*text);
    if (!record.is_object() || !record.contains(key)) return {};
    const auto former = parse_table(record[key].dump());
    return former ? former.value() : GemmTable{};
}

std::filesystem::path gemm_cache_file(const std::filesystem::path& folder, const GemmTable& table) {
    std::string name = lower_case(table.processor);
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
    return folder / format_text("cpu-gemm-{}-threads-{}.json", name, table.threads);
}

std::string read_gemm_cache(const std::filesystem::path& file, GemmTable& table) {
    if (!file_exists(file)) return {};
    const auto made_again = [&](const std::string& why) {
        return format_text("{} {}; matrix products are timed again", file.string(), why);
    };
    const auto text = read_file(file);
    if (!text) return made_again("cannot be read");
    const auto read = parse_table(*text);
    if (!read) return made_again(read.failure().message);
    if (read.value().processor != table.processor)
        return made_again(format_text("was made on another processor ({}; this one is {})",
                                      read.value().processor, table.processor));
    if (read.value().threads != table.threads) return made_again("is of another number of threads");
    if (read.value().libraries == table.libraries) table.products = read.value().products;
    return {};
}

comm::Agreed<ChosenGemms> choose_gemms(const CommandContext& context, const Placement& placement,
                                       const model::ModelSpec& spec) {
    const config::RunSettings& run = context.settings.values.run;
    const std::string origin = context.settings.origin_of("cpu_gemm").place;
    if (placement.device.is_cuda()) {
        if (run.cpu_gemm != config::CpuGemm::automatic)
            return comm::found_by_all(
                {ExitCode::settings,
                 format_text("cpu_gemm = {} [{}]: this run computes on GPUs; leave it out",
                             to_text(run.cpu_gemm), origin)});
        return ChosenGemms{{}, "null"};
    }
    auto opened = comm::agreed(context.world, ops::Gemms::open());
    if (!opened) return opened.failure();
    ops::Gemms gemms = std::move(opened).value();
    const std::vector<GemmKind> kinds = gemm_kinds(spec, compute_type(context.settings.values));
    std::string chosen_by;
    if (run.cpu_gemm != config::CpuGemm::automatic) {
        const auto failure =
            take_named_gemm(gemms, run.cpu_gemm, compute_type(context.settings.values), origin);
        if (const auto agreed = comm::first_failure(context.world, failure)) return *agreed;
        chosen_by = format_text("cpu_gemm = {}", to_text(run.cpu_gemm));
    } else {
        AutomaticChoice choice;
        if (context.world.is_root() && run.full_determinism)
            choice.chosen_by = "by rule, as full_determinism has it";
        else if (context.world.is_root())
            choice = choose_automatically(context, gemms, placement.num_threads, kinds);
        chosen_by = choice.chosen_by;
        if (const auto failure = take_choice_of_root(context.world, gemms, kinds, choice.table))
            return *failure;
    }
    std::string record = "null";
    if (context.world.is_root()) {
        std::cerr << "matrix products: " << describe(gemms, kinds) << " (" << chosen_by << ")\n";
        record = record_of(gemms, kinds, chosen_by, placement.num_threads);
    }
    return ChosenGemms{std::move(gemms), std::move(record)};
}

}  // namespace ringshard::run
