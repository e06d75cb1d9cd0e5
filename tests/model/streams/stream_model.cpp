#include "stream_model.hpp"

#include <algorithm>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::test {

namespace {

StreamModel* current_model = nullptr;

std::string name_of(const std::source_location& where) {
    const std::string path = where.file_name();
    return concat(path.substr(path.rfind('/') + 1), ":", where.line());
}

}  // namespace

Touch touch(const at::Tensor& tensor, bool writes) {
    int64_t last = 0;  // element
    for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const size_t bytes =
        tensor.numel() == 0 ? 0 : (static_cast<size_t>(last) + 1) * tensor.element_size();
    return {tensor.const_data_ptr(), bytes, writes, tensor};
}

StreamModel::StreamModel() {
    make_stream();
    current_model = this;
}

StreamModel::~StreamModel() { current_model = nullptr; }

StreamModel* StreamModel::current() { return current_model; }

int StreamModel::make_stream() {
    for (Clock& clock : clocks_) clock.push_back(0);
    // What was launched before a stream is made has not ended for it.
    clocks_.emplace_back(clocks_.size() + 1, 0);
    accesses_.emplace_back();
    return num_streams() - 1;
}

void StreamModel::launch(int stream, Launch launch) {
    if (is_recording_) {
        recorded_.push_back(std::move(launch));
        return;
    }
    const std::string what = phase.empty() ? launch.what : concat(launch.what, " in ", phase);
    const auto own = static_cast<size_t>(stream);
    const int64_t time = ++clocks_[own][own];
    for (const Touch& touch : launch.touches) {
        if (touch.bytes == 0) continue;
        const auto begin = reinterpret_cast<uintptr_t>(touch.first);
        const Bytes bytes{begin, begin + touch.bytes, touch.writes};
        check(stream, bytes, what);
        accesses_[own][bytes] = {time, what};
    }
}

void StreamModel::check(int stream, const Bytes& bytes, const std::string& what) {
    const Clock& clock = clocks_[static_cast<size_t>(stream)];
    for (size_t other = 0; other < accesses_.size(); ++other) {
        if (other == static_cast<size_t>(stream)) continue;
        for (const auto& [theirs, access] : accesses_[other]) {
            if (theirs.begin >= bytes.end) break;
            const bool conflicts = theirs.end > bytes.begin && (theirs.writes || bytes.writes);
            if (conflicts && clock[other] < access.time)
                races_.insert(concat(access.what, theirs.writes ? " writes" : " reads", " and ",
                                     what, bytes.writes ? " writes" : " reads"));
        }
    }
}

void StreamModel::wait(int stream, const Clock& event, const std::source_location& where) {
    const std::string place = name_of(where);
    places_.insert(place);
    if (place == left_out_) return;
    Clock& clock = clocks_[static_cast<size_t>(stream)];
    for (size_t other = 0; other < event.size(); ++other)
        clock[other] = std::max(clock[other], event[other]);
}

void StreamModel::wait_on_host(int stream) {
    const Clock ended = record(stream);
    for (Clock& clock : clocks_)
        for (size_t other = 0; other < ended.size(); ++other)
            clock[other] = std::max(clock[other], ended[other]);
}

std::vector<StreamModel::Launch> StreamModel::end_recording() {
    is_recording_ = false;
    return std::exchange(recorded_, {});
}

}  // namespace ringshard::test
