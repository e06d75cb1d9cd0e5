#include "row_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <fstream>

#include "row_formats.hpp"

namespace ringshard::data {

namespace {

std::string first_bytes(const std::filesystem::path& file, size_t count) {
    std::string bytes(count, '\0');
    std::ifstream stream(file, std::ios::binary);
    stream.read(bytes.data(), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<size_t>(stream.gcount()));
    return bytes;
}

}  // namespace

TextKind text_kind_of(const std::filesystem::path& name) {
    std::filesystem::path ending = name.extension();
    if (ending == ".gz" || ending == ".zst") ending = name.stem().extension();
    if (ending == ".csv") return TextKind::csv;
    if (ending == ".tsv") return TextKind::tsv;
    return ending == ".txt" ? TextKind::lines : TextKind::none;
}

namespace {

Expected<std::unique_ptr<RowFile>> open_by_content(const std::filesystem::path& file,
                                                   const std::vector<std::string>& wanted,
                                                   const std::string& cuts) {
    const auto opened = File::open(file, O_RDONLY);
    if (!opened) return opened.failure();
    std::string start(std::min<uintmax_t>(4096, std::filesystem::file_size(file)), '\0');
    if (auto failure = opened.value().read_at(std::as_writable_bytes(std::span(start)), 0))
        return *failure;
    if (start.starts_with("PAR1")) return open_parquet(file, wanted);
    // An Arrow stream begins with a length; newer writers put four bytes of ones before it.
    if (start.starts_with("ARROW1") || start.starts_with("\xff\xff\xff\xff") ||
        file.extension() == ".arrow")
        return open_arrow(file, wanted);
    std::string_view text = start;
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    text = trim(text);
    if (text.starts_with("[")) return open_json_list(file, wanted, cuts);
    if (text.empty() || text.starts_with("{")) return open_json_lines(file, wanted);
    if (file.extension() == ".jsonl" || file.extension() == ".json")
        return open_json_lines(file, wanted);  // which reports the error in line 1
    return Failure{
        ExitCode::bad_data,
        format_text(
            "{} is neither JSON lines, a list in JSON, Parquet nor Arrow, and its name does not "
            "end in .csv, .tsv or .txt; write one of these (datasets has to_json and to_parquet)",
            file.string())};
}

}  // namespace

Expected<std::unique_ptr<RowFile>> open_row_file(const std::filesystem::path& file,
                                                 const RowFileSettings& settings,
                                                 const std::string& cuts) {
    switch (settings.text) {
        case TextKind::none: return open_by_content(file, settings.wanted, cuts);
        case TextKind::csv: return open_csv(file, settings.wanted, ',', cuts);
        case TextKind::tsv: return open_csv(file, settings.wanted, '\t', cuts);
        case TextKind::lines: return open_text_lines(file);
        case TextKind::document: return open_text_document(file);
    }
    return open_by_content(file, settings.wanted, cuts);
}

bool is_compressed(const std::filesystem::path& file) {
    const std::string start = first_bytes(file, 4);
    return start.starts_with("\x1f\x8b") || start == "\x28\xb5\x2f\xfd";
}

}  // namespace ringshard::data
