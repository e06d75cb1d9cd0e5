#include <mutex>

#include "ringshard/base/text.hpp"
#include "ringshard/device/device.hpp"

// The list of a rank's memory, for the message of a GPU that has none left.
namespace ringshard::device {

namespace {

// The allocator of a GPU calls its observers from any thread, and knows no owner of them.
struct Report {
    std::mutex mutex;
    std::function<std::string()> list;
};
Report& report() {
    static Report only;
    return only;
}

}  // namespace

void set_memory_report(std::function<std::string()> list) {
    const std::lock_guard lock(report().mutex);
    report().list = std::move(list);
}

Failure out_of_gpu_memory(int64_t gpu, size_t wanted, size_t total, size_t free) {
    const auto text = [](size_t bytes) { return human_bytes(static_cast<double>(bytes)); };
    const std::lock_guard lock(report().mutex);
    return {ExitCode::settings,
            format_text("GPU {} has no room for another {} ({} of {} are free). {}", gpu,
                        text(wanted), text(free), text(total),
                        report().list
                            ? report().list()
                            : "The model was not complete: take a profile that cuts more (zero3), "
                              "more ranks, or offload_optimizer_device = cpu; `trainer plan "
                              "--suggest` compares them")};
}

}  // namespace ringshard::device
