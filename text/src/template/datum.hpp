#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "failing.hpp"

// The values of a template: Python's values as far as templates see them.
//
// Texts of the row and of the template are views; a heap, which lives as long as one rendering,
// owns computed values. Reference counts are not atomic, since one thread does a rendering.
namespace ringshard::text::jinja {

class Heap;

struct Object {
    explicit Object(Heap& store, size_t bytes = 64);
    virtual ~Object();
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    // Drops references that may form a cycle.
    virtual void clear() {}
    void charge(size_t more);

    Heap& heap;
    uint32_t users = 0;
    size_t charged = 0;
    Object* next_dead = nullptr;
    Object* previous_mutable = nullptr;
    Object* next_mutable = nullptr;
};

template <class T>
class Ref {
public:
    Ref() = default;
    explicit Ref(T* object) : object_(object) { take(); }
    Ref(const Ref& other) : object_(other.object_) { take(); }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref();
    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    T* release() { return std::exchange(object_, nullptr); }

private:
    void take() {
        if (object_ != nullptr) ++object_->users;
    }
    T* object_ = nullptr;
};

enum class Kind : uint8_t {
    missing,  // no value yet; never stored in a variable
    undefined,
    none,
    boolean,
    integer,
    large,  // a whole number of the row beyond 64 bits: it can be printed and compared with its
            // like
    real,
    text,
    list,
    tuple,
    dict,
    range,
    view,  // of a dict: keys, values, items
    space,
    iterator,
    callable,
    loop,
};

// Why a value is undefined, for the message when a template uses it.
enum class Lack : uint8_t { name, attribute, element, unsafe, told };

struct List;
struct Dict;
struct Range;
struct View;
struct Space;
struct Iterator;
struct Callable;
struct Loop;

class Datum {
public:
    Datum() = default;
    explicit Datum(bool truth) : kind_(Kind::boolean) { content_.truth = truth; }
    explicit Datum(int64_t number) : kind_(Kind::integer) { content_.integer = number; }
    static Datum large(uint64_t number) {
        Datum result(static_cast<int64_t>(number));
        result.kind_ = Kind::large;
        return result;
    }
    explicit Datum(double number) : kind_(Kind::real) { content_.real = number; }
    // A view: its text must outlive the rendering.
    explicit Datum(std::string_view lasting) : kind_(Kind::text), size_(lasting.size()) {
        content_.chars = lasting.data();
    }
    explicit Datum(const char*) = delete;
    Datum(Kind kind, Object* object) : kind_(kind), owner_(object) {}
    // A part of a text, which keeps the whole text alive.
    Datum(const Datum& whole, std::string_view part)
        : kind_(Kind::text), size_(part.size()), owner_(whole.owner_) {
        content_.chars = part.data();
    }
    static Datum none() {
        Datum result;
        result.kind_ = Kind::none;
        return result;
    }
    static Datum undefined(Lack lack, const Datum& name, Kind of = Kind::missing);
    static Datum undefined(Lack lack, std::string_view lasting_name, Kind of = Kind::missing) {
        return undefined(lack, Datum(lasting_name), of);
    }

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
    bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
    bool is_number() const { return is_whole() || kind_ == Kind::real; }
    bool truth() const { return content_.truth; }
    int64_t integer() const { return kind_ == Kind::boolean ? content_.truth : content_.integer; }
    uint64_t large() const { return static_cast<uint64_t>(content_.integer); }
    double real() const {
        return kind_ == Kind::real ? content_.real : static_cast<double>(integer());
    }
    std::string_view text() const { return {content_.chars, size_}; }
    bool is_markup() const { return markup_; }
    Datum as_markup() const {
        Datum result = *this;
        result.markup_ = true;
        return result;
    }
    Datum without_markup() const {
        Datum result = *this;
        result.markup_ = false;
        return result;
    }

    template <class T>
    T& as() const {
        return static_cast<T&>(*owner_.get());
    }
    const std::vector<Datum>& items() const;
    Object* object() const { return owner_.get(); }

    Lack lack() const { return lack_; }
    Kind lacked_by() const { return lacked_by_; }

private:
    Kind kind_ = Kind::missing;
    bool markup_ = false;
    Lack lack_ = Lack::name;
    Kind lacked_by_ = Kind::missing;
    union {
        bool truth;
        int64_t integer;
        double real;
        const char* chars;
    } content_ = {.integer = 0};
    size_t size_ = 0;
    Ref<Object> owner_;
};

inline Datum Datum::undefined(Lack lack, const Datum& name, Kind of) {
    Datum result = name;
    if (name.kind_ == Kind::integer) result.size_ = SIZE_MAX;  // name is the index of an element
    result.kind_ = Kind::undefined;
    result.lack_ = lack;
    result.lacked_by_ = of;
    return result;
}

struct Text : Object {
    Text(Heap& store, std::string text)
        : Object(store, 64 + text.size()), content(std::move(text)) {}
    const std::string content;
};

struct List : Object {
    List(Heap& store, std::vector<Datum> data)
        : Object(store, 64 + sizeof(Datum) * data.size()), items(std::move(data)) {}
    const std::vector<Datum> items;
    bool is_group = false;  // from groupby: also has .grouper and .list
};

inline const std::vector<Datum>& Datum::items() const { return as<List>().items; }

using Member = std::pair<Datum, Datum>;

// Members in insertion order.
struct Dict : Object {
    explicit Dict(Heap& store) : Object(store, 96) {}
    const Datum* find(const Datum& key) const;
    const Datum* find(std::string_view key) const;
    void set(const Datum& key, Datum value);
    std::vector<Member> members;
};

struct Range : Object {
    Range(Heap& store, int64_t first, int64_t end, int64_t stride);
    int64_t at(int64_t index) const { return start + index * step; }
    int64_t start, stop, step, size;
};

struct View : Object {
    enum class Of : uint8_t { keys, values, items };
    View(Heap& store, Of part, Ref<Dict> whole) : Object(store), of(part), dict(std::move(whole)) {}
    Of of;
    Ref<Dict> dict;
};

// The object that `namespace()` creates: the only object that a template can change.
struct Space : Object {
    explicit Space(Heap& store);
    void clear() override;
    Ref<Dict> members;
};

// Iterates once, like Python's iterators and generators.
struct Iterator : Object {
    using Object::Object;
    virtual bool next(Datum& out) = 0;
    virtual const char* type_name() const { return "generator"; }
};

class Heap {
public:
    // `max_made`: of all values, `max_bytes`: of those at a time.
    Heap(size_t max_bytes, uint64_t max_made) : max_bytes_(max_bytes), max_made_(max_made) {}
    ~Heap();
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    template <class T, class... Arguments>
    Ref<T> make(Arguments&&... arguments) {
        return Ref<T>(new T(*this, std::forward<Arguments>(arguments)...));
    }
    Datum text(std::string content);
    Datum list(std::vector<Datum> items);
    Datum tuple(std::vector<Datum> items);

    // Registers a mutable object, which may be part of a cycle; the heap clears it at the end.
    void watch(Object& object);
    void charge(size_t bytes) {
        used_ += bytes;
        made_ += bytes;
        if (used_ > max_bytes_) fail_for_memory();
        if (made_ > max_made_) fail_for_work();
    }
    void discharge(size_t bytes) { used_ -= bytes; }
    // Frees an object without recursion, however deep the nesting.
    void bury(Object* object);
    void forget(Object& object);

private:
    [[noreturn]] void fail_for_memory() const;
    [[noreturn]] void fail_for_work() const;
    size_t max_bytes_;
    uint64_t max_made_;
    size_t used_ = 0;
    uint64_t made_ = 0;
    Object* dead_ = nullptr;
    bool burying_ = false;
    Object* mutables_ = nullptr;
};

inline Object::Object(Heap& owner, size_t bytes) : heap(owner) { charge(bytes); }
inline Object::~Object() { heap.discharge(charged); }
inline void Object::charge(size_t more) {
    heap.charge(more);
    charged += more;
}

template <class T>
Ref<T>::~Ref() {
    if (object_ != nullptr && --object_->users == 0) object_->heap.bury(object_);
}

inline Datum datum(const Ref<Dict>& dict) { return {Kind::dict, dict.get()}; }

const char* kind_name(Kind kind);
// Returns Python's name of the type: 'str', 'int', ...
const char* type_name(const Datum& value);

}  // namespace ringshard::text::jinja
