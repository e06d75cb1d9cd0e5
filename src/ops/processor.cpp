#include "ringshard/ops/processor.hpp"

#include <array>
#include <fstream>

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

// The first core is enough: on a host of many the kernel takes milliseconds to write them all.
Processor this_processor() {
    std::array<char, 16384> text{};
    std::ifstream file("/proc/cpuinfo");
    file.read(text.data(), text.size());
    return parse_processor({text.data(), static_cast<size_t>(file.gcount())});
}

}  // namespace ringshard::ops
