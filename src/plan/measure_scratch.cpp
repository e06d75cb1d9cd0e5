#include <cstddef>
#include <span>

#include "ringshard/base/timer.hpp"
#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/offload/staging.hpp"
#include "ringshard/plan/devices.hpp"

namespace ringshard::plan {

namespace {

constexpr int64_t part_bytes = int64_t{16} << 20;
constexpr int64_t num_parts = 16;

// Reads or writes all parts in order, each while the next one is in flight.
template <class Start>
void for_parts(offload::ScratchFile& file, Start start) {
    offload::Operation last{};
    for (int64_t part = 0; part < num_parts; ++part) {
        const offload::Operation next = start(part * part_bytes, part % 2 == 0);
        if (part > 0) file.wait(last);
        last = next;
    }
    file.wait(last);
}

}  // namespace

Expected<double> measure_scratch(const std::filesystem::path& folder) {
    auto opened = offload::ScratchFile::open(folder);
    if (!opened) return opened.failure();
    offload::ScratchFile& file = opened.value();
    file.reserve(num_parts * part_bytes);
    if (auto failure = file.allocate()) return *failure;
    offload::Staging staging;
    const at::Tensor even = staging.take(part_bytes, at::kByte).fill_(1);
    const at::Tensor odd = staging.take(part_bytes, at::kByte).fill_(2);
    const auto pages = [&](bool is_even) { return offload::pages_of(is_even ? even : odd); };
    const Timer timer;
    for_parts(file,
              [&](int64_t offset, bool is_even) { return file.write(pages(is_even), offset); });
    for_parts(file,
              [&](int64_t offset, bool is_even) { return file.read(pages(is_even), offset); });
    return 2.0 * num_parts * part_bytes / timer.seconds();
}

}  // namespace ringshard::plan
