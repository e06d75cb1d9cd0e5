#include <fcntl.h>

#include <sstream>

#include "file_lines.hpp"
#include "json_row.hpp"
#include "row_formats.hpp"

namespace ringshard::data {

namespace {

struct ItemBlock {
    uint64_t begin = 0;  // of its first item, in bytes
    uint64_t end = 0;
};

// Finds the commas between the items of a list and its closing bracket, without parsing the items.
class ItemScanner {
public:
    // depth: 0 before the list begins, 1 inside it.
    explicit ItemScanner(int64_t depth) : depth_(depth) {}

    // Scans the next piece of the text; calls at_end(i) for each end of an item at piece[i].
    template <class AtEnd>
    void scan(std::string_view piece, const AtEnd& at_end) {
        for (size_t i = 0; i < piece.size(); ++i)
            if (ends_item(piece[i])) at_end(i);
    }
    bool is_outside() const { return depth_ == 0; }

private:
    bool ends_item(char c) {
        if (is_text_) {
            if (std::exchange(is_escaped_, false)) return false;
            is_escaped_ = c == '\\';
            is_text_ = c != '"';
            return false;
        }
        switch (c) {
            case '"': is_text_ = true; return false;
            case '{':
            case '[': ++depth_; return false;
            case '}': --depth_; return false;
            case ']': return --depth_ == 0;
            default: return c == ',' && depth_ == 1;
        }
    }
    int64_t depth_;
    bool is_text_ = false;
    bool is_escaped_ = false;
};

// A JSON list in blocks of about a megabyte, split between two items.
class JsonListFile : public RowFile {
public:
    JsonListFile(std::filesystem::path name, File file, std::vector<ItemBlock> blocks, JsonRow row)
        : RowFile(std::move(name), RowUnit::item),
          file_(std::move(file)),
          blocks_(std::move(blocks)),
          row_(std::move(row)) {}

    int64_t num_blocks() const override { return static_cast<int64_t>(blocks_.size()); }

    Expected<int64_t> read(const Part& part, const Use& use) const override {
        return for_items(part.block,
                         [&](int64_t i, std::string_view item) { use(i, row_.read(item)); });
    }
    Expected<Count> count(const Part& part) const override {
        const auto items = for_items(part.block, [](int64_t, std::string_view) {});
        if (!items) return items.failure();
        return Count{items.value(), items.value()};
    }

    std::string cuts() const override {
        std::string numbers;
        for (const ItemBlock& block : blocks_)
            numbers += format_text("{} {} ", block.begin, block.end);
        return numbers;
    }

private:
    template <class UseItem>
    Expected<int64_t> for_items(int64_t number, const UseItem& use) const {
        const ItemBlock& block = blocks_[static_cast<size_t>(number)];
        std::string text(block.end - block.begin, '\0');
        if (auto failure = file_.read_at(std::as_writable_bytes(std::span(text)),
                                         static_cast<int64_t>(block.begin)))
            return *failure;
        if (trim(text).empty()) return 0;
        int64_t item = 0;
        size_t begin = 0;
        const auto use_item = [&](size_t end) {
            use(item++, std::string_view(text).substr(begin, end - begin));
            begin = end + 1;
        };
        ItemScanner(1).scan(text, use_item);
        use_item(text.size());
        return item;
    }

    File file_;
    std::vector<ItemBlock> blocks_;
    JsonRow row_;
};

// Splits a list into blocks during one pass over its text.
class BlockCutter {
public:
    void add(std::string_view piece) {
        if (blocks_.empty()) {
            const size_t bracket = piece.find('[');
            blocks_.push_back({.begin = bracket + 1});
        }
        is_followed_ = is_followed_ || (is_closed_ && !trim(piece).empty());
        scanner_.scan(piece, [&](size_t i) {
            blocks_.back().end = at_ + i;
            is_closed_ = scanner_.is_outside();
            if (is_closed_) is_followed_ = !trim(piece.substr(i + 1)).empty();
            if (!is_closed_ && at_ + i - blocks_.back().begin >= block_bytes)
                blocks_.push_back({.begin = at_ + i + 1});
        });
        at_ += piece.size();
    }
    const char* what_is_wrong() const {
        if (!is_closed_) return " is cut short: its list has no end";
        return is_followed_ ? " goes on after the end of its list" : nullptr;
    }
    std::vector<ItemBlock> take() { return std::move(blocks_); }

private:
    ItemScanner scanner_{0};
    uint64_t at_ = 0;
    bool is_closed_ = false;
    bool is_followed_ = false;
    std::vector<ItemBlock> blocks_;
};

// Reads the whole file to find its blocks.
Expected<std::vector<ItemBlock>> find_blocks(const std::filesystem::path& path, const File& file,
                                             uint64_t bytes) {
    BlockCutter cutter;
    std::string piece;
    for (uint64_t at = 0; at < bytes; at += piece.size()) {
        piece.resize(std::min(bytes - at, block_bytes));
        if (auto failure =
                file.read_at(std::as_writable_bytes(std::span(piece)), static_cast<int64_t>(at)))
            return *failure;
        cutter.add(piece);
    }
    if (const char* wrong = cutter.what_is_wrong())
        return Failure{ExitCode::bad_data, concat(path.string(), wrong)};
    return cutter.take();
}

std::vector<ItemBlock> blocks_at(const std::string& cuts) {
    std::vector<ItemBlock> blocks;
    std::istringstream numbers(cuts);
    for (ItemBlock block; numbers >> block.begin >> block.end;) blocks.push_back(block);
    return blocks;
}

}  // namespace

Expected<std::unique_ptr<RowFile>> open_json_list(const std::filesystem::path& path,
                                                  std::vector<std::string> wanted,
                                                  const std::string& cuts) {
    auto file = File::open(path, O_RDONLY);
    if (!file) return file.failure();
    auto blocks = cuts.empty() ? find_blocks(path, file.value(), std::filesystem::file_size(path))
                               : Expected<std::vector<ItemBlock>>(blocks_at(cuts));
    if (!blocks) return blocks.failure();
    return std::unique_ptr<RowFile>(std::make_unique<JsonListFile>(
        path, std::move(file).value(), std::move(blocks).value(), JsonRow(std::move(wanted))));
}

}  // namespace ringshard::data
