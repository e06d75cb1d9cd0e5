#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <source_location>
#include <string>
#include <vector>

// A GPU's streams without a GPU. Work is done when it is launched; the model notes which memory it
// reads and writes, and finds pairs of accesses that no event orders. Every stream has a vector
// clock: of each stream the number of the last launch that has ended when its next one begins.
namespace ringshard::test {

struct Touch {
    const void* first;
    size_t bytes;
    bool writes;
    at::Tensor owner{};  // keeps the memory of recorded work
};
Touch touch(const at::Tensor& tensor, bool writes);

class StreamModel {
public:
    using Clock = std::vector<int64_t>;
    struct Launch {
        std::string what;
        std::vector<Touch> touches;
    };

    // The model is that of all calls of CUDA while it lives.
    StreamModel();
    ~StreamModel();
    StreamModel(const StreamModel&) = delete;
    StreamModel& operator=(const StreamModel&) = delete;
    static StreamModel* current();  // nullptr: none

    int make_stream();
    int stream() const { return stream_; }  // on which kernels are launched
    void set_stream(int stream) { stream_ = stream; }

    void launch(int stream, Launch launch);
    Clock record(int stream) const { return clocks_.at(static_cast<size_t>(stream)); }
    // The stream's later launches begin when the event is over; not so if `where` is left out.
    void wait(int stream, const Clock& event, const std::source_location& where);
    // The host waits for a stream before it launches anything else.
    void wait_on_host(int stream);

    // Launches between the two are not run, but returned.
    void begin_recording() { is_recording_ = true; }
    std::vector<Launch> end_recording();

    void leave_out(std::string place) { left_out_ = std::move(place); }
    const std::set<std::string>& places_of_waits() const { return places_; }  // "file:line"
    const std::set<std::string>& races() const { return races_; }
    int64_t num_launches(int stream) const {
        return clocks_.at(static_cast<size_t>(stream)).at(static_cast<size_t>(stream));
    }
    int num_streams() const { return static_cast<int>(clocks_.size()); }

    std::string phase;  // of the step, for reports

private:
    // The last access of a stream to some bytes, and the last that wrote them.
    struct Bytes {
        uintptr_t begin;
        uintptr_t end;
        bool writes;
        auto operator<=>(const Bytes&) const = default;
    };
    struct Access {
        int64_t time;
        std::string what;
    };
    void check(int stream, const Bytes& bytes, const std::string& what);

    std::vector<Clock> clocks_;
    std::vector<std::map<Bytes, Access>> accesses_;  // of every stream
    int stream_ = 0;
    bool is_recording_ = false;
    std::vector<Launch> recorded_;
    std::string left_out_;
    std::set<std::string> places_;
    std::set<std::string> races_;
};

}  // namespace ringshard::test
