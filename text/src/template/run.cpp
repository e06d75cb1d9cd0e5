#include "run.hpp"

#include <cstdint>

#include "unicode/python_characters.hpp"

namespace ringshard::text::jinja {

namespace {

// Copying so many bytes takes about as long as a step.
constexpr uint64_t bytes_for_a_step = 64;

const char* stack_pointer() { return static_cast<const char*>(__builtin_frame_address(0)); }

}  // namespace

Run::Run(const Program& what, const RunLimits& limits)
    : heap(limits.max_held_bytes, bytes_for_a_step * limits.max_steps),
      program(what),
      limits_(limits),
      stack_(stack_pointer()) {
    outside_.reserve(program.outside_names.size());
    for (const std::string& name : program.outside_names) outside_.push_back(global(*this, name));
}

void Run::set_outside(std::string_view name, Datum value) {
    for (size_t i = 0; i < outside_.size(); ++i) {
        if (program.outside_names[i] != name) continue;
        outside_[i] = std::move(value);
        return;
    }
}

std::string Run::render() {
    frame = heap.make<Frame>(program.slots, Ref<Frame>());
    out = &whole_;
    program.entry.enter(*this);
    run_body(*this, program.body);
    out = nullptr;
    return std::move(whole_);
}

void Run::note_generated(std::string_view text) {
    generated_.push_back({whole_.size(), text.size(), count_code_points(text)});
}

void Run::check_stack() const {
    // A quarter of a typical thread's stack: far more than templates need, and safe.
    static constexpr ptrdiff_t max_stack = ptrdiff_t{2} << 20;
    const char* const now = stack_pointer();
    if ((stack_ > now ? stack_ - now : now - stack_) > max_stack)
        fail("macros or loops call themselves without end");
}

void Run::check_size(uint64_t count, size_t bytes_each) const {
    if (bytes_each > 0 && count > limits_.max_held_bytes / bytes_each)
        fail("the template would make a value of more than {}",
             human_bytes(static_cast<double>(limits_.max_held_bytes)));
}

void Run::fail_for_steps() const {
    fail("the template takes more than {} steps", limits_.max_steps);
}

void Run::fail_for_output() const {
    fail("the template puts out more than {}",
         human_bytes(static_cast<double>(limits_.max_output_bytes)));
}

}  // namespace ringshard::text::jinja
