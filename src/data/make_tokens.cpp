#include "make_tokens.hpp"

#include <algorithm>

#include "bad_rows.hpp"
#include "dataset_order.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/comm/agree.hpp"
#include "store_writer.hpp"

namespace ringshard::data {

namespace {

// Unpacks compressed files into the work folder, each rank some of them. Collective over the group.
std::optional<comm::AgreedFailure> unpack_files(std::vector<InputFile>& files,
                                                const std::filesystem::path& work,
                                                const comm::Group& group) {
    const auto unpacked_name = [&](size_t i) { return work / format_text("unpacked-{}", i); };
    std::optional<Failure> failure = wait_until_visible(work);  // rank 0 has created it
    std::vector<double> is_packed(files.size());
    for (size_t i = static_cast<size_t>(group.rank()); i < files.size() && !failure;
         i += static_cast<size_t>(group.size())) {
        if (!is_compressed(files[i].name)) continue;
        is_packed[i] = 1;
        failure = unpack(files[i].name, unpacked_name(i));
    }
    if (auto agreed = comm::first_failure(group, failure)) return agreed;
    is_packed = group.sum(std::move(is_packed));
    for (size_t i = 0; i < files.size(); ++i)
        if (is_packed[i] == 1) files[i].plain = unpacked_name(i);
    return std::nullopt;
}

// The first readable row of a source, or the error of the first row.
struct FirstRow {
    text::Value content;
    std::string place;  // of the row, or of the unreadable one
    std::string wrong;
};

// Reads the selected part of a file up to its first readable row.
std::optional<Failure> find_first_row(const WorkList& work, size_t number, FirstRow& first) {
    const auto file = work.open(number);
    if (!file) return file.failure();
    int64_t before = work.slices[number].places_before;
    for (int64_t item = work.first_items[number]; item < work.first_items[number + 1]; ++item) {
        const auto parts = work.parts_of(item, *file.value());
        if (!parts) return parts.failure();
        for (const WorkPart& part : parts.value()) {
            int64_t number_of_row = 0;
            const auto use = [&](int64_t row, Expected<text::Value> content) {
                if (!part.takes(number_of_row++)) return;
                if (!first.content.is_null() || (!content && !first.wrong.empty())) return;
                first.place = place_of_row(*file.value(), work.files[number], before + row);
                if (content)
                    first.content = std::move(content).value();
                else
                    first.wrong = content.failure().message;
            };
            const auto rows = file.value()->read(work.place_of(part), use);
            if (!rows) return rows.failure();
            if (!first.content.is_null()) return std::nullopt;
            before += rows.value();
        }
    }
    return std::nullopt;
}

// Determines the format of every source by its first readable row, on rank 0. Collective over the
// group.
comm::Agreed<std::vector<DatasetFormat>> find_formats(const TokensToMake& tokens,
                                                      const WorkList& work,
                                                      const comm::Group& group) {
    std::vector<FirstRow> found(tokens.mappings.size());
    std::optional<Failure> failure;
    for (size_t i = 0; i < work.files.size() && group.is_root() && !failure; ++i)
        if (FirstRow& first = found[work.files[i].source]; first.content.is_null())
            failure = find_first_row(work, i, first);
    text::Value::List first_rows;
    for (const FirstRow& first : found) {
        if (first.content.is_null() && !first.wrong.empty() && !failure)
            failure = Failure{ExitCode::bad_data, format_text("{}: {}", first.place, first.wrong)};
        first_rows.emplace_back(text::Value::List{first.content, text::Value(first.place)});
    }
    if (auto agreed = comm::first_failure(group, failure)) return *agreed;
    const auto agreed_rows =
        text::read_json(group.broadcast(to_json(text::Value(std::move(first_rows)))));
    std::vector<DatasetFormat> formats;
    for (size_t source = 0; source < tokens.mappings.size(); ++source) {
        const text::Value::List& entry = *(*agreed_rows.value().list())[source].list();
        const auto file = std::ranges::find(tokens.files, source, &InputFile::source);
        if (entry[0].is_null())
            return comm::found_by_all({ExitCode::bad_data, format_text("{} is empty: it has no row",
                                                                       file->name.string())});
        const auto refuse = [&](const Failure& why) {
            return comm::found_by_all(
                {why.code, format_text("{}: {}", *entry[1].string(), why.message)});
        };
        const auto row = map_row(entry[0], tokens.mappings[source]);
        if (!row) return refuse(row.failure());
        const bool is_anchor = tokens.has_anchor && source + 1 == tokens.mappings.size();
        auto format = find_format(row.value(), is_anchor ? FormatSettings() : tokens.format);
        if (!format) return refuse(format.failure());
        formats.push_back(std::move(format).value());
    }
    return formats;
}

// Returns the columns to read for determining the format.
std::vector<std::string> columns_to_look_at(const TokensToMake& tokens) {
    std::vector<std::string> columns = known_columns(tokens.format);
    for (const RowMapping& mapping : tokens.mappings) {
        for (const auto& [ours, theirs] : mapping.column_map) columns.push_back(theirs);
        for (std::string& column : mapping.template_columns()) columns.push_back(std::move(column));
    }
    return columns;
}

// Returns the columns to read for tokenizing; readers skip all others.
std::vector<std::string> columns_to_read(const TokensToMake& tokens,
                                         std::span<const DatasetFormat> formats) {
    std::vector<std::string> columns;
    for (size_t source = 0; source < formats.size(); ++source) {
        const RowMapping& mapping = tokens.mappings[source];
        for (std::string& column : mapping.template_columns()) columns.push_back(std::move(column));
        if (mapping.row_template != nullptr) continue;
        for (const std::string& column : formats[source].used_columns)
            columns.push_back(mapping.source_of(column));
    }
    return columns;
}

// Returns lines about unused content on the root, from the counts of all ranks. Collective over the
// group.
std::vector<std::string> describe_left_aside(const TokensToMake& tokens,
                                             std::span<const LeftAside> mine,
                                             const comm::Group& group) {
    text::Value::List list;
    for (const LeftAside& left : mine) list.push_back(left.to_value());
    std::vector<LeftAside> of_all(mine.size());
    for (const std::string& some : group.gather_to_root(to_json(text::Value(std::move(list))))) {
        const auto read = text::read_json(some);
        for (size_t source = 0; source < of_all.size(); ++source)
            of_all[source].add(LeftAside::of((*read.value().list())[source]));
    }
    std::vector<std::string> lines;
    // The scores of an anchor are read by themselves.
    const size_t described = of_all.size() - (tokens.has_anchor ? 1 : 0);
    for (size_t source = 0; source < described; ++source)
        for (const std::string& line : of_all[source].to_lines())
            lines.push_back(format_text("{} {}", tokens.names[source], line));
    return lines;
}

// Returns notes for the user about the formats. `encoder`: for rows of these formats.
std::vector<std::string> describe_formats(const TokensToMake& tokens,
                                          std::span<const DatasetFormat> formats,
                                          const RowEncoder& encoder) {
    std::vector<std::string> lines;
    for (size_t source = 0; source < formats.size(); ++source) {
        lines.insert(lines.end(), formats[source].warnings.begin(), formats[source].warnings.end());
        if (formats[source].form == RowForm::alpaca)
            lines.push_back(format_text(
                "{} has instruction, input and output, which are taken as {}", tokens.names[source],
                encoder.has_chat_template() ? "the user's message (instruction, a line break, "
                                              "input) and the assistant's answer"
                                            : "a prompt in the words of Stanford's Alpaca and its "
                                              "completion, because there is no chat template"));
    }
    if (const std::string family = encoder.training_family(); !family.empty())
        lines.push_back(
            format_text("assistant_only_loss: the chat template is that of {}; rows are rendered "
                        "with its training template, which marks the answers as TRL's does and "
                        "renders them alike in every turn. The model keeps its own template",
                        family));
    if (encoder.finds_assistant_by_prefixes())
        lines.emplace_back(
            "the chat template does not mark the assistant's turns ({% generation %}); each turn "
            "is learned as the text that it adds to the rendering of the messages before it");
    return lines;
}

}  // namespace

std::vector<std::string> warnings_of(const text::Value& about) {
    std::vector<std::string> warnings;
    const text::Value* list = about.find("warnings");
    if (list != nullptr && list->list() != nullptr)
        for (const text::Value& warning : *list->list())
            if (warning.string() != nullptr) warnings.push_back(*warning.string());
    return warnings;
}

std::optional<comm::AgreedFailure> make_tokens(const TokensToMake& tokens,
                                               const std::filesystem::path& work,
                                               const PrepareResources& resources,
                                               const comm::Group& group) {
    std::vector<std::string> warnings;
    std::vector<InputFile> files = tokens.files;
    if (auto failure = unpack_files(files, work, group)) return failure;
    auto list = list_work(std::move(files), columns_to_look_at(tokens), group);
    if (!list) return list.failure();
    if (auto failure = apply_slices(list.value(), tokens.slices, group, warnings)) return failure;
    const auto formats = find_formats(tokens, list.value(), group);
    if (!formats) return formats.failure();
    const auto num_of_pairs =
        std::ranges::count_if(formats.value(), &DatasetFormat::is_taken_apart);
    if (num_of_pairs > 0 && num_of_pairs < std::ssize(formats.value()))
        return comm::found_by_all(
            {ExitCode::bad_data,
             "datasets: the rows of some are pairs of answers (chosen, rejected) and those of "
             "others single answers (completion, label); train on one kind"});
    list.value().wanted = columns_to_read(tokens, formats.value());
    const auto encoder = comm::agreed(group, RowEncoder::make(tokens.format, formats.value()));
    if (!encoder) return encoder.failure();
    for (std::string& line : describe_formats(tokens, formats.value(), encoder.value()))
        warnings.push_back(std::move(line));
    auto spool =
        comm::agreed(group, TokenSpool::open(work / format_text("spool-{}", group.rank())));
    if (!spool) return spool.failure();

    const Share share = share_of(list.value().size(), group);
    auto done = comm::agreed(group, tokenize_blocks(tokens, list.value(), share.first, share.last,
                                                    encoder.value(), formats.value(), spool.value(),
                                                    resources, group.size(), work / "give-up"));
    if (!done) return done.failure();
    if (auto failure =
            judge_bad_rows(done.value(), list.value(), tokens.skip_bad_rows, group, warnings))
        return failure;
    if (tokens.format.mask_reasoning.size() == 2 &&
        group.sum(encoder.value().num_rows_with_reasoning()) == 0)
        warnings.push_back(
            format_text("mask_reasoning: no row has reasoning that is learned between {} and {}",
                        tokens.format.mask_reasoning.front(), tokens.format.mask_reasoning.back()));
    if (const int64_t merged = group.sum(done.value().merged_prompts); merged > 0)
        warnings.push_back(
            format_text("in {} rows the tokens of the prompt alone are not the beginning of those "
                        "of prompt and completion; the completion begins where they differ",
                        merged));
    for (std::string& line : describe_left_aside(tokens, done.value().left_aside, group))
        warnings.push_back(std::move(line));
    text::Value about = tokens.about;
    int64_t largest_token = -1;
    int64_t largest_label = -1;
    for (const SpooledBlock& block : done.value().blocks) {
        largest_token = std::max<int64_t>(largest_token, block.rest.largest_token);
        largest_label = std::max<int64_t>(largest_label, block.rest.largest_label);
    }
    about.set("largest_token", text::Value(group.maximum(largest_token)));
    about.set("largest_label", text::Value(group.maximum(largest_label)));
    about.set("warnings", text::to_list(warnings));
    if (num_of_pairs > 0) about.set(pairs_field, text::Value(true));
    return write_store(done.value(), list.value(), spool.value(), tokens.mappings.size(),
                       work / "result", std::move(about), group);
}

}  // namespace ringshard::data
