#pragma once

#include "run.hpp"

namespace ringshard::text::jinja {

// The items of a loop that satisfy its condition.
class LoopItems {
public:
    // `around`: the frame that contains the loop and its condition.
    LoopItems(Run& run, Datum over, const For& statement, Ref<Object> around)
        : statement_(&statement), cursor_(run, std::move(over)), around_(std::move(around)) {}
    void clear() { around_ = {}; }
    bool next(Run& run, Datum& out);
    bool knows_size() const { return !statement_->condition && cursor_.knows_size(); }
    size_t size() const { return cursor_.size(); }

private:
    const For* statement_;
    Cursor cursor_;
    Ref<Object> around_;
};

// The variable "loop": looks ahead only on demand.
struct Loop : Callable {
    Loop(Heap& store, Run& run, const For& of, Datum over, int level, Ref<Object> around)
        : Callable(store, 256),
          statement(of),
          items(run, std::move(over), of, around),
          depth(level),
          definition(std::move(around)) {
        heap.watch(*this);
    }
    void clear() override {
        definition = {};
        items.clear();
    }
    bool next(Run& run, Datum& out);
    const Datum& peek(Run& run);
    int64_t length(Run& run);
    // Runs the body of a recursive loop for other items.
    Datum call(Run& run, Arguments& arguments) override;
    std::string print() const override { return "<LoopContext>"; }

    const For& statement;
    LoopItems items;
    int depth;
    int64_t index = -1;
    Datum before, current, after;
    std::vector<Datum> changed;
    bool was_asked = false;
    Ref<Object> definition;  // the frame that contains the loop

private:
    std::vector<Datum> collected_;  // all items, if the template needed them
    bool is_collected_ = false;
    size_t next_collected_ = 0;
    int64_t length_ = -1;
};

Datum apply_chain(Run& run, const Expression& chain, const Datum& text);

}  // namespace ringshard::text::jinja
