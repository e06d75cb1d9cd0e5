// The entry point of libFuzzer: passes one input to the reader of this program, and ends it after
// 20 seconds of CPU time. libFuzzer's own limit is by the clock, which passes on a busy machine for
// inputs that only wait.
#include <sys/time.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

int try_reader(const uint8_t* data, size_t size);

namespace {

void allow_processor_seconds(int seconds) {
    const itimerval left{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
    setitimer(ITIMER_PROF, &left, nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    std::signal(SIGPROF, [](int) { std::abort(); });  // which libFuzzer reports, with the stack
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    allow_processor_seconds(20);
    const int result = try_reader(data, size);
    allow_processor_seconds(0);
    return result;
}
