#pragma once

#include <stdexcept>
#include <string>

#include "ringshard/base/exit_code.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard {

// Ends the job: only the terminate handler catches it, prints it and exits with its code.
class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    explicit Error(const Failure& failure) : Error(failure.code, failure.message) {}
    ExitCode code() const noexcept { return code_; }

private:
    ExitCode code_;
};

[[noreturn]] void throw_broken_promise(const char* expression, const char* file, int line,
                                       const std::string& message);

}  // namespace ringshard

// Checks an invariant of the program. Mistakes of users are reported as Failure or Error instead.
#define RINGSHARD_CHECK(condition, ...)                                               \
    do {                                                                              \
        if (!(condition))                                                             \
            ::ringshard::throw_broken_promise(#condition, __FILE__, __LINE__,         \
                                              ::ringshard::format_text(__VA_ARGS__)); \
    } while (false)
