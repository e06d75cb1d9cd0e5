#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "log_history.hpp"
#include "mpi_test.hpp"
#include "ringshard/train/metrics.hpp"

using namespace ringshard;
using namespace ringshard::train;

BOOST_AUTO_TEST_CASE(the_largest_numbers_of_all_ranks_are_found_at_once) {
    const comm::Group& world = test::world();
    const int last = world.size() - 1;
    MemoryByKind mine;
    mine.weights = 100 + world.rank();
    mine.save_copy = 100 - world.rank();
    mine.process_peak = (int64_t{1} << 40) + (world.rank() == last ? 4097 : world.rank());
    mine.host = world.rank() == 0 ? 7 : 0;
    Usage usage;
    const int64_t before = world.log().state().begun;
    usage.take_maxima(mine, world);
    BOOST_TEST(world.log().state().begun - before == 1);
    BOOST_TEST(usage.memory.weights == 100 + last);
    BOOST_TEST(usage.memory.save_copy == 100);
    BOOST_TEST(usage.memory.host == 7);
    BOOST_TEST(usage.memory.gathered == 0);
    BOOST_TEST(usage.peak_memory_bytes == (int64_t{1} << 40) + 4097);
    BOOST_TEST(usage.peak_memory_rank == last);
    mine.process_peak = 5000;  // the same everywhere: the first rank
    usage.take_maxima(mine, world);
    BOOST_TEST(usage.peak_memory_rank == 0);
}

namespace {

// A folder of this rank that goes with its owner.
class Folder {
public:
    Folder()
        : path_(std::filesystem::temp_directory_path() /
                format_text("ringshard_log_{}", getpid())) {
        std::filesystem::create_directories(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

std::string text_of(const LogHistory::View& view, const std::filesystem::path& folder,
                    int64_t begin = 0) {
    const std::filesystem::path name = folder / "written";
    auto file = File::open(name, O_RDWR | O_CREAT | O_TRUNC).value();
    int64_t offset = 0;
    BOOST_TEST(!view.write_to(file, offset, begin));
    const std::string text = read_file(name).value();
    BOOST_TEST(static_cast<int64_t>(text.size()) == offset);
    return text;
}

nlohmann::json read(const LogHistory& history, const std::filesystem::path& folder) {
    return nlohmann::json::parse("[" + text_of(history.view(), folder) + "]");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_history_holds_the_names_that_trl_logs_and_no_more_memory_than_a_piece) {
    const Folder folder;
    LogHistory history(folder.path());
    BOOST_TEST(history.view().is_empty());
    const double nan = std::numeric_limits<double>::quiet_NaN();
    history.add({{"step", int64_t{1}},
                 {"loss", 2.5},
                 {"mfu", 0.5},
                 {"total_flos", 1e9},
                 {"num_tokens", int64_t{64}},
                 {"epoch", 0.5}});
    history.add({{"step", int64_t{1}}, {"save_step", int64_t{1}}, {"save_stall_s", 0.5}});
    history.add({{"step", int64_t{2}}, {"loss", nan}, {"grad_norm", 1.0}});
    history.add({{"step", int64_t{2}}, {"eval_loss", 3.0}});
    history.add({{"mine", int64_t{2}}});
    BOOST_TEST(!history.has_end_at(2));
    history.add({{"step", int64_t{2}}, {"train_runtime", 9.0}, {"total_flos", 2e9}});
    BOOST_TEST(history.has_end_at(2));
    BOOST_TEST(!history.has_end_at(3));
    BOOST_TEST(read(history, folder.path()).dump() ==
               R"([{"epoch":0.5,"loss":2.5,"num_tokens":64,"step":1},{"grad_norm":1.0,"step":2},)"
               R"({"eval_loss":3.0,"step":2},{"step":2,"total_flos":2000000000.0,)"
               R"("train_runtime":9.0}])");
    BOOST_TEST(history.view().epoch == 0.5);
    BOOST_TEST(history.view().num_tokens == 64);
    BOOST_TEST(history.view().total_flos == 2e9);

    for (int64_t step = 3; step < 10'000; ++step)
        history.add({{"step", step}, {"loss", 1.0 / static_cast<double>(step)}});
    const LogHistory::View before = history.view();
    history.add({{"step", int64_t{10'000}}, {"loss", 0.0}});
    const std::string text = text_of(before, folder.path());
    for (int64_t step = 10'001; step < 12'000; ++step) history.add({{"step", step}, {"loss", 0.5}});
    BOOST_TEST(text_of(before, folder.path()) == text);  // a view stays as it was
    BOOST_TEST(before.bytes > 300'000);
    BOOST_TEST(history.view().rest.size() < 20'000U);
    BOOST_TEST(read(history, folder.path()).size() == 12'001U);
    const nlohmann::json kept = nlohmann::json::parse(
        "[" + text_of(history.view(), folder.path(), history.view().newest) + "]");
    BOOST_TEST(kept.size() == LogHistory::max_in_checkpoint);
    BOOST_TEST(kept.front()["step"] == 2'000);
    BOOST_TEST(kept.back()["step"] == 11'999);
    BOOST_TEST(read(history, folder.path()).back()["step"] == 11'999);
    BOOST_TEST(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(lines_give_the_sums_of_the_steps_that_they_are_means_of) {
    const Folder folder;
    LogHistory history(folder.path());
    const double nan = std::numeric_limits<double>::quiet_NaN();
    history.add({{"step", int64_t{2}}, {"loss", 3.0}, {"tokens_per_second", 1.0}});
    history.add({{"step", int64_t{2}}, {"eval_loss", 9.0}});
    history.add({{"step", int64_t{5}},
                 {"loss", 2.0},
                 {"tokens_per_second", 1.0},
                 {"skipped_steps", int64_t{1}}});
    history.add({{"step", int64_t{6}},
                 {"loss", nan},
                 {"tokens_per_second", 1.0},
                 {"skipped_steps", int64_t{1}}});
    history.add(
        {{"step", int64_t{7}}, {"loss", 1.0}, {"tokens_per_second", 1.0}, {"total_flos", 8.0}});
    BOOST_TEST(history.sums().loss == 11.0);
    BOOST_TEST(history.sums().num_losses == 5);
    BOOST_TEST(history.sums().operations == 8.0);
}

BOOST_AUTO_TEST_CASE(lines_that_no_checkpoint_holds_any_more_are_named) {
    const Folder folder;
    const std::filesystem::path saved = folder.path() / "checkpoint-90000";
    std::filesystem::create_directories(saved);
    constexpr int64_t first = 80'001;
    std::string text = "{\n  \"log_history\": [";
    for (size_t i = 0; i < LogHistory::max_in_checkpoint; ++i)
        text += format_text("{}\n    {{\"loss\":0.5,\"step\":{}}}", i == 0 ? "" : ",",
                            first + static_cast<int64_t>(i));
    BOOST_TEST(!write_file_atomically(saved / "trainer_state.json", text + "\n  ]\n}\n"));
    const MetricsFile file({folder.path(), 2, "token"}, folder.path());
    const std::string said = file.restore(saved / "trainer_state.json").value();
    BOOST_TEST(said.find("lacked 10000 of the lines") != std::string::npos);
    BOOST_TEST(said.find("those of steps before 80001 do not come back") != std::string::npos);
    BOOST_TEST(file.restore(saved / "trainer_state.json").value().empty());
}
