#include "ringshard/checkpoint/saver.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "ringshard/checkpoint/store.hpp"
#include "save_job.hpp"
#include "stream_copy.hpp"

namespace ringshard::checkpoint {

namespace {

constexpr int64_t alignment = 64;  // bytes: copies begin at a cache line

// Contiguous elements of a chunk to copy at once: tensors lie side by side in a chunk, and large
// copies are faster.
struct Run {
    shard::FlatStore* shards;
    size_t chunk;
    int64_t begin;  // first element in the chunk
    int64_t end;
    int64_t at;  // byte offset in the copy
};

// The layout of a copy.
struct CopyPlan {
    std::vector<Run> runs;
    std::vector<int64_t> places;  // of every piece: byte offset in the copy
    int64_t bytes = 0;
};

CopyPlan plan_copy(const std::vector<OwnPiece>& pieces) {
    constexpr int64_t largest_gap = 64;  // elements: the alignment of tensors in a unit
    CopyPlan plan;
    for (const OwnPiece& piece : pieces) {
        const int64_t element = bytes_of(piece.type);
        for (size_t i = 0; i < piece.parts.size(); ++i) {
            const auto& [chunk, before, count] = piece.parts[i];
            const bool goes_on = !plan.runs.empty() && plan.runs.back().shards == piece.shards &&
                                 plan.runs.back().chunk == chunk &&
                                 before >= plan.runs.back().end &&
                                 before - plan.runs.back().end <= largest_gap;
            // A tensor that spans two chunks is one contiguous piece in the copy.
            const bool begins = i == 0;
            if (!goes_on && begins)
                plan.bytes = (plan.bytes + alignment - 1) / alignment * alignment;
            if (!goes_on) plan.runs.push_back({piece.shards, chunk, before, before, plan.bytes});
            Run& run = plan.runs.back();
            run.end = before + count;
            if (begins) plan.places.push_back(run.at + (before - run.begin) * element);
            plan.bytes = run.at + (run.end - run.begin) * element;
        }
    }
    return plan;
}

// Copies at memory bandwidth, with all threads of this rank.
void copy_numbers(const at::Tensor& to, const at::Tensor& from) {
    if (!from.device().is_cpu()) {
        to.copy_(from);
        return;
    }
    constexpr int64_t at_least = int64_t{1} << 20;  // bytes per thread
    auto* const into = static_cast<std::byte*>(to.data_ptr());
    const auto* const source = static_cast<const std::byte*>(from.data_ptr());
    at::parallel_for(0, static_cast<int64_t>(from.nbytes()), at_least,
                     [&](int64_t begin, int64_t end) {
                         stream(into + begin, source + begin, static_cast<size_t>(end - begin));
                     });
}

// Copies the current values of the pieces.
void copy_into(const at::Tensor& memory, const CopyPlan& plan, std::vector<OwnPiece>& pieces) {
    for (const Run& run : plan.runs) {
        const at::Tensor numbers = run.shards->load(run.chunk, shard::Access::read)
                                       .narrow(0, run.begin, run.end - run.begin);
        const auto bytes = static_cast<int64_t>(numbers.nbytes());
        copy_numbers(memory.narrow(0, run.at, bytes).view(numbers.scalar_type()), numbers);
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
        pieces[i].copy =
            memory.narrow(0, plan.places[i], pieces[i].bytes()).view(pieces[i].shards->type());
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
    give_up_room();
}

// Pins the copy, since a GPU writes pinned memory several times as fast.
void Saver::make_room(int64_t bytes, at::Device of_state) {
    if (bytes <= bytes_set_aside()) return;
    give_up_room();
    copy_ = at::empty({bytes}, at::TensorOptions(at::kByte));
    pins_ = offload::make_side_stream(of_state);
    pins_->pin(copy_.data_ptr(), copy_.nbytes());
}

void Saver::give_up_room() {
    if (pins_) pins_->unpin(copy_.data_ptr());
    pins_.reset();
    copy_ = at::Tensor();
}

int64_t Saver::bytes_set_aside() const {
    return copy_.defined() ? static_cast<int64_t>(copy_.nbytes()) : 0;
}

int64_t Saver::bytes_to_set_aside(const shard::Zero& zero, optim::Optimizer& optimizer,
                                  Contents contents) const {
    return std::max<int64_t>(
        0, plan_copy(own_pieces(zero, optimizer, contents)).bytes - bytes_set_aside());
}

void Saver::start(const Progress& progress, const shard::Zero& zero, optim::Optimizer& optimizer,
                  Contents contents, const Extras& extras, std::optional<int64_t> limit,
                  bool copies) {
    RINGSHARD_CHECK(!is_under_way(), "two saves at a time");
    faults_.reach("save:copy");
    SaveJob job{progress,
                store_.claim(),
                contents,
                all_datasets(zero, optimizer, contents),
                own_pieces(zero, optimizer, contents),
                extras,
                limit};
    if (copies) {
        const CopyPlan plan = plan_copy(job.pieces);
        make_room(plan.bytes, zero.device());
        copy_into(copy_, plan, job.pieces);
    }
    if (copies) {
        // noexcept: an exception must end the job at once. In the future it would stay unseen until
        // the next save, while the threads of other ranks wait for this one.
        outcome_ = std::async(std::launch::async, [this, job = std::move(job)]() noexcept {
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
