#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "calls.hpp"
#include "nodes.hpp"

namespace ringshard::text::jinja {

// The variables of one call of a function.
struct Frame : Object {
    Frame(Heap& store, int num_slots, Ref<Frame> around)
        : Object(store, 96 + sizeof(Datum) * static_cast<size_t>(num_slots)),
          slots(static_cast<size_t>(num_slots)),
          outer(std::move(around)) {
        heap.watch(*this);
    }
    void clear() override {
        const std::vector<Datum> gone = std::move(slots);
        slots.clear();
    }
    std::vector<Datum> slots;
    Ref<Frame> outer;
};

struct RunLimits {
    uint64_t max_steps = 0;
    size_t max_output_bytes = 0;
    size_t max_held_bytes = 0;
};

// What was inside a generation block: where it begins among what was put out before.
struct Generated {
    size_t begin = 0;
    size_t bytes = 0;
    size_t code_points = 0;
};

// One rendering.
class Run {
public:
    Run(const Program& program, const RunLimits& limits);

    // Sets what the template finds under that name.
    void set_outside(std::string_view name, Datum value);
    std::string render();
    const std::vector<Generated>& generated() const { return generated_; }

    void step(uint64_t count = 1) {
        steps_ += count;
        if (steps_ > limits_.max_steps) fail_for_steps();
    }
    // Calls of macros and loops nest as deep as the stack allows.
    void check_stack() const;
    // Before something of that size is made.
    void check_size(uint64_t count, size_t bytes_each) const;
    void check_output(size_t bytes) const {
        if (bytes > limits_.max_output_bytes) fail_for_output();
    }

    Datum& at(const Place& place) {
        Frame* in = frame.get();
        for (int hops = place.hops; hops > 0; --hops) in = in->outer.get();
        return in->slots[static_cast<size_t>(place.slot)];
    }
    const Datum& outside(int index) const { return outside_[static_cast<size_t>(index)]; }
    void note_generated(std::string_view text);

    // Runs the body with its output caught.
    template <class Act>
    std::string caught(const Act& act) {
        std::string text;
        std::string* const before = std::exchange(out, &text);
        act();
        out = before;
        return text;
    }

    Heap heap;
    const Program& program;
    std::string* out = nullptr;
    Ref<Frame> frame;
    int line = 1;
    bool escapes = false;
    std::function<std::tm()> clock;

private:
    [[noreturn]] void fail_for_steps() const;
    [[noreturn]] void fail_for_output() const;
    RunLimits limits_;
    uint64_t steps_ = 0;
    std::vector<Datum> outside_;
    std::string whole_;
    std::vector<Generated> generated_;
    const char* stack_ = nullptr;
};

// Expressions.
Arguments evaluate_arguments(Run& run, const CallArguments& from);
Datum call_datum(Run& run, const Datum& callee, Arguments& arguments);
Datum attribute(Run& run, const Datum& of, const Datum& name);
Datum element(Run& run, const Datum& of, const Datum& index);
Datum slice(Run& run, const Datum& of, const Datum& start, const Datum& stop, const Datum& step);
// A method, of a text, a list or whatever has it.
Datum call_method(Run& run, const MethodEntry& method, const Datum& self, Arguments& arguments);
Datum add(Run& run, const Datum& left, const Datum& right);
Datum arithmetic(Run& run, Sign sign, const Datum& left, const Datum& right);
Datum percent_format(Run& run, std::string_view format, const Datum& values);
std::string brace_format(Run& run, std::string_view format, Arguments& arguments);
// The python format specification language: "{:>10.2f}".
std::string formatted(Run& run, const Datum& value, std::string_view specification);

void assign(Run& run, const Expression& target, const Datum& value);
void check_spaces(Run& run, const Expression& target);

// Goes over what Python can iterate over; fails if it cannot.
class Cursor {
public:
    Cursor() = default;
    Cursor(Run& run, Datum over);
    bool next(Run& run, Datum& out);
    // The number of all items, if that is known without going over them.
    bool knows_size() const { return knows_size_; }
    size_t size() const { return size_; }

private:
    Datum over_;
    size_t at_ = 0;
    size_t size_ = 0;
    bool knows_size_ = false;
};

std::vector<Datum> all_of(Run& run, const Datum& iterable);
Datum caught_text(Run& run, std::string text);

// For messages: "'content' is not defined".
std::string lack_message(const Datum& undefined);
[[noreturn]] inline void fail_undefined(const Datum& undefined) { fail(lack_message(undefined)); }

// The attributes of "loop".
Datum loop_attribute(Run& run, const Datum& loop, std::string_view name);

// A macro, as {% macro %} defines it.
Datum make_macro(Run& run, const MacroBody& macro);

std::string time_text(const std::tm& time, std::string_view format);

}  // namespace ringshard::text::jinja
