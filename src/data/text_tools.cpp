#include "ringshard/data/text_tools.hpp"

#include <algorithm>
#include <cctype>

#include "ringshard/base/error.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/text/assistant_spans.hpp"
#include "ringshard/text/message_spans.hpp"
#include "ringshard/text/training_template.hpp"
#include "row_columns.hpp"

namespace ringshard::data {

using text::ChatTemplate;
using text::TokenizerFolder;
using text::Value;

namespace {

void set(Value::Object& variables, const std::string& name, const std::string& text) {
    const auto there = std::ranges::find(variables, name, &Value::Object::value_type::first);
    if (there == variables.end())
        variables.emplace_back(name, text);
    else
        there->second = Value(text);
}

}  // namespace

Expected<TextTools::Chat> TextTools::Chat::read(Value messages, Value tools, Value variables) {
    if (messages.list() == nullptr || messages.list()->empty())
        return bad_row(format_text("messages is {}, where a list of messages is needed",
                                   messages.list() != nullptr ? "empty" : messages.kind()));
    size_t number = 0;
    for (const Value& message : *messages.list()) {
        ++number;
        if (message.object() == nullptr)
            return bad_row(
                format_text("message {} is {}, where an object is needed", number, message.kind()));
    }
    if (tools.string() != nullptr) {
        auto read = text::read_json(*tools.string());
        if (!read) return bad_row(format_text("tools is no JSON: {}", read.failure().message));
        tools = std::move(read).value();
    }
    if (tools.list() == nullptr && !tools.is_null())
        return bad_row(format_text("tools is {}, where a list is needed", tools.kind()));
    if (variables.object() == nullptr && !variables.is_null())
        return bad_row(
            format_text("chat_template_kwargs is {}, where an object is needed", variables.kind()));
    return Chat{std::move(messages), std::move(tools), std::move(variables)};
}

Expected<TextTools> TextTools::load(const FormatSettings& settings, Template use) {
    auto folder = TokenizerFolder::read(settings.tokenizer);
    if (!folder) return folder.failure();
    TextTools tools(std::move(folder).value());
    tools.eos_ = tools.folder_.special_token("eos_token").value_or("");
    tools.system_prompt_ = settings.system_prompt;
    for (const auto& [name, token] : tools.folder_.special_tokens)
        tools.variables_.emplace_back(name, token);
    std::vector<text::AddedToken> added;
    for (const std::string& token : settings.added_tokens) {
        if (token.empty())
            return Failure{ExitCode::settings, "added_tokens holds a token without characters"};
        added.push_back({.content = token});
    }
    if (auto failure = tools.add_tokens(std::move(added))) return *failure;
    if (!settings.eos_token.empty())
        if (auto failure = tools.take_eos(settings.eos_token, "eos_token")) return *failure;
    const bool has_template = tools.folder_.chat_template(false).has_value();
    const bool is_named = !settings.chat_template.empty() ||
                          !settings.chat_template_text.empty();  // then its EOS token applies, too
    if (use == Template::needed || is_named || (use == Template::if_there && has_template))
        if (auto failure = tools.take_template(settings)) return *failure;
    // Like TRL: without a padding token, the EOS token is the padding token.
    if (!tools.folder_.special_token("pad_token") && !tools.eos_.empty())
        set(tools.variables_, "pad_token", tools.eos_);
    return tools;
}

std::optional<int32_t> TextTools::padding_token() const {
    const std::string token = folder_.special_token("pad_token").value_or(eos_);
    return token.empty() ? std::nullopt : folder_.tokenizer.id_of(token);
}

// Adds the tokens that the tokenizer lacks.
std::optional<Failure> TextTools::add_tokens(std::vector<text::AddedToken> tokens) {
    text::Tokenizer& tokenizer = folder_.tokenizer;
    std::erase_if(tokens,
                  [&](const auto& token) { return tokenizer.id_of(token.content).has_value(); });
    if (auto failure = tokenizer.add_tokens(tokens)) return failure;
    for (text::AddedToken& token : tokens) {
        const int32_t id = *tokenizer.id_of(token.content);
        const bool is_repeated = !adopted_.tokens.empty() && id <= adopted_.tokens.back().first;
        if (!is_repeated) adopted_.tokens.emplace_back(id, std::move(token));
    }
    return std::nullopt;
}

// Rounds the vocabulary up and adds a token, named as in TRL, for each row without one.
std::optional<Failure> TextTools::fill_vocabulary() {
    const int64_t size = tokenizer().vocab_size();
    const int64_t rows =
        (size + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
    std::vector<text::AddedToken> fillers;
    for (int64_t number = 0; size + std::ssize(fillers) < rows; ++number) {
        const std::string name = format_text("<extra_id_{}>", number);
        if (!tokenizer().id_of(name)) fillers.push_back({.content = name});
    }
    adopted_.vocabulary = rows;
    return add_tokens(std::move(fillers));
}

std::optional<Failure> TextTools::take_eos(const std::string& token, const std::string& setting) {
    const auto id = tokenizer().id_of(token);
    if (!id)
        return Failure{
            ExitCode::settings,
            format_text("{} = {} is no token of the tokenizer's vocabulary", setting, token)};
    eos_ = token;
    adopted_.eos = {token, *id, setting != "eos_token"};
    set(variables_, "eos_token", token);
    return std::nullopt;
}

// Reads another model's template with its added tokens and its EOS token, like TRL: its default
// template alone, also for conversations with tools.
Expected<std::vector<std::string>> TextTools::template_of_other(const FormatSettings& settings) {
    const auto other = TokenizerFolder::read(settings.chat_template);
    if (!other) return other.failure();
    std::vector<text::AddedToken> tokens;
    for (const auto& [id, token] : other.value().tokenizer.added_tokens()) tokens.push_back(token);
    if (auto failure = add_tokens(std::move(tokens))) return *failure;
    if (const auto eos = other.value().special_token("eos_token"))
        if (auto failure = take_eos(*eos, "chat_template_path: eos_token")) return *failure;
    if (auto failure = fill_vocabulary()) return *failure;
    const auto source = other.value().chat_template(false);
    return source ? std::vector{*source} : std::vector<std::string>();
}

std::optional<Failure> TextTools::take_template(const FormatSettings& settings) {
    std::vector<std::string> sources;
    std::string name = settings.chat_template.string();
    const auto take_from = [&](const TokenizerFolder& folder) {
        for (const bool has_tools : {false, true})
            if (const auto source = folder.chat_template(has_tools)) sources.push_back(*source);
    };
    const bool is_named = !settings.chat_template.empty() || !settings.chat_template_text.empty();
    if (!settings.chat_template_text.empty()) {
        name = "chat_template";
        sources.push_back(settings.chat_template_text);
    } else if (settings.chat_template.empty()) {
        name = settings.tokenizer.string();
        take_from(folder_);
    } else if (is_template_file(settings.chat_template)) {
        const auto source = read_file(settings.chat_template);
        if (!source)
            return Failure{ExitCode::missing_input,
                           format_text("chat_template_path = {}: there is no such file", name)};
        sources.push_back(*source);
    } else {
        auto other = template_of_other(settings);
        if (!other) return other.failure();
        sources = std::move(other).value();
    }
    if (sources.empty() && is_named)
        return Failure{ExitCode::bad_data,
                       format_text("chat_template_path = {}: has no chat template", name)};
    if (sources.empty())
        return Failure{ExitCode::bad_data,
                       format_text("the rows are conversations, and {} has no chat template; name "
                                   "one with chat_template_path",
                                   name)};
    if (is_named) adopted_.chat_template = sources.front();
    if (sources.size() == 2 && sources[0] == sources[1]) sources.pop_back();
    for (std::string& source : sources) {
        auto parsed = ChatTemplate::parse(std::move(source), name);
        if (!parsed) return parsed.failure();
        templates_.push_back(std::move(parsed).value());
    }
    return std::nullopt;
}

void TextTools::use_training_template() {
    if (templates_.empty() || templates_.front().marks_assistant()) return;
    auto made = text::make_training_template(templates_.front().source());
    if (!made) return;
    auto parsed =
        ChatTemplate::parse(std::move(made->source),
                            format_text("{}, as training template", templates_.front().name()));
    if (!parsed) throw Error(parsed.failure());
    training_family_ = std::move(made->family);
    templates_.clear();
    templates_.push_back(std::move(parsed).value());
}

// A template and its input, which points into the chat and into `variables`.
struct TextTools::Conversation {
    std::unique_ptr<Value::Object> variables;
    const ChatTemplate* chat_template;
    text::Conversation content;
};

Expected<TextTools::Conversation> TextTools::conversation_of(const Chat& chat) const {
    if (templates_.empty())
        return Failure{ExitCode::bad_data,
                       "the tokenizer has no chat template; name one with "
                       "chat_template_path"};
    auto variables = std::make_unique<Value::Object>(variables_);
    const Value* documents = nullptr;
    if (const Value::Object* more = chat.variables.object())
        for (const auto& [name, value] : *more) {
            if (name == "documents")
                documents = &value;
            else
                variables->emplace_back(name, value);
        }
    const bool has_tools = chat.tools.list() != nullptr;
    const text::Conversation content{.messages = *chat.messages.list(),
                                     .tools = has_tools ? &chat.tools : nullptr,
                                     .documents = documents,
                                     .variables = variables.get(),
                                     .add_generation_prompt = chat.adds_generation_prompt,
                                     .continued_field = chat.continued_field};
    return Conversation{std::move(variables), has_tools ? &templates_.back() : &templates_.front(),
                        content};
}

Expected<text::Rendered> TextTools::render(const Chat& chat, bool finds_assistant) const {
    const auto conversation = conversation_of(chat);
    if (!conversation) return conversation.failure();
    const auto& [variables, chat_template, content] = conversation.value();
    auto rendered = chat_template->render(content);
    if (!rendered || !finds_assistant || chat_template->marks_assistant()) return rendered;
    auto ranges = text::find_assistant_spans(*chat_template, content);
    if (!ranges) return ranges.failure();
    rendered.value().assistant = std::move(ranges).value();
    return rendered;
}

Expected<std::vector<text::ByteRange>> TextTools::find_messages(
    const Chat& chat, std::string_view rendered, const std::vector<bool>& is_wanted) const {
    const auto conversation = conversation_of(chat);
    if (!conversation) return conversation.failure();
    return text::find_message_spans(*conversation.value().chat_template,
                                    conversation.value().content, rendered, is_wanted);
}

bool TextTools::template_reads(const std::string& key) const {
    const auto is_part_of_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    const auto names = [&](const std::string& source, const std::string& word) {
        for (size_t at = source.find(word); at != std::string::npos; at = source.find(word, at + 1))
            if ((at == 0 || !is_part_of_name(source[at - 1])) &&
                (at + word.size() == source.size() || !is_part_of_name(source[at + word.size()])))
                return true;
        return false;
    };
    return std::ranges::any_of(templates_, [&](const ChatTemplate& one) {
        std::string close = one.source();
        std::erase_if(close, [](char c) { return c == ' '; });
        return names(one.source(), key) || close.find("message|tojson") != std::string::npos ||
               close.find("messages|tojson") != std::string::npos ||
               close.find("message.items(") != std::string::npos ||
               close.find("message|items") != std::string::npos ||
               close.find("message|dictsort") != std::string::npos;
    });
}

bool is_template_file(const std::filesystem::path& path) {
    return path.extension() == ".jinja" || path.extension() == ".j2";
}

std::vector<bool> tokens_in(std::span<const text::ByteRange> ranges,
                            std::span<const text::Span> tokens) {
    std::vector<bool> is_in(tokens.size(), false);
    const auto holder_of = [&](size_t byte) {
        return static_cast<size_t>(std::ranges::find_if(tokens,
                                                        [&](const text::Span& token) {
                                                            return token.first <= byte &&
                                                                   byte < token.last;
                                                        }) -
                                   tokens.begin());
    };
    for (const text::ByteRange& range : ranges) {
        const size_t first = holder_of(range.begin);
        if (first == tokens.size()) break;
        const size_t last = range.end > 0 ? holder_of(range.end - 1) : tokens.size();
        const bool ends = last != 0 && last != tokens.size();
        for (size_t i = first; i < (ends ? last + 1 : tokens.size()); ++i) is_in[i] = true;
    }
    return is_in;
}

}  // namespace ringshard::data
