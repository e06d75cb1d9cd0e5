#pragma once

#include <set>
#include <string>
#include <string_view>

namespace ringshard::ops {

// The properties that decide how fast the matrix products of a library are.
struct Processor {
    std::string name;    // "AMD EPYC, family 26 model 2", "Arm implementer 0x41 part 0xd40"
    std::string vendor;  // "AuthenticAMD", "GenuineIntel"; empty on Arm
    std::set<std::string> features;  // "avx512_bf16", "amx_bf16", as Linux names them

    bool has(const char* feature) const { return features.contains(feature); }
    // True if the processor has instructions that multiply bf16. Libraries imitate them elsewhere,
    // which takes four to fifty times as long as the same product in fp32.
    bool multiplies_bf16() const {
        return has("avx512_bf16") || has("amx_bf16") || has("bf16") || has("svebf16");
    }
    // The name with the instruction sets that matter here: virtual machines give different
    // processors the same name.
    std::string description() const;
};

// From text as in /proc/cpuinfo, where all cores are taken to be like the first.
Processor parse_processor(std::string_view cpuinfo);
Processor this_processor();

}  // namespace ringshard::ops
