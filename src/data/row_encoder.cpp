#include <algorithm>

#include "pair_encoding.hpp"
#include "ringshard/data/format.hpp"
#include "row_columns.hpp"
#include "row_tools.hpp"
#include "scored_encoding.hpp"

namespace ringshard::data {

using text::Value;

RowEncoder::Scratch::Scratch(const RowEncoder& encoder) : state_(std::make_unique<EncoderState>()) {
    if (encoder.parts_->tools) state_->tokenizer.emplace(encoder.parts_->tools->tokenizer());
}
RowEncoder::Scratch::Scratch(Scratch&&) noexcept = default;
RowEncoder::Scratch::~Scratch() = default;

RowEncoder::RowEncoder(std::unique_ptr<EncoderParts> parts) : parts_(std::move(parts)) {}
RowEncoder::RowEncoder(RowEncoder&&) noexcept = default;
RowEncoder::~RowEncoder() = default;

Expected<RowEncoder> RowEncoder::make(const FormatSettings& settings,
                                      std::span<const DatasetFormat> formats) {
    auto parts = std::make_unique<EncoderParts>();
    parts->settings = settings;
    if (!settings.loss_scale.empty()) {
        auto scale = LossScale::make(settings.loss_scale);
        if (!scale) return scale.failure();
        parts->scale.emplace(std::move(scale).value());
    }
    if (!std::ranges::all_of(formats, [](const DatasetFormat& format) {
            return format.form == RowForm::pretokenized;
        })) {
        auto tools = load_row_tools(settings, formats);
        if (!tools) return tools.failure();
        parts->tools.emplace(std::move(tools).value());
        if (!settings.agent_template.empty()) {
            auto agent = AgentTemplate::make(settings.agent_template, *parts->tools);
            if (!agent) return agent.failure();
            parts->agent.emplace(std::move(agent).value());
        }
    }
    return RowEncoder(std::move(parts));
}

bool RowEncoder::finds_assistant_by_prefixes() const {
    return parts_->settings.assistant_only_loss && parts_->tools &&
           !parts_->tools->marks_assistant();
}

std::string RowEncoder::training_family() const {
    return parts_->tools ? parts_->tools->training_family() : std::string();
}

bool RowEncoder::has_chat_template() const {
    return parts_->tools && parts_->tools->has_chat_template();
}

int64_t RowEncoder::num_merged_prompts() const { return parts_->merged_prompts; }
int64_t RowEncoder::num_rows_with_reasoning() const { return parts_->rows_with_reasoning; }

namespace {

std::optional<Failure> encode_form(const EncoderParts& parts, const Value& row,
                                   const DatasetFormat& format, EncoderState& state,
                                   EncodedRow& into) {
    RowEncoding documents(parts, row, format, state, into);
    PairEncoding answers(parts, row, format, state, into);
    ScoredEncoding scored(parts, row, format, state, into);
    const bool is_scored = parts.settings.content.is_scored;
    switch (format.form) {
        case RowForm::pretokenized: return read_pretokenized(row, format, into);
        case RowForm::text: return documents.encode_text();
        case RowForm::prompt_completion: return documents.encode_prompt_completion();
        case RowForm::chat: return documents.encode_chat();
        case RowForm::chat_prompt_completion: return documents.encode_chat_prompt_completion();
        case RowForm::alpaca: return documents.encode_alpaca();
        case RowForm::segments: return documents.encode_marked_segments();
        case RowForm::pair: return is_scored ? scored.encode_pair() : answers.encode_pair();
        case RowForm::chat_pair:
            return is_scored ? scored.encode_chat_pair() : answers.encode_chat_pair();
        case RowForm::texts: return scored.encode_texts();
        case RowForm::labelled_text: return scored.encode_labelled_text();
        case RowForm::labelled_chat: return scored.encode_labelled_chat();
    }
    return std::nullopt;
}

}  // namespace

std::optional<Failure> RowEncoder::encode(const Value& row, const DatasetFormat& format,
                                          Scratch& scratch, EncodedRow& into) const {
    into.document_lengths.clear();
    into.weights.clear();
    into.unused.clear();
    if (auto failure = record_unused_columns(row, format, parts_->settings.text_only, into))
        return failure;
    if (auto failure = encode_form(*parts_, row, format, *scratch.state_, into)) return failure;
    const RowContent& content = parts_->settings.content;
    if (content.has_documents()) return std::nullopt;
    if (content.is_judged)
        if (auto failure = apply_judgement(row, into)) return failure;
    if (!content.weighs_by_label())
        if (auto failure = apply_row_weight(row, into)) return failure;
    const bool has_documents = format.form == RowForm::pretokenized && row.find("seq_lengths") &&
                               !row.find("seq_lengths")->is_null();
    if (!has_documents) into.document_lengths.assign(1, static_cast<int32_t>(into.tokens.size()));
    return std::nullopt;
}

}  // namespace ringshard::data
