// Every kind of file gives the same rows, in blocks of any size; errors of broken files name the
// place.
#include "row_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>

#include "csv_records.hpp"
#include "data_golden.hpp"
#include "ringshard/base/files.hpp"
#include "row_formats.hpp"

using namespace ringshard;
using namespace ringshard::data;
using text::Value;

namespace {

const std::vector<std::string> wanted{"messages", "text", "n"};

RowFileSettings settings_for(const std::filesystem::path& file) {
    return {wanted, text_kind_of(file)};
}

struct Read {
    std::vector<std::string> rows;         // as JSON
    std::map<size_t, std::string> places;  // of the first and the last of each block
    std::vector<std::string> wrong;        // "place: what"
};

// Hands each part of a file to `use`, with the number of rows before it.
template <class Use>
void for_parts(const RowFile& rows, const Use& use) {
    int64_t before = 0;
    for (int64_t block = 0; block < rows.num_blocks(); ++block)
        for (int64_t part = 0; part < rows.num_parts(block); ++part) {
            const RowFile::Part place{block, part};
            const Expected<int64_t> read = use(place, before);
            BOOST_TEST_REQUIRE(read.operator bool());
            BOOST_TEST(rows.count(place).value().places == read.value());
            before += read.value();
        }
}

Read read_all(const std::filesystem::path& file, const std::string& cuts = {}) {
    const auto rows = open_row_file(file, settings_for(file), cuts).value();
    Read read;
    for_parts(*rows, [&](const RowFile::Part& part, int64_t before) {
        // Rows come in order, so the places of the others follow from these two.
        const size_t first = read.rows.size();
        int64_t last = -1;
        auto count = rows->read(part, [&](int64_t row, const Expected<Value>& content) {
            BOOST_TEST_REQUIRE(row > last);
            last = row;
            if (!content) {
                read.wrong.push_back(
                    format_text("{}: {}", rows->place(before + row), content.failure().message));
                return;
            }
            if (read.rows.size() == first) read.places[first] = rows->place(before + row);
            read.rows.push_back(to_json(content.value()));
        });
        if (read.rows.size() > first)
            read.places[read.rows.size() - 1] = rows->place(before + last);
        return count;
    });
    return read;
}

std::string failure_of(const std::filesystem::path& file) {
    const auto rows = open_row_file(file, settings_for(file));
    if (!rows) return rows.failure().message;
    for (int64_t block = 0; block < rows.value()->num_blocks(); ++block) {
        const auto read = rows.value()->read({block, 0}, [](int64_t, const Expected<Value>&) {});
        if (!read) return read.failure().message;
    }
    return "";
}

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_rows_{}", getpid());
    std::filesystem::path write(const std::string& name, const std::string& content) const {
        std::ofstream(path / name, std::ios::binary) << content;
        return path / name;
    }
};

const auto golden = test::golden_file("text/data");

std::string bytes_of(const std::filesystem::path& file) { return read_file(file).value(); }

}  // namespace

BOOST_FIXTURE_TEST_CASE(every_format_gives_the_same_rows, Folder) {
    const auto expected = read_all(golden / "chat_small.jsonl").rows;
    BOOST_TEST_REQUIRE(expected.size() == 44U);
    for (const auto* name : {"chat_small.snappy.parquet", "chat_small.zstd.parquet"})
        BOOST_TEST(read_all(golden / name).rows == expected, boost::test_tools::per_element());
    auto arrow = read_all(golden / "chat_small.arrow_dataset/data-00000-of-00002.arrow").rows;
    for (auto& row : read_all(golden / "chat_small.arrow_dataset/data-00001-of-00002.arrow").rows)
        arrow.push_back(row);
    BOOST_TEST(arrow == expected, boost::test_tools::per_element());
    for (const auto* name : {"chat_small.jsonl.gz", "chat_small.jsonl.zst"}) {
        BOOST_TEST(is_compressed(golden / name));
        BOOST_TEST(!unpack(golden / name, path / "unpacked"));
        BOOST_TEST(bytes_of(path / "unpacked") == bytes_of(golden / "chat_small.jsonl"));
    }
    std::string list = "[";
    for (const std::string& row : expected) list += (list.size() > 1 ? ",\n" : "") + row;
    BOOST_TEST(read_all(write("list.json", list + "]\n")).rows == expected,
               boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(lines_and_items_of_any_length_are_read_once, Folder) {
    // Around the borders of blocks of a megabyte, and far beyond them.
    for (const size_t length : {50U, 1000U, 1U << 20U, (1U << 20U) - 12U, 5U << 20U}) {
        std::string lines;
        std::string list;
        std::vector<std::string> expected;
        for (size_t i = 0; lines.size() < (7U << 20U); ++i) {
            const std::string row = format_text("{{\"n\": {}, \"text\": \"],[{{\\\"{}\"}}", i,
                                                std::string(length + i % 7, 'x'));
            expected.push_back(row);
            lines += row + "\n";
            list += (i > 0 ? "," : "") + row;
        }
        const auto read = read_all(write("lines.jsonl", lines));
        BOOST_TEST((read.rows == expected));
        for (const auto& [i, place] : read.places)
            BOOST_TEST_REQUIRE(place ==
                               format_text("{}:{}", (path / "lines.jsonl").string(), i + 1));
        const auto list_file = write("list.json", "[" + list + "]");
        const auto items =
            read_all(list_file, open_row_file(list_file, settings_for(list_file)).value()->cuts());
        BOOST_TEST((items.rows == expected));
        for (const auto& [i, place] : items.places)
            BOOST_TEST_REQUIRE(place ==
                               format_text("{}, item {}", (path / "list.json").string(), i + 1));
    }
}

BOOST_FIXTURE_TEST_CASE(wrong_lines_are_told_with_their_numbers, Folder) {
    const auto read = read_all(write(
        "a.jsonl", "\xEF\xBB\xBF{\"n\": 1}\r\n\r\n{\"n\": 2\n[3]\n{\"n\": \"\xff\"}\n{\"n\": 4}"));
    BOOST_TEST(read.rows == std::vector<std::string>({"{\"n\": 1}", "{\"n\": 4}"}),
               boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(read.wrong.size() == 3U);
    const std::string name = (path / "a.jsonl").string();
    BOOST_TEST(read.wrong[0].starts_with(name + ":3: is no JSON"), read.wrong[0]);
    BOOST_TEST(read.wrong[1].starts_with(name + ":4: is a list"), read.wrong[1]);
    BOOST_TEST(read.wrong[2].starts_with(name + ":5: is no JSON"), read.wrong[2]);
}

BOOST_FIXTURE_TEST_CASE(tables_and_text_are_read_as_datasets_reads_them, Folder) {
    const Value cases = test::read_json(test::golden_file("mixtures/files.json"));
    for (const Value& one : *cases.list()) {
        const std::string& name = *one.find("name")->string();
        const auto file = write(name, *one.find("text")->string());
        RowFileSettings settings{{"text", "n", "note", "text;x", "Unnamed: 0"}, text_kind_of(file)};
        if (name == "document.txt") settings.text = TextKind::document;
        const auto rows = open_row_file(file, settings).value();
        Value::List read;
        for_parts(*rows, [&](const RowFile::Part& part, int64_t) {
            return rows->read(part, [&](int64_t, Expected<Value> content) {
                read.push_back(std::move(content).value());
            });
        });
        BOOST_TEST(to_json(Value(std::move(read))) == to_json(*one.find("rows")),
                   to_json(*one.find("text")));
    }
}

BOOST_FIXTURE_TEST_CASE(tables_are_cut_anywhere, Folder) {
    // Line breaks, separators and quotes within values, around the borders of blocks and far
    // beyond.
    for (const size_t length : {40U, 70'000U, (1U << 20U) - 7U, 3U << 20U})
        for (const char* line_break : {"\n", "\r\n", "\r"}) {
            std::string table = format_text("n,text{}", line_break);
            std::vector<std::string> expected;
            for (size_t i = 0; table.size() < (6U << 20U); ++i) {
                const std::string middle(length + i % 11, "x,\n\r"[i % 5 % 4]);
                table += format_text("{},\"a\"\"{}\"\"\n\"{}", i, middle, line_break);
                if (i % 3 == 0) table += line_break;  // an empty line is no row
                expected.push_back(to_json(
                    Value(Value::Object{{"n", Value(std::to_string(i))},
                                        {"text", Value(format_text("a\"{}\"\n", middle))}})));
            }
            const auto file = write("table.csv", table);
            BOOST_TEST((read_all(file).rows == expected));
            const auto again =
                read_all(file, open_row_file(file, settings_for(file)).value()->cuts());
            BOOST_TEST((again.rows == expected));
            // Scans of parts of the file, joined, know the same.
            std::string letters;
            for (int64_t block = 0; block < num_csv_blocks(file); block += 2)
                letters +=
                    scan_csv(file, ',', block, std::min(block + 2, num_csv_blocks(file))).value();
            BOOST_TEST(join_csv_scans(letters) ==
                       open_row_file(file, settings_for(file)).value()->cuts());
            for (const auto& [i, place] : again.places)
                BOOST_TEST_REQUIRE(place == format_text("{}, row {}", file.string(), i + 1));
        }
}

BOOST_FIXTURE_TEST_CASE(wrong_tables_are_told_with_their_rows, Folder) {
    const auto read = read_all(write("a.csv", "n,text\n1,a\n2,b,c\n\n3\n4,\xff\n"));
    BOOST_TEST_REQUIRE(read.wrong.size() == 2U);
    const std::string name = (path / "a.csv").string();
    BOOST_TEST(read.wrong[0].starts_with(name + ", row 2: has 3 values for 2 columns"),
               read.wrong[0]);
    BOOST_TEST(read.wrong[1].starts_with(name + ", row 4: holds text that is not UTF-8"),
               read.wrong[1]);
    BOOST_TEST(read.rows == std::vector<std::string>(
                                {R"({"n": "1", "text": "a"})", R"({"n": "3", "text": null})"}),
               boost::test_tools::per_element());
    const auto says = [&](const std::string& text, const std::string& words) {
        const std::string message = failure_of(write("b.csv", text));
        BOOST_TEST(message.find(words) != std::string::npos, message);
    };
    says("n,text\n1,\"a\n2,b\n", "begins at byte 7 has a quote (\") that is not closed");
    says(format_text("n,text\n1,\"a\n{}", std::string(3U << 20U, 'x')), "that is not closed");
    says("n,\"text\n", "that is not closed");
    says("n,n\n1,2\n", "names the column n twice");
    BOOST_TEST(read_all(write("empty.csv", "")).rows.empty());
    BOOST_TEST(read_all(write("head.csv", "n,text")).rows.empty());
}

BOOST_FIXTURE_TEST_CASE(rows_are_counted_without_empty_lines, Folder) {
    const auto count = [&](const std::string& name, const std::string& text) {
        const auto file = write(name, text);
        const auto counted = open_row_file(file, settings_for(file)).value()->count({0, 0}).value();
        return std::pair(counted.places, counted.rows);
    };
    BOOST_TEST((count("a.jsonl", "{}\n\n{}\n  \n{}") == std::pair<int64_t, int64_t>(5, 3)));
    BOOST_TEST((count("a.csv", "n\n1\n\n2\n") == std::pair<int64_t, int64_t>(2, 2)));
    BOOST_TEST((count("a.txt", "1\n\n2\n") == std::pair<int64_t, int64_t>(3, 3)));
}

BOOST_FIXTURE_TEST_CASE(columns_that_are_not_wanted_keep_their_names, Folder) {
    BOOST_TEST(read_all(write("a.jsonl", "{\"n\": 1, \"other\": [1, 2]}")).rows.at(0) ==
               "{\"n\": 1, \"other\": null}");
}

BOOST_FIXTURE_TEST_CASE(broken_files_are_refused, Folder) {
    const std::string parquet = bytes_of(golden / "chat_small.snappy.parquet");
    const std::string arrow =
        bytes_of(golden / "chat_small.arrow_dataset/data-00000-of-00002.arrow");
    const auto refused = [&](const std::string& name, const std::string& content) {
        const std::string message = failure_of(write(name, content));
        BOOST_TEST(message.find(name) != std::string::npos, name << ": " << message);
    };
    refused("cut.parquet", parquet.substr(0, parquet.size() / 2));
    refused("short.parquet", "PAR1");
    refused("cut.arrow", arrow.substr(0, arrow.size() / 2));
    refused("empty.arrow", "");
    refused("cut.json", "[{\"n\": 1}, {\"n\"");
    refused("longer.json", "[{\"n\": 1}] [");
    refused("table.data", "a,b\n1,2\n");
    for (const auto* name : {"chat_small.jsonl.gz", "chat_small.jsonl.zst"}) {
        const std::string packed = bytes_of(golden / name);
        const auto failure =
            unpack(write("cut", packed.substr(0, packed.size() / 2)), path / "unpacked");
        BOOST_TEST_REQUIRE(failure.has_value());
        BOOST_TEST(number(failure->code) == 65);
    }
    BOOST_TEST(read_all(write("empty.jsonl", "")).rows.empty());
    BOOST_TEST(read_all(write("empty.json", " [ ] ")).rows.empty());
}
