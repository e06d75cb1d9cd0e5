#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>
#include <thread>

#include "python_regex.hpp"
#include "ringshard/base/environment.hpp"
#include "ringshard/base/expected.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/regex.hpp"
#include "ringshard/base/shared_file.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/utf8.hpp"

using namespace ringshard;

namespace {

bool closing_fails = false;

}  // namespace

// In the place of the C library's: network file systems tell of a full disk when a file is closed.
extern "C" int close(int descriptor) {
    const auto result = static_cast<int>(syscall(SYS_close, descriptor));
    if (!closing_fails) return result;
    errno = ENOSPC;
    return -1;
}

BOOST_AUTO_TEST_CASE(nearest_name_finds_what_was_meant) {
    const std::vector<std::string> known{"learning_rate", "logging_steps", "packing", "seed"};
    BOOST_TEST(nearest_name("learning_rte", known) == "learning_rate");
    BOOST_TEST(nearest_name("lerning_rate", known) == "learning_rate");
    BOOST_TEST(nearest_name("pakcing", known) == "packing");
    BOOST_TEST(nearest_name("sede", known) == "seed");
    BOOST_TEST(nearest_name("something_else", known) == "");
}

BOOST_AUTO_TEST_CASE(numbers_are_written_as_short_as_they_read_back) {
    BOOST_TEST(shortest(2e-5) == "2e-05");
    BOOST_TEST(shortest(0.1) == "0.1");
    BOOST_TEST(shortest(3) == "3");
}

static_assert(count_holes("") == 0 && count_holes("{}, {}: {{}} {{{}}}") == 3);
static_assert(count_holes("{") == -1 && count_holes("}") == -1 && count_holes("{0}") == -1 &&
              count_holes("{} }{") == -1 && count_holes("{}}") == -1);

BOOST_AUTO_TEST_CASE(values_stand_in_the_holes_of_a_pattern) {
    const std::string name = "cp_size";
    BOOST_TEST(format_text("{} = {} does not divide {}", name, 3, 8) ==
               "cp_size = 3 does not divide 8");
    BOOST_TEST(format_text("{}{}", std::string_view(name).substr(3), "{}") == "size{}");
    BOOST_TEST(format_text("{{{}}} {{}} }}{{", 'x') == "{x} {} }{");
    BOOST_TEST(format_text("no hole") == "no hole");
    BOOST_TEST(format_text("") == "");
    BOOST_TEST(format_text() == "");
}

BOOST_AUTO_TEST_CASE(a_pattern_and_a_concatenation_write_values_as_a_stream_does) {
    std::ostringstream stream;
    const std::filesystem::path folder = "a folder";
    stream << folder << 2e-5 << 0.1F << 123456789.0 << true << int8_t{65} << -7 << SIZE_MAX;
    const auto written = concat(folder, 2e-5, 0.1F, 123456789.0, true, int8_t{65}, -7, SIZE_MAX);
    BOOST_TEST(written == stream.str());
    BOOST_TEST(format_text("{}{}{}{}{}{}{}{}", folder, 2e-5, 0.1F, 123456789.0, true, int8_t{65},
                           -7, SIZE_MAX) == stream.str());
    BOOST_TEST(concat(std::setfill('0'), std::setw(4), 12) == "0012");
    BOOST_TEST(concat() == "");
}

BOOST_AUTO_TEST_CASE(whole_numbers_are_digits_and_nothing_else) {
    BOOST_TEST(read_whole_number("-12").value() == -12);
    for (const auto* wrong : {"", "1 ", " 1", "1.0", "0x1", "+1", "99999999999999999999", "a"})
        BOOST_TEST(!read_whole_number(wrong));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_leaves_nothing_behind) {
    const auto folder =
        std::filesystem::temp_directory_path() / concat("ringshard_base_", getpid());
    std::filesystem::create_directories(folder / "in the way" / "inside");
    BOOST_TEST(!write_file_atomically(folder / "good", "1"));
    BOOST_TEST(write_file_atomically(folder / "in the way", "1").has_value());
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        names.push_back(entry.path().filename());
    BOOST_TEST(names.size() == 2U);
    BOOST_TEST(!read_file(folder));
    BOOST_TEST(!read_file("/proc/self/mem"));  // is there and opens, and its first byte fails
    BOOST_TEST(read_file("/proc/self/stat").has_value());
    const auto full = append_line("/dev/full", "line");
    BOOST_TEST_REQUIRE(full.has_value());
    BOOST_TEST(number(full->code) == 74);
    BOOST_TEST(full->message.find("No space left") != std::string::npos);
    closing_fails = true;
    const auto full_at_close = append_line(folder / "lines", "line");
    closing_fails = false;
    BOOST_TEST_REQUIRE(full_at_close.has_value());
    BOOST_TEST(number(full_at_close->code) == 74);
    BOOST_TEST(full_at_close->message.find("No space left") != std::string::npos);
    BOOST_TEST(!append_line(folder / "lines", "line"));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(a_line_is_appended_whole_or_not_at_all) {
    const auto file = std::filesystem::temp_directory_path() / concat("ringshard_lines_", getpid());
    BOOST_TEST(!append_line(file, "first"));
    // The system takes four more bytes, as at the end of a full disk.
    rlimit usual{};
    getrlimit(RLIMIT_FSIZE, &usual);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{10, usual.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    const auto cut_short = append_line(file, "second");
    setrlimit(RLIMIT_FSIZE, &usual);
    std::signal(SIGXFSZ, before);
    BOOST_TEST_REQUIRE(cut_short.has_value());
    BOOST_TEST(cut_short->message.find("took 4 of 7 bytes") != std::string::npos);
    BOOST_TEST(read_file(file).value() == "first\n");
    // Half a line that somebody else left behind stays a line of its own.
    std::ofstream(file, std::ios::app) << "sec";
    BOOST_TEST(!append_line(file, "second"));
    BOOST_TEST(read_file(file).value() == "first\nsec\nsecond\n");
    std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(utf8_is_told_from_other_bytes) {
    for (const auto* good :
         {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
        BOOST_TEST(is_utf8(good));
    for (const auto* bad : {"\xff", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xe2\x82"})
        BOOST_TEST(!is_utf8(bad));
}

BOOST_AUTO_TEST_CASE(texts_are_cut_and_joined) {
    BOOST_TEST(join({"a", "b", "c"}, ", ") == "a, b, c");
    BOOST_TEST(split("a,,b", ',').size() == 3U);
    BOOST_TEST(split("", ',').size() == 1U);
    BOOST_TEST(trim("  a b\t\n") == "a b");
    BOOST_TEST(human_bytes(512) == "512 B");
    BOOST_TEST(human_bytes(1536.0 * 1024) == "1.5 MiB");
    BOOST_TEST(read_bytes("5GB").value() == 5'000'000'000);
    BOOST_TEST(read_bytes(" 1.5 mb").value() == 1'500'000);
    BOOST_TEST(read_bytes("4096").value() == 4096);
    for (const auto* wrong : {"", "GB", "5GiB", "-1", "0", "nan", "inf", "0.1", "1e30GB", "5 G B"})
        BOOST_TEST(!read_bytes(wrong), wrong);
}

BOOST_AUTO_TEST_CASE(narrow_keeps_the_value_or_ends_the_job) {
    BOOST_TEST(narrow<int>(int64_t{7}) == 7);
    BOOST_CHECK_THROW(narrow<int>(int64_t{1} << 31), Error);
    BOOST_CHECK_THROW(narrow<unsigned>(-1), Error);
}

BOOST_AUTO_TEST_CASE(expected_holds_a_value_or_a_failure) {
    const Expected<int> value = 3;
    BOOST_TEST(static_cast<bool>(value));
    BOOST_TEST(value.value() == 3);
    const Expected<int> failed = Failure{ExitCode::io, "disk full"};
    BOOST_TEST(!failed);
    BOOST_CHECK_EXCEPTION(static_cast<void>(failed.value()), Error,
                          [](const Error& error) { return error.code() == ExitCode::io; });
}

BOOST_AUTO_TEST_CASE(environment_is_a_value) {
    const Environment environment(Environment::Variables{{"A", "1"}});
    BOOST_TEST(environment.find("A").value() == "1");
    BOOST_TEST(!environment.find("B"));
    BOOST_TEST(Environment::of_this_process().find("PATH").has_value());
}

BOOST_AUTO_TEST_CASE(files_of_other_processes_are_waited_for) {
    const auto folder =
        std::filesystem::temp_directory_path() / concat("ringshard_shared_", getpid());
    const auto file = folder / "deeper" / "file";
    const auto failure = wait_until_visible(file, std::chrono::milliseconds(30));
    BOOST_TEST_REQUIRE(failure.has_value());
    BOOST_TEST(number(failure->code) == 74);
    BOOST_TEST(failure->message.starts_with(file.string() + ": another rank has made this file"));
    std::jthread maker([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::filesystem::create_directories(file.parent_path());
        std::ignore = write_file_atomically(file, "made");
    });
    const auto opened = open_when_visible(file, O_RDONLY);
    BOOST_TEST(opened.value().read_to_end().value() == "made");
    maker.join();
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(expressions_mean_what_they_mean_to_python) {
    // What re.fullmatch (w) and re.search (s) of Python 3.11 say to each name; e: an error there.
    const std::vector<std::string> names{"model.layers.0.mlp.down_proj",
                                         "model.layers.1.self_attn.q_proj",
                                         "model.layers.0.self_attn.k_proj", "a]"};
    const std::vector<std::pair<std::string, std::string>> cases{
        {R"x(.*\.(q_proj|v_proj))x", "-w--"},
        {R"x(model\.layers\.[0-3]\..*)x", "www-"},
        {R"x(model.layers.0.mlp)x", "s---"},
        {R"x((?i).*Q_PROJ)x", "-w--"},
        {R"x((?i:MODEL).*)x", "www-"},
        {R"x(.*self_attn.*(?<!k_proj)$)x", "-w--"},
        {R"x((?P<a>mo)del.*(?P=a)?.*)x", "www-"},
        {R"x(model\.layers\.\d{1,2}\.mlp\.down_proj)x", "w---"},
        {R"x(model\.layers\.\d{,2}\.mlp\.down_proj)x", "w---"},
        {R"x(model\.layers\.0{,}\.mlp\.down_proj)x", "w---"},
        {R"x(a{,x})x", "----"},
        {R"x([]a-z.0-9_]+)x", "wwww"},
        {R"x([^]]+)x", "wwws"},
        {R"x([[:alpha:]]+)x", "---w"},
        {R"x([a&&b]+)x", "ssss"},
        {R"x(\Amodel.*\Z)x", "www-"},
        {R"x(model.*$)x", "www-"},
        {R"x(\Qmodel\E.*)x", "e"},
        {R"x((?R)?model.*)x", "e"},
        {R"x((?&x))x", "e"},
        {R"x((*FAIL)|model.*)x", "e"},
        {R"x(model\K.*)x", "e"},
        {R"x(\h*model.*)x", "e"},
        {R"x(model(?#note).*)x", "www-"},
        {R"x((?>model).*)x", "www-"},
        {R"x((?x) model .*)x", "www-"},
        {R"x(x(?i)model)x", "e"},
        {R"x((?:a|model)\..*_proj\b)x", "www-"},
        {R"x((model|a)(\.layers)\.0.*\1?)x", "w-w-"},
        {R"x(q_proj()x", "e"},
        {R"x(layers[)x", "e"},
        {R"x(*)x", "e"},
        {R"x(a**)x", "e"},
        {R"x(a++)x", "ssss"},
        {R"x((?<=a+)b)x", "e"},
        {R"x(\1)x", "e"},
        {R"x(model\.layers\.(?!1\b)\d+\..*)x", "w-w-"},
        {R"x([\w.]+)x", "wwws"},
        {R"x(\x6dodel.*)x", "www-"},
        {R"x(model\\)x", "----"},
        {R"x(\)x", "e"},
        {R"x((?-i:model).*)x", "www-"},
        {R"x((?s).*)x", "wwww"},
        {R"x(\uFFFF)x", "----"},
        {R"x([\b])x", "----"},
        {R"x((?a)model.*)x", "www-"},
        {R"x([\d.a-z_]*)x", "wwws"},
        {R"x(mod\el)x", "e"},
    };
    for (const auto& [pattern, expected] : cases) {
        const auto translated = from_python_regex(pattern);
        const auto regex = translated ? CompiledRegex::compile(translated.value(), {})
                                      : Expected<CompiledRegex>(translated.failure());
        std::string found = regex ? "" : "e";
        for (size_t i = 0; i < names.size() && regex; ++i) {
            CompiledRegex::Search search(regex.value(), names[i]);
            found += search.matches_whole().value()       ? 'w'
                     : search.find(0).value().has_value() ? 's'
                                                          : '-';
        }
        BOOST_TEST(found == expected, pattern << ": " << found << " in place of " << expected);
    }
}

BOOST_AUTO_TEST_CASE(hostile_expressions_end) {
    const std::string name = "model.layers.0.self_attn.q_proj";
    const auto outcome = [&](const std::string& pattern) -> std::string {
        const auto regex = CompiledRegex::compile(pattern, {.steps = 1'000'000});
        if (!regex) return regex.failure().message;
        const auto found = CompiledRegex::Search(regex.value(), name).matches_whole();
        return !found ? found.failure().message : found.value() ? "yes" : "no";
    };
    BOOST_TEST(outcome("([a-z._0-9]+)+[!?]").find("limit exceeded") != std::string::npos);
    BOOST_TEST(outcome("(.*)*(.*)*(.*)*[!?]").find("limit exceeded") != std::string::npos);
    const std::string deep = std::string(50'000, '(') + "q_proj" + std::string(50'000, ')');
    BOOST_TEST(outcome(deep).find("nested") != std::string::npos, outcome(deep));
    BOOST_TEST(outcome(".*q_proj") == "yes");
}

BOOST_AUTO_TEST_CASE(values_in_messages) {
    BOOST_TEST(shown("a\x1b[31mb\nc\td\x7f") == "a\\x1b[31mb\\nc\\td\\x7f");
    BOOST_TEST(shown("\xc2\x9b"
                     "2J naïve") ==
               "\\x9b"
               "2J naïve");
    BOOST_TEST(shown(std::string(200, 'x')) == std::string(200, 'x'));
    BOOST_TEST(shown(std::string(1'000'000, 'x')) == std::string(200, 'x') + "... (1000000 bytes)");
    BOOST_TEST(shown_message("one\n  two\x1b[0m") == "one\n  two\\x1b[0m");
    const std::string line = shown_message("begin " + std::string(100'000, 'x') + " end");
    BOOST_TEST((line.size() < 5000 && line.starts_with("begin ") && line.ends_with(" end")));
}
