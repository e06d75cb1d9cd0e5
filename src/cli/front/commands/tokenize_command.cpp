#include <fstream>
#include <iostream>

#include "ringshard/base/hub_cache.hpp"
#include "ringshard/cli/front_commands.hpp"
#include "ringshard/cli/report_failure.hpp"
#include "ringshard/config/resolve.hpp"
#include "ringshard/data/text_tools.hpp"

namespace ringshard::cli {

namespace {

using text::SpecialTokens;
using text::Value;

// Answers one line of input: {"text"} or {"messages", ...} to tokens, {"ids"} to text.
class LineTokenizer {
public:
    explicit LineTokenizer(const data::TextTools& tools)
        : tools_(tools), scratch_(tools.tokenizer()) {}

    Expected<Value> answer(const Value& line) {
        if (line.find("messages") != nullptr) return tokenize_chat(line);
        Value answer{Value::Object()};
        if (const Value* text = line.find("text"); text != nullptr && text->string() != nullptr)
            return tokenize(*text->string(), SpecialTokens::add, std::move(answer));
        if (const Value* ids = line.find("ids"); ids != nullptr && ids->list() != nullptr) {
            std::vector<int32_t> numbers;
            for (const Value& id : *ids->list())
                numbers.push_back(id.integer() != nullptr ? static_cast<int32_t>(*id.integer())
                                                          : -1);
            add_decoded(numbers, answer);
            return answer;
        }
        return Failure{ExitCode::bad_data, "has neither text, messages nor ids"};
    }

private:
    Expected<Value> tokenize(const std::string& text, SpecialTokens special, Value answer) {
        ids_.clear();
        spans_.clear();
        if (auto failure = tools_.tokenizer().encode(text, special, scratch_, ids_, spans_))
            return *failure;
        answer.set("ids", text::to_list(ids_));
        if (special == SpecialTokens::add) {
            std::vector<int32_t> bare;
            if (auto failure =
                    tools_.tokenizer().encode(text, SpecialTokens::leave_out, scratch_, bare))
                return *failure;
            answer.set("ids_no_special", text::to_list(bare));
        }
        add_decoded(ids_, answer);
        return answer;
    }

    Expected<Value> tokenize_chat(const Value& line) {
        const auto flag = [&](const char* name) {
            const Value* value = line.find(name);
            return value != nullptr && value->truth() != nullptr && *value->truth();
        };
        const auto member = [&](const char* name) {
            const Value* value = line.find(name);
            return value != nullptr ? *value : Value();
        };
        const auto chat = data::TextTools::Chat::read(
            member("messages"), member("tools"),
            line.find("kwargs") != nullptr ? member("kwargs") : member("chat_template_kwargs"));
        if (!chat) return chat.failure();
        data::TextTools::Chat wished = chat.value();
        wished.adds_generation_prompt = flag("add_generation_prompt");
        if (const Value* field = line.find("continue_final_message"); field != nullptr)
            wished.continued_field = field->string() != nullptr       ? *field->string()
                                     : flag("continue_final_message") ? "content"
                                                                      : "";
        const bool marks = tools_.marks_assistant() && wished.continued_field.empty();
        const auto rendered = tools_.render(wished, marks);
        if (!rendered) return rendered.failure();
        Value answer{Value::Object()};
        answer.set("rendered", Value(rendered.value().text));
        auto tokenized =
            tokenize(rendered.value().text, SpecialTokens::leave_out, std::move(answer));
        if (!tokenized || !marks) return tokenized;
        std::vector<int32_t> masks;
        for (const bool is_in : data::tokens_in(rendered.value().assistant, spans_))
            masks.push_back(is_in ? 1 : 0);
        tokenized.value().set("assistant_masks", text::to_list(masks));
        return tokenized;
    }

    void add_decoded(const std::vector<int32_t>& ids, Value& answer) const {
        using text::Decoding;
        answer.set("decoded", Value(tools_.tokenizer().decode(ids, Decoding::everything)));
        answer.set("decoded_skip_special",
                   Value(tools_.tokenizer().decode(ids, Decoding::skip_special_tokens)));
    }

    const data::TextTools& tools_;
    text::Tokenizer::Scratch scratch_;
    std::vector<int32_t> ids_;
    std::vector<text::Span> spans_;
};

// Answers every line; those that cannot be answered get an error in their place.
int answer_lines(std::istream& input, const data::TextTools& tools) {
    LineTokenizer tokenizer(tools);
    ExitCode code = ExitCode::done;
    for (std::string line; std::getline(input, line);) {
        if (trim(line).empty()) continue;
        const auto read = text::read_json(line);
        auto answer = read ? tokenizer.answer(read.value()) : read;
        if (!answer) code = ExitCode::bad_data;
        std::cout << to_json(answer
                                 ? answer.value()
                                 : Value(Value::Object{{"error", Value(answer.failure().message)}}))
                  << '\n';
    }
    return number(code);
}

}  // namespace

int tokenize(const Invocation& invocation, const Environment& environment) {
    const config::OptionTable table;
    const config::Resolution resolution = config::resolve(table, invocation.flags, environment);
    if (!resolution.problems.empty()) return report_failure(config::summary(resolution.problems));
    const config::Config& config = resolution.settings.values;
    const auto folder = HubCache(environment)
                            .model_folder(config.model.model_name_or_path,
                                          config.model.model_revision, "model_name_or_path");
    if (!folder) return report_failure(folder.failure());
    const data::FormatSettings settings{.tokenizer = folder.value(),
                                        .chat_template = config.model.chat_template_path,
                                        .eos_token = config.model.eos_token,
                                        .added_tokens = config.model.added_tokens};
    const auto tools = data::TextTools::load(settings, data::TextTools::Template::if_there);
    if (!tools) return report_failure(tools.failure());
    std::ios::sync_with_stdio(false);
    if (config.data.dataset_name.empty()) return answer_lines(std::cin, tools.value());
    std::ifstream file(config.data.dataset_name);
    if (file) return answer_lines(file, tools.value());
    return report_failure(
        {ExitCode::missing_input,
         format_text("dataset_name = {}: there is no such file", config.data.dataset_name)});
}

}  // namespace ringshard::cli
