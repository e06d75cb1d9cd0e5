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

// The content of a generation block: position in the output at its beginning, and size.
struct Generated {
    size_t begin = 0;
    size_t bytes = 0;
    size_t code_points = 0;
};

// One rendering.
class Run {
public:
    Run(const Program& program, const RunLimits& limits);

    // Sets a variable of the context.
    void set_outside(std::string_view name, Datum value);
    std::string render();
    const std::vector<Generated>& generated() const { return generated_; }

    void step(uint64_t count = 1) {
        steps_ += count;
        if (steps_ > limits_.max_steps) fail_for_steps();
    }
    // Fails before nested macros and loops exhaust the stack.
    void check_stack() const;
    // Call before creating an object of that size.
    void check_size(uint64_t count, size_t bytes_each) const;
    // `bytes`: of the output that is being made; that around it counts, too.
    void check_output(size_t bytes) const {
        if (bytes + around_ > limits_.max_output_bytes) fail_for_output();
    }

    Datum& at(const Place& place) {
        Frame* in = frame.get();
        for (int hops = place.hops; hops > 0; --hops) in = in->outer.get();
        return in->slots[static_cast<size_t>(place.slot)];
    }
    const Datum& outside(int index) const { return outside_[static_cast<size_t>(index)]; }
    void note_generated(std::string_view text);

    // Runs the body and returns its output.
    template <class Act>
    std::string caught(const Act& act) {
        std::string text;
        std::string* const before = std::exchange(out, &text);
        const size_t size_before = before->size();
        around_ += size_before;
        act();
        around_ -= size_before;
        out = before;
        return text;
    }

    Heap heap;
    const Program& program;
    std::string* out = nullptr;
    Ref<Frame> frame;
    int line = 1;
    bool escapes = false;
    bool is_strict = false;  // a value that is not defined cannot be printed
    std::function<std::tm()> clock;

private:
    [[noreturn]] void fail_for_steps() const;
    [[noreturn]] void fail_for_output() const;
    RunLimits limits_;
    uint64_t steps_ = 0;
    size_t around_ = 0;  // bytes of unfinished output around the present one
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
// Calls a method of a text, a list or any other value.
Datum call_method(Run& run, const MethodEntry& method, const Datum& self, Arguments& arguments);
Datum add(Run& run, const Datum& left, const Datum& right);
Datum arithmetic(Run& run, Sign sign, const Datum& left, const Datum& right);
Datum percent_format(Run& run, std::string_view format, const Datum& values);
std::string brace_format(Run& run, std::string_view format, Arguments& arguments);
// Formats by Python's format specification: "{:>10.2f}".
std::string formatted(Run& run, const Datum& value, std::string_view specification);

void assign(Run& run, const Expression& target, const Datum& value);
void check_spaces(Run& run, const Expression& target);

// Iterates over a value like Python; fails if Python cannot.
class Cursor {
public:
    Cursor() = default;
    Cursor(Run& run, Datum over);
    bool next(Run& run, Datum& out);
    // True if the number of items is known without iterating.
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

// Returns "'content' is not defined", for messages.
std::string lack_message(const Datum& undefined);
[[noreturn]] inline void fail_undefined(const Datum& undefined) { fail(lack_message(undefined)); }

// Returns an attribute of "loop".
Datum loop_attribute(Run& run, const Datum& loop, std::string_view name);

// Creates the macro of a {% macro %} statement.
Datum make_macro(Run& run, const MacroBody& macro);

std::string time_text(const std::tm& time, std::string_view format);

}  // namespace ringshard::text::jinja
