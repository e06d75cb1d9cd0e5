#include "ringshard/ops/processor.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "kernel_choice.hpp"
#include "ringshard/base/environment.hpp"
#include "ringshard/base/error.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::ops {

std::string Processor::description() const {
    std::string text = name.empty() ? "unknown processor" : name;
    for (const char* feature : {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "sve", "bf16"})
        if (has(feature)) text += format_text(" {}", feature);
    return text;
}

Processor parse_processor(std::string_view cpuinfo) {
    Processor processor;
    std::string generation;
    for (const std::string& line : split(cpuinfo, '\n')) {
        if (line.empty()) break;  // the next core
        const size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::string_view key = trim(std::string_view(line).substr(0, colon));
        const std::string_view value = trim(std::string_view(line).substr(colon + 1));
        if (key == "cpu family") generation = format_text(", family {}", value);
        if (key == "model") generation += format_text(" model {}", value);
        if (key == "model name") processor.name = concat(value, generation);
        // Arm's processors have no name there, but numbers.
        if (key == "CPU implementer") processor.name = format_text("Arm implementer {}", value);
        if (key == "CPU part") processor.name += format_text(" part {}", value);
        if (key == "vendor_id") processor.vendor = value;
        if (key == "flags" || key == "Features")
            for (const std::string& feature : split(value, ' ')) processor.features.insert(feature);
    }
    return processor;
}

namespace {

// From the least kind of processor to the best: an index into `kinds`.
constexpr std::array<std::string_view, 5> kinds{"portable", "avx2", "avx512", "avx512_bf16", "amx"};

size_t kind_with(std::string_view feature) {
    if (feature.starts_with("amx")) return 4;
    if (feature == "avx512_bf16") return 3;
    if (feature.starts_with("avx512")) return 2;
    return feature == "avx2" || feature == "fma" ? 1 : 0;
}

size_t read_best_kind() {
    const auto wish = Environment::of_this_process().find("RINGSHARD_TEST_INSTRUCTIONS");
    if (!wish) return kinds.size() - 1;
    const auto* const found = std::ranges::find(kinds, *wish);
    if (found == kinds.end())
        throw Error(ExitCode::settings,
                    format_text("RINGSHARD_TEST_INSTRUCTIONS = {}: must be portable, avx2, avx512, "
                                "avx512_bf16 or amx",
                                *wish));
    return static_cast<size_t>(found - kinds.begin());
}

}  // namespace

bool is_hidden(const char* feature) {
    static const size_t best = read_best_kind();
    return kind_with(feature) > best;
}

// The first core is enough: on a host of many the kernel takes milliseconds to write them all.
Processor this_processor() {
    std::array<char, 16384> text{};
    std::ifstream file("/proc/cpuinfo");
    file.read(text.data(), text.size());
    Processor processor = parse_processor({text.data(), static_cast<size_t>(file.gcount())});
    std::erase_if(processor.features, [](const std::string& each) {
        return is_hidden(each.c_str()) || (each.starts_with("amx") && !has_bf16_tiles());
    });
    return processor;
}

}  // namespace ringshard::ops
