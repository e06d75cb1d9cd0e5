#include "pass_through.hpp"

#include <fcntl.h>

#include <algorithm>

#include "ringshard/base/shared_file.hpp"
#include "ringshard/shard/shard_layout.hpp"

namespace ringshard::hub {

std::vector<PassedBytes> passed_bytes(const WeightFiles& planned, const WrappedFiles& wrapped,
                                      int64_t rank, int64_t num_ranks) {
    int64_t total = 0;
    for (const auto& [name, tensor] : wrapped.stored().others())
        total += static_cast<int64_t>(tensor.length);
    const shard::Range mine = shard::part_of(total, rank, num_ranks);
    std::vector<PassedBytes> passed;
    int64_t begin = 0;  // of the tensor, among all
    for (const auto& [name, tensor] : wrapped.stored().others()) {
        const int64_t end = begin + static_cast<int64_t>(tensor.length);
        const shard::Range both = intersect(mine, {begin, end});
        for (size_t file = 0; file < planned.files.size() && both.size() > 0; ++file)
            if (const auto place = planned.files[file].others.find(name);
                place != planned.files[file].others.end())
                passed.push_back({&tensor, both.begin - begin, both.size(), file,
                                  place->second + both.begin - begin});
        begin = end;
    }
    return passed;
}

namespace {

std::optional<Failure> copy(const PassedBytes& passed, const StoredModel& from, File& output,
                            ByteCounter& written) {
    constexpr int64_t bytes_at_once = int64_t{4} << 20;
    std::vector<std::byte> buffer;
    for (int64_t done = 0; done < passed.count; done += bytes_at_once) {
        const int64_t count = std::min(bytes_at_once, passed.count - done);
        buffer.resize(static_cast<size_t>(count));
        if (auto failure = from.read_bytes(*passed.tensor, passed.first + done, buffer))
            return failure;
        if (auto failure = output.write_at(buffer, passed.offset + done)) return failure;
        written.add(count);
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> pass_through(const WeightFiles& planned, const WrappedFiles& wrapped,
                                    const PathOf& path_of, const comm::Group& world) {
    std::vector<PassedBytes> mine = passed_bytes(planned, wrapped, world.rank(), world.size());
    std::ranges::stable_sort(mine, {}, &PassedBytes::file);
    for (auto begin = mine.begin(); begin != mine.end();) {
        const size_t file = begin->file;
        auto output = open_when_visible(path_of(planned.files[file].name), O_WRONLY);
        if (!output) return output.failure();
        for (; begin != mine.end() && begin->file == file; ++begin)
            if (auto failure =
                    copy(*begin, wrapped.stored(), output.value(), world.flight_recorder().bytes()))
                return failure;
        if (auto failure = output.value().flush()) return failure;
    }
    return std::nullopt;
}

}  // namespace ringshard::hub
