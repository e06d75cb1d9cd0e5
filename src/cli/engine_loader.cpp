#include <dlfcn.h>

#include <filesystem>

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

namespace {

// A function of the engine, which lies beside the program, wherever that is.
void* find_in_engine(const char* name) {
    const auto file =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libringshard_engine.so";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        throw Error(ExitCode::missing_input, concat(file.string(), " cannot be loaded: ", dlerror(),
                                                    "; it belongs beside the program, and LibTorch "
                                                    "where it was when the program was built"));
    void* symbol = dlsym(library, name);
    RINGSHARD_CHECK(symbol != nullptr, file.string(), ": ", dlerror());
    return symbol;  // stays loaded until the process ends
}

}  // namespace

std::function<EngineEntry> load_engine() {
    return reinterpret_cast<EngineEntry*>(find_in_engine("ringshard_engine"));
}

std::function<PlanEntry> load_planner() {
    return reinterpret_cast<PlanEntry*>(find_in_engine("ringshard_plan"));
}

}  // namespace ringshard::cli
