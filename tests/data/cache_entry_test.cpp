#include "cache_entry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <thread>

#include "ringshard/base/text.hpp"

using namespace ringshard;
using namespace ringshard::data;
namespace fs = std::filesystem;

namespace {

// A cache in which another process makes a file: it holds the lock and has a work folder.
class HeldFile {
public:
    HeldFile() {
        fs::create_directories(work());
        std::ofstream(lock_name()) << "elsewhere, process 7\n";
        lock_ = ::open(lock_name().c_str(), O_RDWR | O_CLOEXEC);
        BOOST_REQUIRE(flock(lock_, LOCK_EX) == 0);
    }
    ~HeldFile() {
        release();
        fs::remove_all(folder_);
    }
    HeldFile(const HeldFile&) = delete;

    fs::path file() const { return folder_ / "tokens"; }
    fs::path work() const { return folder_ / "tokens.making-elsewhere-abcdef"; }
    void release() {
        if (lock_ >= 0) close(std::exchange(lock_, -1));
    }

private:
    std::string lock_name() const { return file().string() + ".lock"; }
    fs::path folder_ = fs::temp_directory_path() / format_text("ringshard_cache_{}", getpid());
    int lock_ = -1;
};

constexpr LockPatience short_patience{.first_line = 0.1, .each_line = 0.2, .longest = 1};

}  // namespace

BOOST_AUTO_TEST_CASE(a_holder_that_writes_nothing_is_waited_for_and_then_named) {
    const HeldFile held;
    const auto claimed = CacheEntry::claim(held.file(), short_patience);
    BOOST_REQUIRE(!claimed);
    BOOST_TEST((claimed.failure().code == ExitCode::peer_lost));
    BOOST_TEST(claimed.failure().message.find("elsewhere, process 7 holds the lock") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_holder_that_writes_is_waited_for_until_it_has_ended) {
    HeldFile held;
    std::thread maker([&] {
        for (int i = 0; i < 12; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            std::ofstream(held.work() / "result", std::ios::app) << "more" << std::flush;
        }
        held.release();
    });
    const auto claimed = CacheEntry::claim(held.file(), short_patience);
    maker.join();
    BOOST_REQUIRE(claimed);
    std::ifstream signature(held.file().string() + ".lock");
    std::string line;
    std::getline(signature, line);
    BOOST_TEST(line.ends_with(format_text(", process {}", getpid())));
}
