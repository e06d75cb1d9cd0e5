#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <set>

#include "http_client.hpp"
#include "own_flags.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/data/reference_rows.hpp"
#include "ringshard/text/tokenizer_folder.hpp"

namespace ringshard::cli {

namespace {

namespace fs = std::filesystem;
using data::LikelyTokens;
using text::Value;

struct ServerArgs {
    fs::path folder;
    HttpServer server;
    double tolerance = 0.25;
};

Failure verify_usage(const std::string& what) {
    return {ExitCode::usage,
            format_text("{}; trainer verify FOLDER --url http://HOST:PORT [--tolerance X]", what)};
}

Expected<ServerArgs> parse_server_args(const std::vector<std::string>& flags) {
    ServerArgs args;
    for (OwnFlags flag(flags); flag.next();) {
        if (!flag.name.starts_with("-")) {
            if (!args.folder.empty()) return verify_usage("name one folder");
            args.folder = flag.name;
            continue;
        }
        if (flag.name != "--url" && flag.name != "--tolerance")
            return verify_usage("beside --url there is no " + flag.name);
        const auto value = flag.value();
        if (!value) return verify_usage(flag.name + " has no value");
        if (flag.name == "--url") {
            auto server = HttpServer::parse(*value);
            if (!server) return server.failure();
            args.server = std::move(server).value();
            // The protocol's paths follow; a url may name their first part too.
            if (!args.server.prefix.ends_with("/v1")) args.server.prefix += "/v1";
        } else {
            const char* const end = value->data() + value->size();
            const auto [read, error] = std::from_chars(value->data(), end, args.tolerance);
            if (error != std::errc() || read != end || !(args.tolerance > 0))
                return verify_usage(format_text("--tolerance {}: is no positive number", *value));
        }
    }
    if (args.folder.empty()) return verify_usage("name the folder of the model that is served");
    if (args.server.host.empty())
        return verify_usage("--tolerance is that of a server: name --url");
    return args;
}

// The most likely next tokens that a server names: by their ids, or by their texts.
struct ServerLikely {
    LikelyTokens tokens;
    bool by_text = false;
};

// A server of the completions protocol.
class CompletionsServer {
public:
    // Asks for the name under which the server has its model.
    static Expected<CompletionsServer> find(const HttpServer& server,
                                            const text::Tokenizer* tokenizer) {
        CompletionsServer found(server, tokenizer);
        const auto models = found.ask_json("/models", {});
        if (!models) return models.failure();
        const Value* const list = models.value().find("data");
        const bool names_one = list != nullptr && list->list() != nullptr && !list->list()->empty();
        const Value* const name = names_one ? list->list()->front().find("id") : nullptr;
        if (name == nullptr || name->string() == nullptr)
            return found.wrong("/models", "names no model");
        found.model_ = *name->string();
        return found;
    }

    // `prompt`: text, or a list of ids.
    Expected<ServerLikely> complete(const Value& prompt, const LikelyTokens& wanted) const {
        return ask_likely("/completions",
                          {{"prompt", prompt},
                           {"logprobs", Value(data::References::most_likely)},
                           {"return_tokens_as_token_ids", Value(true)}},
                          wanted);
    }
    Expected<ServerLikely> chat(const Value& messages, const LikelyTokens& wanted) const {
        return ask_likely("/chat/completions",
                          {{"messages", messages},
                           {"logprobs", Value(true)},
                           {"top_logprobs", Value(data::References::most_likely)},
                           {"return_tokens_as_token_ids", Value(true)}},
                          wanted);
    }
    std::string text_of(int32_t token) const {
        return tokenizer_ == nullptr
                   ? std::string()
                   : tokenizer_->decode(std::span(&token, 1), text::Decoding::everything);
    }
    const std::string& model() const { return model_; }

private:
    CompletionsServer(const HttpServer& server, const text::Tokenizer* tokenizer)
        : server_(server), tokenizer_(tokenizer) {}

    Failure wrong(const std::string& path, const std::string& what) const {
        return {ExitCode::bad_data,
                format_text("url = {}: {} {}; it must offer the completions protocol with "
                            "log-probabilities, as vLLM, SGLang and llama.cpp do",
                            server_.url(), path, what)};
    }

    Expected<Value> ask_json(const std::string& path, const std::string& body) const {
        const auto answer = ask(server_, path, body);
        if (!answer) return answer.failure();
        const auto& [status, content] = answer.value();
        if (status != 200)
            return wrong(path, format_text("answers with status {}: {}", status, shown(content)));
        auto json = text::read_json(content);
        if (!json) return wrong(path, format_text("answers with no JSON: {}", shown(content)));
        return json;
    }

    Expected<ServerLikely> ask_likely(const std::string& path, Value::Object members,
                                      const LikelyTokens& wanted) const {
        Value asked(std::move(members));
        asked.set("model", Value(model_));
        asked.set("max_tokens", Value(int64_t{1}));
        asked.set("temperature", Value(int64_t{0}));
        const auto answer = ask_json(path, to_json(asked));
        if (!answer) return answer.failure();
        const Value* const choices = answer.value().find("choices");
        const bool has_one =
            choices != nullptr && choices->list() != nullptr && !choices->list()->empty();
        const Value* const logprobs = has_one ? choices->list()->front().find("logprobs") : nullptr;
        ServerLikely likely = logprobs != nullptr ? read_likely(*logprobs, wanted) : ServerLikely();
        if (likely.tokens.empty())
            return wrong(path,
                         format_text("answers without the {} most likely tokens (vLLM: "
                                     "--max-logprobs {})",
                                     data::References::most_likely, data::References::most_likely));
        std::ranges::sort(likely.tokens, std::greater(), &data::LikelyToken::log_probability);
        return likely;
    }

    // As lists of texts (vLLM, SGLang), or as objects with ids (llama.cpp, chats).
    ServerLikely read_likely(const Value& logprobs, const LikelyTokens& wanted) const {
        ServerLikely likely;
        const auto first_of = [](const Value* list) {
            return list != nullptr && list->list() != nullptr && !list->list()->empty()
                       ? &list->list()->front()
                       : nullptr;
        };
        if (const Value* top = first_of(logprobs.find("top_logprobs"));
            top != nullptr && top->object() != nullptr) {
            for (const auto& [token, number] : *top->object()) add(token, number, wanted, likely);
            return likely;
        }
        const Value* const content = first_of(logprobs.find("content"));
        const Value* const top = content == nullptr ? nullptr : content->find("top_logprobs");
        if (top == nullptr || top->list() == nullptr) return likely;
        for (const Value& one : *top->list()) {
            const Value* const id = one.find("id");
            const Value* const token = one.find("token");
            const Value* const number = one.find("logprob");
            if (number == nullptr) continue;
            if (id != nullptr && id->integer() != nullptr)
                add(concat("token_id:", *id->integer()), *number, wanted, likely);
            else if (token != nullptr && token->string() != nullptr)
                add(*token->string(), *number, wanted, likely);
        }
        return likely;
    }

    // A text is that of the first wanted token which decodes to it; else the token is unknown.
    void add(const std::string& token, const Value& number, const LikelyTokens& wanted,
             ServerLikely& likely) const {
        constexpr std::string_view id_mark = "token_id:";
        constexpr int32_t unknown = -1;
        double value = NAN;
        if (number.real() != nullptr) value = *number.real();
        if (number.integer() != nullptr) value = static_cast<double>(*number.integer());
        int32_t id = unknown;
        if (token.starts_with(id_mark)) {
            const auto read = read_whole_number(token.substr(id_mark.size()));
            id = static_cast<int32_t>(read.value_or(unknown));
        } else {
            likely.by_text = true;
            for (const auto& [one, log_probability] : wanted)
                if (id == unknown && text_of(one) == token) id = one;
        }
        likely.tokens.push_back({id, value});
    }

    HttpServer server_;
    const text::Tokenizer* tokenizer_;
    std::string model_;
};

// Compares a server with the references.
class ServerCheck {
public:
    ServerCheck(const CompletionsServer& server, double tolerance)
        : server_(server), tolerance_(tolerance) {}

    std::optional<Failure> check(size_t number, const data::ReferenceRow& row) {
        std::vector<Value> ids;
        size_t next = 0;
        double largest = 0;
        for (size_t place = 0; place < row.places.size(); ++place) {
            for (; next <= static_cast<size_t>(row.places[place]); ++next)
                ids.emplace_back(int64_t{row.tokens[next]});
            const auto found = server_.complete(Value(ids), row.likely[place]);
            if (!found) return found.failure();
            largest = std::max(largest, difference(row.likely[place], found.value()));
        }
        note("weights", largest, number, row, largest);
        // As text the row has the same end, unless the server makes other tokens of it.
        const LikelyTokens& last = row.likely.back();
        if (!row.text.empty()) {
            const auto found = server_.complete(Value(row.text), last);
            if (!found) return found.failure();
            note("tokenizer", difference(last, found.value()), number, row, largest);
        }
        if (row.messages.list() == nullptr || !row.adds_generation_prompt || says_date(row))
            return std::nullopt;
        const auto found = server_.chat(row.messages, last);
        if (!found) return found.failure();
        note("chat template", difference(last, found.value()), number, row, largest);
        return std::nullopt;
    }

    double largest() const { return largest_; }
    // Causes that differ by more than the tolerance.
    const std::set<std::string>& causes() const { return causes_; }

private:
    // References render the first day of 2024, and the server that of today.
    static bool says_date(const data::ReferenceRow& row) {
        return row.rendered.find("2024") != std::string::npos;
    }

    // Tokens whose texts others have too are left out where the server names texts.
    double difference(const LikelyTokens& wanted, const ServerLikely& found) const {
        if (!found.by_text) return data::largest_difference(wanted, found.tokens);
        LikelyTokens known;
        std::set<std::string> texts;
        for (const data::LikelyToken& one : wanted) {
            const std::string text = server_.text_of(one.token);
            constexpr const char* no_character = "\xEF\xBF\xBD";
            if (text.find(no_character) == std::string::npos && texts.insert(text).second)
                known.push_back(one);
        }
        return data::largest_difference(known, found.tokens);
    }

    // What the ids alone explain is no other cause's.
    void note(const char* cause, double difference, size_t number, const data::ReferenceRow& row,
              double of_ids) {
        largest_ = std::max(largest_, difference);
        if (difference <= tolerance_) return;
        if (cause != std::string_view("weights") && of_ids > tolerance_) return;
        std::cout << format_text("{}: row {} ({}): log-probabilities differ by up to {}\n", cause,
                                 number, row.shown(), difference);
        causes_.insert(cause);
    }

    const CompletionsServer& server_;
    double tolerance_;
    double largest_ = 0;
    std::set<std::string> causes_;
};

std::optional<Failure> compare_server(const ServerArgs& args) {
    const auto references = data::References::read(args.folder);
    if (!references) return references.failure();
    const auto folder = text::TokenizerFolder::read(args.folder);
    const auto server =
        CompletionsServer::find(args.server, folder ? &folder.value().tokenizer : nullptr);
    if (!server) return server.failure();
    ServerCheck check(server.value(), args.tolerance);
    for (size_t row = 0; row < references.value().rows.size(); ++row)
        if (auto failure = check.check(row, references.value().rows[row])) return failure;
    if (check.causes().empty()) {
        std::cout << format_text(
            "{} serves {} as exported: log-probabilities differ by at most {}, and {} is "
            "rounding\n",
            args.server.url(), shown(server.value().model()), check.largest(), args.tolerance);
        return std::nullopt;
    }
    const std::vector<std::string> causes(check.causes().begin(), check.causes().end());
    return Failure{
        ExitCode::bad_data,
        format_text("url = {}: does not serve what was exported to {}: {}; trainer verify {} says "
                    "whether the folder is whole; a server that rounds more has --tolerance X",
                    args.server.url(), args.folder.string(), join(causes, ", "),
                    args.folder.string())};
}

}  // namespace

int verify_server(const Invocation& invocation) {
    const auto args = parse_server_args(invocation.flags);
    if (!args) return report_failure(args.failure());
    const auto failure = compare_server(args.value());
    return failure ? report_failure(*failure) : number(ExitCode::done);
}

}  // namespace ringshard::cli
