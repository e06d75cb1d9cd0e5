#include "ringshard/checkpoint/saver.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "ringshard/checkpoint/store.hpp"
#include "save_job.hpp"

namespace ringshard::checkpoint {

namespace {

constexpr int64_t alignment = 64;  // bytes: copies begin at a cache line

int64_t aligned_bytes(const OwnPiece& piece) {
    return (piece.bytes() + alignment - 1) / alignment * alignment;
}

int64_t bytes_of(const std::vector<OwnPiece>& pieces) {
    int64_t bytes = 0;
    for (const OwnPiece& piece : pieces) bytes += aligned_bytes(piece);
    return bytes;
}

// As fast as memory is, on all threads of this rank.
void copy_numbers(const at::Tensor& to, const at::Tensor& from) {
    if (!from.device().is_cpu()) {
        to.copy_(from);
        return;
    }
    constexpr int64_t at_least = int64_t{1} << 20;  // bytes to a thread
    auto* const into = static_cast<std::byte*>(to.data_ptr());
    const auto* const source = static_cast<const std::byte*>(from.data_ptr());
    at::parallel_for(
        0, static_cast<int64_t>(from.nbytes()), at_least, [&](int64_t begin, int64_t end) {
            std::memcpy(into + begin, source + begin, static_cast<size_t>(end - begin));
        });
}

// The pieces as they are now, side by side in `memory`.
void copy_into(const at::Tensor& memory, std::vector<OwnPiece>& pieces) {
    int64_t at = 0;
    for (OwnPiece& piece : pieces) {
        const auto type = piece.type == ElementType::bf16 ? at::kBFloat16 : at::kFloat;
        const at::Tensor copy = memory.narrow(0, at, piece.bytes()).view(type);
        at += aligned_bytes(piece);
        int64_t done = 0;
        piece.for_numbers([&](const at::Tensor& numbers) {
            copy_numbers(copy.narrow(0, done, numbers.numel()), numbers);
            done += numbers.numel();
        });
        piece.copy = copy;
    }
}

}  // namespace

Saver::Saver(const Store& store, SaveOptions options, const comm::Group& world, Faults& faults)
    : store_(store),
      options_(std::move(options)),
      groups_(std::make_unique<SaveGroups>(world, options_.ranks_per_node)),
      faults_(faults) {}

Saver::~Saver() {
    if (outcome_.valid()) outcome_.wait();
}

int64_t Saver::bytes_set_aside() const {
    return copy_.defined() ? static_cast<int64_t>(copy_.nbytes()) : 0;
}

int64_t Saver::bytes_to_set_aside(const shard::Zero& zero, optim::AdamW& optimizer,
                                  Extent extent) const {
    return std::max<int64_t>(0, bytes_of(own_pieces(zero, optimizer, extent)) - bytes_set_aside());
}

void Saver::start(const Progress& progress, const shard::Zero& zero, optim::AdamW& optimizer,
                  Extent extent, const Extras& extras, const Retention& retention, bool copies) {
    RINGSHARD_CHECK(!is_under_way(), "two saves at a time");
    faults_.reach("save:copy");
    SaveJob job{progress,
                store_.output_dir(),
                store_.attempt(),
                extent,
                all_datasets(zero.units(), extent, type_of_moments(optimizer)),
                own_pieces(zero, optimizer, extent),
                extras,
                retention};
    if (copies) {
        if (const int64_t bytes = bytes_of(job.pieces); bytes > bytes_set_aside()) {
            copy_ = at::Tensor();
            copy_ = at::empty({bytes}, at::TensorOptions(at::kByte));
        }
        copy_into(copy_, job.pieces);
    }
    if (copies) {
        outcome_ = std::async(std::launch::async, [this, job = std::move(job)] {
            return save(job, options_, *groups_, faults_);
        });
    } else {
        std::promise<SaveOutcome> done;
        done.set_value(save(job, options_, *groups_, faults_));
        outcome_ = done.get_future();
    }
}

bool Saver::is_done() const {
    return is_under_way() &&
           outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

SaveOutcome Saver::wait() {
    RINGSHARD_CHECK(is_under_way(), "no save to wait for");
    return outcome_.get();
}

}  // namespace ringshard::checkpoint
