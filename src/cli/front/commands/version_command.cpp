#include <iostream>

#include "ringshard/cli/front_commands.hpp"
#include "version.hpp"

namespace ringshard::cli {

int print_version() {
    std::cout << "ringshard " << version::program << " (" << version::build_type << ", "
              << version::compiler << ")\n"
              << "`trainer doctor` shows the libraries it runs with.\n";
    return number(ExitCode::done);
}

}  // namespace ringshard::cli
