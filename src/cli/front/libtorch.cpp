#include "ringshard/cli/libtorch.hpp"

#include <vector>

#include "ringshard/base/files.hpp"
#include "version.hpp"

namespace ringshard::cli {

namespace {

using std::filesystem::path;

path library_in(const path& torch) { return torch / "lib" / version::torch_library; }

// "2.11.0" of the line __version__ = '2.11.0+cu130'; nothing where LibTorch came without Python.
std::optional<std::string> version_of(const path& torch) {
    const std::string text = read_file(torch / "version.py").value_or("");
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with("__version__ = '")) return split(split(line, '\'')[1], '+').front();
    return std::nullopt;
}

// Nothing where the folder can be used.
std::optional<Failure> unfit(const path& torch) {
    if (!file_exists(library_in(torch)))
        return Failure{ExitCode::missing_input,
                       format_text("there is no {}", library_in(torch).string())};
    const auto version = version_of(torch);
    if (version && *version != version::torch)
        return Failure{ExitCode::settings,
                       format_text("{} is PyTorch {} and this program was built with {}",
                                   torch.string(), *version, version::torch)};
    return std::nullopt;
}

std::vector<path> python_folders(const path& lib) {
    std::error_code error;
    std::vector<path> found;
    for (const path& entry : folder_entries(lib, error))
        if (entry.filename().string().starts_with("python3"))
            for (const char* packages : {"site-packages", "dist-packages"})
                found.push_back(entry / packages / "torch");
    return found;
}

std::vector<path> places(const Environment& environment) {
    const path program = std::filesystem::read_symlink("/proc/self/exe");
    const path above = program.parent_path().parent_path();
    const bool is_in_bundle = file_exists(above / "bundle.env");
    std::vector<path> all = {is_in_bundle ? above / "torch" : path(version::torch_folder)};
    for (const std::string& folder : split(environment.find("PYTHONPATH").value_or(""), ':'))
        if (!folder.empty()) all.push_back(path(folder) / "torch");
    for (const std::string& folder : split(environment.find("PATH").value_or(""), ':'))
        if (!folder.empty())
            for (const path& torch : python_folders(path(folder) / ".." / "lib"))
                all.push_back(torch);
    return all;
}

}  // namespace

Expected<path> find_libtorch(const Environment& environment) {
    const std::string cure = format_text(
        "; install it by `pip install torch=={}` and name it by "
        "RINGSHARD_TORCH_DIR=/path/to/site-packages/torch",
        version::torch);
    if (const auto named = environment.find("RINGSHARD_TORCH_DIR")) {
        if (const auto problem = unfit(*named))
            return Failure{problem->code, format_text("RINGSHARD_TORCH_DIR = {}: {}{}", *named,
                                                      problem->message, cure)};
        return std::filesystem::canonical(*named);
    }
    std::string other_versions;
    for (const path& torch : places(environment)) {
        const auto problem = unfit(torch);
        if (!problem) return std::filesystem::canonical(torch);
        if (problem->code == ExitCode::settings) other_versions += "; " + problem->message;
    }
    return Failure{
        ExitCode::missing_input,
        format_text("LibTorch {} with {} was not found in a Python of PATH or PYTHONPATH{}{}",
                    version::torch, version::torch_library, other_versions, cure)};
}

}  // namespace ringshard::cli
