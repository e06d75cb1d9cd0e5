#include "datum.hpp"

#include "compare.hpp"

namespace ringshard::text::jinja {

const Datum* Dict::find(std::string_view key) const {
    for (const auto& [name, value] : members)
        if (name.is(Kind::text) && name.text() == key) return &value;
    return nullptr;
}

const Datum* Dict::find(const Datum& key) const {
    if (key.is(Kind::text)) return find(key.text());
    for (const auto& [name, value] : members)
        if (equal(name, key)) return &value;
    return nullptr;
}

void Dict::set(const Datum& key, Datum value) {
    if (const Datum* old = find(key)) {
        const_cast<Datum&>(*old) = std::move(value);
        return;
    }
    charge(sizeof(Member));
    members.emplace_back(key, std::move(value));
}

Range::Range(Heap& store, int64_t first, int64_t end, int64_t stride)
    : Object(store), start(first), stop(end), step(stride), size(0) {
    // Unsigned, since the difference may overflow the signed type.
    const auto distance = [](int64_t low, int64_t high) {
        return static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    };
    uint64_t count = 0;
    if (step > 0 && start < stop)
        count = (distance(start, stop) - 1) / static_cast<uint64_t>(step) + 1;
    if (step < 0 && start > stop)
        count = (distance(stop, start) - 1) / (~static_cast<uint64_t>(step) + 1) + 1;
    static constexpr uint64_t max_range = 100'000;
    if (count > max_range) fail("the range has more than {} numbers", max_range);
    size = static_cast<int64_t>(count);
}

Space::Space(Heap& store) : Object(store), members(heap.make<Dict>()) { heap.watch(*this); }

void Space::clear() { members->members.clear(); }

Heap::~Heap() {
    // Clearing one object may free others, so restart at the first each time.
    while (mutables_ != nullptr) {
        const Ref<Object> first(mutables_);
        forget(*mutables_);
        first->clear();
    }
}

Datum Heap::text(std::string content) {
    Ref<Text> made = make<Text>(std::move(content));
    const std::string_view view = made->content;
    return {Datum(Kind::text, made.get()), view};
}

Datum Heap::list(std::vector<Datum> items) {
    return {Kind::list, make<List>(std::move(items)).get()};
}

Datum Heap::tuple(std::vector<Datum> items) {
    return {Kind::tuple, make<List>(std::move(items)).get()};
}

void Heap::watch(Object& object) {
    object.next_mutable = mutables_;
    if (mutables_ != nullptr) mutables_->previous_mutable = &object;
    mutables_ = &object;
}

void Heap::forget(Object& object) {
    if (mutables_ == &object) mutables_ = object.next_mutable;
    if (object.previous_mutable != nullptr)
        object.previous_mutable->next_mutable = object.next_mutable;
    if (object.next_mutable != nullptr)
        object.next_mutable->previous_mutable = object.previous_mutable;
    object.previous_mutable = object.next_mutable = nullptr;
}

void Heap::bury(Object* object) {
    object->next_dead = dead_;
    dead_ = object;
    if (burying_) return;
    burying_ = true;
    while (dead_ != nullptr) {
        Object* const first = dead_;
        dead_ = first->next_dead;
        forget(*first);
        delete first;
    }
    burying_ = false;
}

void Heap::fail_for_memory() const {
    fail("the template holds more than {} at a time", human_bytes(static_cast<double>(max_bytes_)));
}

void Heap::fail_for_work() const {
    fail("the template makes more than {} of values", human_bytes(static_cast<double>(max_made_)));
}

const char* kind_name(Kind kind) {
    switch (kind) {
        case Kind::missing:
        case Kind::undefined: return "Undefined";
        case Kind::none: return "NoneType";
        case Kind::boolean: return "bool";
        case Kind::large:
        case Kind::integer: return "int";
        case Kind::real: return "float";
        case Kind::text: return "str";
        case Kind::list: return "list";
        case Kind::tuple: return "tuple";
        case Kind::dict: return "dict";
        case Kind::range: return "range";
        case Kind::view: return "dict_view";
        case Kind::space: return "Namespace";
        case Kind::iterator: return "generator";
        case Kind::callable: return "function";
        case Kind::loop: return "LoopContext";
    }
    return "object";
}

const char* type_name(const Datum& value) {
    if (value.is(Kind::text) && value.is_markup()) return "Markup";
    return value.is(Kind::iterator) ? value.as<Iterator>().type_name() : kind_name(value.kind());
}

}  // namespace ringshard::text::jinja
