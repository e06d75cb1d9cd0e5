#include <dlfcn.h>

#include "ringshard/cli/engine.hpp"
#include "version.hpp"

namespace ringshard::cli {

namespace {

// Stays loaded until the process ends.
void* load_library(const std::filesystem::path& file, const char* cure,
                   const Environment& environment) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const std::string why = dlerror();
    const auto path = environment.find("LD_LIBRARY_PATH").value_or("");
    const std::string other = path.empty()
                                  ? ""
                                  : format_text(
                                        "; LD_LIBRARY_PATH = {} comes before the libraries of this "
                                        "program: unset it, or unload the modules that set it",
                                        path);
    throw Error(ExitCode::missing_input,
                format_text("{} cannot be loaded: {}{}; {}", file.string(), why, other, cure));
}

// The front and the engine hand C++ objects to each other, so one build makes both.
void check_version(void* engine, const std::filesystem::path& file) {
    using Version = const char*();
    auto* const version = reinterpret_cast<Version*>(dlsym(engine, "ringshard_engine_version"));
    const std::string_view found = version == nullptr ? "another version" : version();
    if (found == version::program) return;
    throw Error(
        ExitCode::missing_input,
        format_text("{} is of version {}, this program of {}: one build makes both; install "
                    "them together",
                    file.string(), found, version::program));
}

// A function of the engine, which lies beside the program, wherever that is. LibTorch's outermost
// library goes first: it knows where all others lie, its own and CUDA's, and the engine takes what
// is loaded already.
void* find_in_engine(const std::filesystem::path& torch, const Environment& environment,
                     const char* name) {
    load_library(torch / "lib" / version::torch_library,
                 "it needs the wheel's other libraries, and CUDA's in the folder `nvidia` beside "
                 "`torch`, as pip installs them",
                 environment);
    const auto file =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libringshard_engine.so";
    void* library =
        load_library(file, "it belongs beside the program, from the same build", environment);
    check_version(library, file);
    void* symbol = dlsym(library, name);
    RINGSHARD_CHECK(symbol != nullptr, "{}: {}", file.string(), dlerror());
    return symbol;
}

}  // namespace

std::function<EngineEntry> load_engine(const std::filesystem::path& torch,
                                       const Environment& environment) {
    return reinterpret_cast<EngineEntry*>(find_in_engine(torch, environment, "ringshard_engine"));
}

std::function<PlanEntry> load_planner(const std::filesystem::path& torch,
                                      const Environment& environment) {
    return reinterpret_cast<PlanEntry*>(find_in_engine(torch, environment, "ringshard_plan"));
}

}  // namespace ringshard::cli
