#include "ringshard/base/terminate.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>

#include "ringshard/base/error.hpp"
#include "ringshard/base/shown.hpp"

namespace ringshard {

Failure describe_current_exception() {
    const std::exception_ptr exception = std::current_exception();
    if (!exception) return {ExitCode::internal, "terminated without an exception"};
    try {
        std::rethrow_exception(exception);
    } catch (const Error& error) {
        return {error.code(), error.what()};
    } catch (const std::bad_alloc&) {
        return {ExitCode::internal,
                "out of memory: use smaller batches, shorter rows or more ranks"};
    } catch (const std::filesystem::filesystem_error& error) {
        return {ExitCode::io, error.what()};
    } catch (const std::exception& error) {
        return {ExitCode::internal, error.what()};
    } catch (...) {
        return {ExitCode::internal, "unknown exception"};
    }
}

void end_process() {
    const Failure cause = describe_current_exception();
    std::fprintf(stderr, "trainer: %s\n", shown_message(cause.message).c_str());
    std::fflush(nullptr);
    std::_Exit(number(cause.code));
}

}  // namespace ringshard
