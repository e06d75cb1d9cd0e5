#include "ringshard/data/prompts.hpp"

#include <algorithm>
#include <set>

#include "row_columns.hpp"
#include "row_file.hpp"

namespace ringshard::data {

using text::SpecialTokens;
using text::Value;

namespace {

constexpr size_t most_prompts = 1000;

class PromptReader {
public:
    explicit PromptReader(const TextTools& tools) : tools_(tools), scratch_(tools.tokenizer()) {}

    Expected<Prompt> read(const Value& row) {
        const char* const name = column_of(row);
        if (name == nullptr) return bad_row("has no column prompt, messages or text");
        for (const auto& [column, value] : *row.object())
            if (column != name && column != "tools" && column != "chat_template_kwargs")
                unused_.insert(column);
        const Value& value = *row.find(name);
        if (value.string() != nullptr) return tokenize(*value.string(), SpecialTokens::add);
        if (value.list() == nullptr)
            return bad_row(format_text("{} is {}, where text or a list of messages is needed", name,
                                       value.kind()));
        if (!tools_.has_chat_template())
            return bad_row(
                format_text("{} is a list of messages, and the model has no chat template; name "
                            "one with chat_template_path",
                            name));
        return tokenize_messages(row, value);
    }
    const std::set<std::string>& unused() const { return unused_; }

private:
    static const char* column_of(const Value& row) {
        for (const char* const name : {"prompt", "messages", "text"})
            if (const Value* value = row.find(name); value != nullptr && !value->is_null())
                return name;
        return nullptr;
    }

    Expected<Prompt> tokenize_messages(const Value& row, const Value& messages) {
        const auto column = [&](const char* name) {
            const Value* value = row.find(name);
            return value != nullptr ? *value : Value();
        };
        Value with_system = messages;
        add_system_message(tools_.system_prompt(), with_system);
        auto chat =
            TextTools::Chat::read(with_system, column("tools"), column("chat_template_kwargs"));
        if (!chat) return chat.failure();
        chat.value().adds_generation_prompt = true;
        auto rendered = tools_.render(chat.value(), false);
        if (!rendered) return rendered.failure();
        return tokenize(std::move(rendered.value().text), SpecialTokens::leave_out);
    }

    Expected<Prompt> tokenize(std::string text, SpecialTokens special) {
        Prompt prompt{std::move(text), {}};
        if (auto failure = tools_.tokenizer().encode(prompt.text, special, scratch_, prompt.tokens))
            return *failure;
        if (prompt.tokens.empty())
            return bad_row("is an empty prompt: a model goes on from one token at least");
        return prompt;
    }

    const TextTools& tools_;
    text::Tokenizer::Scratch scratch_;
    std::set<std::string> unused_;
};

}  // namespace

Expected<std::vector<Prompt>> read_prompts(const std::filesystem::path& file,
                                           const TextTools& tools,
                                           std::vector<std::string>& warnings) {
    const auto opened = open_row_file(
        file, {.wanted = {"prompt", "messages", "text", "tools", "chat_template_kwargs"},
               .text = text_kind_of(file)});
    if (!opened) return opened.failure();
    const RowFile& rows = *opened.value();
    PromptReader reader(tools);
    std::vector<Prompt> prompts;
    std::optional<Failure> failure;
    int64_t first_row = 0;
    for (int64_t block = 0; block < rows.num_blocks(); ++block) {
        for (int64_t part = 0; part < rows.num_parts(block); ++part) {
            const auto use = [&](int64_t row, Expected<Value> content) {
                if (failure) return;
                auto prompt =
                    content ? reader.read(content.value()) : Expected<Prompt>(content.failure());
                if (!prompt)
                    failure = bad_row(format_text("{}: {}", rows.place(first_row + row),
                                                  prompt.failure().message));
                else if (prompts.size() == most_prompts)
                    failure = Failure{
                        ExitCode::settings,
                        format_text("eval_prompts = {}: has more than {} prompts, and every "
                                    "evaluation goes on from all of them; give it fewer rows",
                                    file.string(), most_prompts)};
                else
                    prompts.push_back(std::move(prompt).value());
            };
            const auto read = rows.read({block, part}, use);
            if (!read) return read.failure();
            if (failure) return *failure;
            first_row += read.value();
        }
    }
    if (prompts.empty())
        return bad_row(format_text("eval_prompts = {}: has no row", file.string()));
    if (const auto& unused = reader.unused(); !unused.empty())
        warnings.push_back(
            format_text("eval_prompts = {}: these columns are not read: {}", file.string(),
                        join(std::vector<std::string>(unused.begin(), unused.end()), ", ")));
    return prompts;
}

}  // namespace ringshard::data
