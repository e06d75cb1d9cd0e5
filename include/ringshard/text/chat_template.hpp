#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/base/expected.hpp"
#include "ringshard/text/value.hpp"

namespace ringshard::text {

namespace jinja {
struct Program;
}

// A range of bytes.
struct ByteRange {
    size_t begin = 0;
    size_t end = 0;
    bool operator==(const ByteRange&) const = default;
};

// The inputs of a rendering. They must outlive it.
struct Conversation {
    std::span<const Value> messages;   // objects; at least one
    const Value* tools = nullptr;      // a list of objects, or null
    const Value* documents = nullptr;  // a list of objects, or null
    // bos_token, eos_token, ... and chat_template_kwargs; of two of one name the last counts.
    const Value::Object* variables = nullptr;
    bool add_generation_prompt = false;
    // The field of the last message that the rendering ends with, for the model to go on; empty:
    // the rendering is not cut.
    std::string_view continued_field = {};
};

struct Rendered {
    std::string text;
    // What stands in {% generation %} blocks, in the order in which they end. As with transformers,
    // a block begins where the text put out so far ends: in a macro or a set block that is where
    // the output around it began. Not filled when the last message is continued.
    std::vector<ByteRange> assistant;
};

// Limits of a rendering: a template that exceeds one of them fails.
struct TemplateLimits {
    size_t source_bytes = size_t{1} << 20;
    uint64_t steps = 200'000'000;
    size_t output_bytes = size_t{256} << 20;
    size_t held_bytes = size_t{1} << 30;
};

// A chat template in Jinja, as transformers' apply_chat_template renders it. Compiled once; may be
// used by several threads at a time.
class ChatTemplate {
public:
    // `name` is for messages: the file that the template came from.
    static Expected<ChatTemplate> parse(std::string source, std::string name,
                                        const TemplateLimits& limits = {});

    Expected<Rendered> render(const Conversation& conversation) const;

    // Returns true if the template has {% generation %} blocks.
    bool marks_assistant() const;
    // Returns true if the template reads a variable of that name.
    bool uses(std::string_view variable) const;
    const std::string& source() const { return source_; }
    const std::string& name() const { return name_; }

    // Sets the time that strftime_now() returns; by default the local time.
    void set_clock(std::function<std::tm()> clock) { clock_ = std::move(clock); }

private:
    ChatTemplate() = default;
    std::string source_;
    std::string name_;
    TemplateLimits limits_;
    std::shared_ptr<const jinja::Program> program_;
    std::function<std::tm()> clock_;
};

}  // namespace ringshard::text
