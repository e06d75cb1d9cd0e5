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
    // bos_token, eos_token, ... and chat_template_kwargs; the last one of a name counts.
    const Value::Object* variables = nullptr;
    bool add_generation_prompt = false;
    // The field of the last message with which the rendering ends, for the model to continue;
    // empty: render to the end of the template.
    std::string_view continued_field = {};
};

struct Rendered {
    std::string text;
    // Ranges of {% generation %} blocks, in the order of their ends. Like transformers, a block
    // begins at the end of the output so far; in a macro or a set block that is the beginning of
    // the output around it. Empty if the last message is continued.
    std::vector<ByteRange> assistant;
};

// Limits of a rendering; a template that exceeds one fails. Output and held values may have eight
// times the bytes of the conversation besides, since rows may be long.
struct TemplateLimits {
    size_t source_bytes = size_t{1} << 20;
    uint64_t steps = 100'000'000;  // and so many times 64 bytes of values in all
    size_t output_bytes = size_t{64} << 20;
    size_t held_bytes = size_t{64} << 20;  // at a time
};

// A chat template in Jinja, which renders like transformers' apply_chat_template. Threads may share
// one.
class ChatTemplate {
public:
    // `name`: the file of the template, for messages.
    static Expected<ChatTemplate> parse(std::string source, std::string name,
                                        const TemplateLimits& limits = {});

    Expected<Rendered> render(const Conversation& conversation) const;

    // Renders without a conversation, from these variables alone. Fails where the template prints a
    // value that is not defined.
    Expected<std::string> render(const Value::Object& variables) const;
    // Returns the names that the template does not set itself: variables and functions.
    const std::vector<std::string>& outside_names() const;

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
