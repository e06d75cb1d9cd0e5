#include "ringshard/base/error.hpp"

namespace ringshard {

void throw_broken_promise(const char* expression, const char* file, int line,
                          const std::string& message) {
    throw Error(ExitCode::internal, format_text("{}:{}: {} does not hold{}{}", file, line,
                                                expression, message.empty() ? "" : ": ", message));
}

}  // namespace ringshard
