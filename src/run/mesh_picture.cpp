#include "ringshard/run/mesh_picture.hpp"

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>

#include "ringshard/base/text.hpp"
#include "ringshard/config/config.hpp"
#include "ringshard/config/row_length.hpp"

namespace ringshard::run {

std::string draw_mesh(const mesh::MeshShape& shape, const std::vector<RankPlace>& places) {
    constexpr size_t shown_at_each_end = 32;
    std::set<std::string> hosts;
    size_t host_width = 4;
    size_t device_width = 6;
    for (const RankPlace& place : places) {
        hosts.insert(place.host);
        host_width = std::max(host_width, place.host.size());
        device_width = std::max(device_width, place.device.size());
    }
    std::ostringstream out;
    out << "mesh " << to_text(shape) << " (replicate x shard x ring x ulysses): " << places.size()
        << (places.size() == 1 ? " rank on " : " ranks on ") << hosts.size()
        << (hosts.size() == 1 ? " host\n" : " hosts\n");
    out << "  rank  " << std::left << std::setw(static_cast<int>(host_width)) << "host"
        << "  " << std::setw(static_cast<int>(device_width)) << "device" << std::right
        << "  replicate  shard  ring  ulysses\n";
    for (size_t rank = 0; rank < places.size(); ++rank) {
        if (places.size() > 2 * shown_at_each_end && rank == shown_at_each_end) {
            out << "   ...\n";
            rank = places.size() - shown_at_each_end;
        }
        const mesh::Coordinates at = coordinates_of(static_cast<int64_t>(rank), shape);
        out << std::setw(6) << rank << "  " << std::left << std::setw(static_cast<int>(host_width))
            << places[rank].host << "  " << std::setw(static_cast<int>(device_width))
            << places[rank].device << std::right << std::setw(11) << at.replicate << std::setw(7)
            << at.shard << std::setw(6) << at.ring << std::setw(9) << at.ulysses << '\n';
    }
    return out.str();
}

std::string describe_step(const mesh::MeshShape& shape, const config::Config& config) {
    const auto& training = config.training;
    const int64_t batch =
        training.per_device_train_batch_size * shape.data() * training.gradient_accumulation_steps;
    std::string lines = format_text(
        "effective batch {} rows = {} per device x {} data ranks x {} accumulation\n", batch,
        training.per_device_train_batch_size, shape.data(), training.gradient_accumulation_steps);
    if (shape.sequence() > 1)
        lines += format_text(
            "every {} ranks share one batch (cp_size {} x sp_size {}), so there are fewer data "
            "ranks than devices\n",
            shape.sequence(), shape.ring, shape.ulysses);
    if (const auto length = config::most_tokens_of_row(config))
        lines += format_text("at most {} tokens per step (max_length {})\n", batch * *length,
                             *config.data.max_length);
    const mesh::Cuts cuts = mesh::cuts_of(config.parallel);
    lines += format_text("{}{}\n", cuts.any() ? format_text("over {} ranks ", shape.zero()) : "",
                         to_text(cuts));
    return lines;
}

}  // namespace ringshard::run
