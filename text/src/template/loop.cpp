#include "loop.hpp"

#include "compare.hpp"

namespace ringshard::text::jinja {

namespace {

class InFrame {
public:
    InFrame(Run& run, const Ref<Object>& frame)
        : run_(run),
          before_(std::exchange(run.frame, Ref<Frame>(static_cast<Frame*>(frame.get())))) {}
    ~InFrame() { run_.frame = before_; }
    InFrame(const InFrame&) = delete;
    InFrame& operator=(const InFrame&) = delete;

private:
    Run& run_;
    Ref<Frame> before_;
};

}  // namespace

bool LoopItems::next(Run& run, Datum& out) {
    while (cursor_.next(run, out)) {
        if (!statement_->condition) return true;
        run.step();
        // The caller of next() may be in another function.
        const InFrame inside(run, around_);
        statement_->condition_entry.enter(run);
        assign(run, *statement_->condition_target, out);
        if (truth_of(statement_->condition->evaluate(run))) return true;
    }
    return false;
}

bool Loop::next(Run& run, Datum& out) {
    if (!peek(run).is(Kind::missing)) {
        out = std::exchange(after, Datum());
    } else {
        return false;
    }
    ++index;
    before = std::move(current);
    current = out;
    return true;
}

const Datum& Loop::peek(Run& run) {
    if (!after.is(Kind::missing)) return after;
    Datum ahead;
    if (is_collected_) {
        if (next_collected_ < collected_.size()) after = collected_[next_collected_++];
    } else if (items.next(run, ahead)) {
        after = std::move(ahead);
    }
    return after;
}

int64_t Loop::length(Run& run) {
    if (length_ >= 0) return length_;
    if (items.knows_size()) return length_ = static_cast<int64_t>(items.size());
    for (Datum rest; items.next(run, rest);) collected_.push_back(rest);
    is_collected_ = true;
    return length_ = static_cast<int64_t>(collected_.size()) + index + 1 +
                     (after.is(Kind::missing) ? 0 : 1);
}

Datum Loop::call(Run& run, Arguments& arguments) {
    if (!statement.recursive) fail("'loop' can be called only in {% for ... recursive %}");
    const Bound bound(arguments, "loop", {"iterable"}, 1);
    return caught_text(run, statement.loop(run, bound[0], depth + 1, definition));
}

namespace {

Datum cycle(Run&, const Datum& self, Arguments& arguments) {
    if (arguments.positional.empty()) fail("loop.cycle needs values");
    const auto index = static_cast<size_t>(self.as<Loop>().index);
    return arguments.positional[index % arguments.positional.size()];
}

Datum changed(Run&, const Datum& self, Arguments& arguments) {
    Loop& loop = self.as<Loop>();
    bool same = loop.was_asked && loop.changed.size() == arguments.positional.size();
    for (size_t i = 0; same && i < loop.changed.size(); ++i)
        same = equal(loop.changed[i], arguments.positional[i]);
    loop.was_asked = true;
    loop.changed = arguments.positional;
    return Datum(!same);
}

Datum neighbour(const Datum& item, std::string_view message) {
    return item.is(Kind::missing) ? Datum::undefined(Lack::told, message) : item;
}

}  // namespace

Datum loop_attribute(Run& run, const Datum& self, std::string_view name) {
    Loop& loop = self.as<Loop>();
    if (name == "index0") return Datum(loop.index);
    if (name == "index") return Datum(loop.index + 1);
    if (name == "first") return Datum(loop.index == 0);
    if (name == "last") return Datum(loop.peek(run).is(Kind::missing));
    if (name == "length") return Datum(loop.length(run));
    if (name == "revindex") return Datum(loop.length(run) - loop.index);
    if (name == "revindex0") return Datum(loop.length(run) - loop.index - 1);
    if (name == "depth") return Datum(int64_t{loop.depth} + 1);
    if (name == "depth0") return Datum(int64_t{loop.depth});
    if (name == "previtem") return neighbour(loop.before, "there is no item before the first");
    if (name == "nextitem") return neighbour(loop.peek(run), "there is no item after the last");
    static constexpr MethodEntry cycle_entry{"cycle", cycle};
    static constexpr MethodEntry changed_entry{"changed", changed};
    if (name == "cycle") return {Kind::callable, run.heap.make<Method>(self, cycle_entry).get()};
    if (name == "changed")
        return {Kind::callable, run.heap.make<Method>(self, changed_entry).get()};
    return {};
}

Flow For::run(Run& run) const {
    const Datum first = over->evaluate(run);
    const Ref<Object> here(run.frame.get());
    if (!recursive) return go(run, first, 0, here);
    *run.out += loop(run, first, 0, here);
    run.check_output(run.out->size());
    return Flow::on;
}

std::string For::loop(Run& run, const Datum& items, int depth,
                      const Ref<Object>& definition) const {
    run.check_stack();
    run.step();
    const Ref<Frame> around(static_cast<Frame*>(definition.get()));
    const Ref<Frame> before = std::exchange(run.frame, run.heap.make<Frame>(slots, around));
    std::string text = run.caught([&] { go(run, items, depth, definition); });
    run.frame = before;
    return text;
}

Flow For::go(Run& run, const Datum& items, int depth, const Ref<Object>& definition) const {
    bool any = false;
    Datum item;
    const auto turn = [&](const Datum& loop) {
        run.step();
        body_entry.enter(run);
        if (uses_loop) run.at(loop_place) = loop;
        assign(run, *target, item);
        const Flow flow = run_body(run, body);
        // Like jinja2: an iteration that ends early does not suppress the else branch.
        if (flow == Flow::on) any = true;
        return flow;
    };
    if (uses_loop) {
        const auto loop = run.heap.make<Loop>(run, *this, items, depth, definition);
        const Datum handle(Kind::loop, loop.get());
        while (loop->next(run, item))
            if (turn(handle) == Flow::leave) break;
    } else {
        LoopItems source(run, items, *this, definition);
        while (source.next(run, item))
            if (turn(item) == Flow::leave) break;
    }
    if (any) return Flow::on;
    otherwise_entry.enter(run);
    return run_body(run, otherwise);
}

}  // namespace ringshard::text::jinja
