#include "ringshard/device/environment.hpp"

#include <cstdlib>
#include <filesystem>

#include "ringshard/base/files.hpp"

namespace ringshard::device {

namespace {

// A bundle (scripts/bundle) brings libraries that look for their parts where they were installed,
// unless a variable says otherwise: lines of NAME=folder, below the folder with this file.
void tell_libraries_where_a_bundle_is() {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto bundle = program.parent_path().parent_path();
    for (const std::string& line : split(read_file(bundle / "bundle.env").value_or(""), '\n'))
        if (const size_t equals = line.find('='); equals != std::string::npos)
            setenv(line.substr(0, equals).c_str(), (bundle / line.substr(equals + 1)).c_str(), 1);
}

}  // namespace

void prepare_environment(const Environment& environment) {
    tell_libraries_where_a_bundle_is();
    const auto set_if_unset = [&](const char* name, const char* value) {
        if (!environment.find(name)) setenv(name, value, 0);
    };
    set_if_unset("NCCL_DEBUG", "WARN");
    // Several communicators on one GPU: kernels are launched in the order of the calls.
    set_if_unset("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
    set_if_unset("PYTORCH_ALLOC_CONF", "expandable_segments:True");
    // oneDNN and LibTorch's layer over it cache a primitive for each shape of a product: half a
    // megabyte in bf16, and rows of all lengths have a thousand shapes.
    set_if_unset("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128");
    set_if_unset("LRU_CACHE_CAPACITY", "128");
}

Environment with_variables(const Environment& environment,
                           const Environment::Variables& variables) {
    Environment::Variables all = environment.all();
    for (const auto& [name, value] : variables) {
        setenv(name.c_str(), value.c_str(), 1);
        all[name] = value;
    }
    return Environment(std::move(all));
}

}  // namespace ringshard::device
