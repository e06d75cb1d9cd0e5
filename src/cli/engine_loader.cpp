#include <dlfcn.h>

#include <filesystem>

#include "ringshard/cli/engine.hpp"

namespace ringshard::cli {

std::function<EngineEntry> load_engine() {
    // It lies beside the program, wherever that is.
    const auto file =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libringshard_engine.so";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        throw Error(ExitCode::missing_input, concat(file.string(), " cannot be loaded: ", dlerror(),
                                                    "; it belongs beside the program, and LibTorch "
                                                    "where it was when the program was built"));
    void* symbol = dlsym(library, "ringshard_engine");
    RINGSHARD_CHECK(symbol != nullptr, file.string(), ": ", dlerror());
    return reinterpret_cast<EngineEntry*>(symbol);  // stays loaded until the process ends
}

}  // namespace ringshard::cli
