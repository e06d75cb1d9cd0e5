#include "ringshard/offload/scratch_file.hpp"

#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <unistd.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "ringshard/offload/staging.hpp"

using namespace ringshard;
using offload::QueueKind;
using offload::ScratchFile;
using offload::Staging;

namespace {

class TemporaryFolder {
public:
    TemporaryFolder() { std::filesystem::create_directories(path_); }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / format_text("ringshard_scratch_{}", getpid());
};

constexpr int64_t elements = 5000;  // not whole pages
constexpr int64_t count = 150;      // more than either queue holds at a time

const auto both_queues = boost::unit_test::data::make({QueueKind::io_uring, QueueKind::threads});

}  // namespace

namespace ringshard::offload {
std::ostream& operator<<(std::ostream& out, QueueKind kind) {
    return out << (kind == QueueKind::io_uring ? "io_uring" : "threads");
}
}  // namespace ringshard::offload

BOOST_DATA_TEST_CASE(what_was_written_comes_back, both_queues, queue) {
    const TemporaryFolder folder;
    ScratchFile file = ScratchFile::open(folder.path(), queue).value();
    BOOST_TEST_MESSAGE(file.describe());
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < count; ++i) offsets.push_back(file.reserve(elements * 4));
    BOOST_TEST(!file.allocate());
    BOOST_TEST(std::filesystem::is_empty(folder.path()));  // no name leads to it

    Staging staging;
    std::vector<at::Tensor> numbers;
    std::vector<offload::Operation> operations;
    for (int64_t i = 0; i < count; ++i) {
        numbers.push_back(staging.take(elements, at::kInt));
        numbers.back().copy_(at::arange(i, i + elements));
        operations.push_back(
            file.write(offload::pages_of(numbers.back()), offsets[static_cast<size_t>(i)]));
    }
    for (const auto operation : operations) file.wait(operation);
    const at::Tensor read = staging.take(elements, at::kInt);
    for (int64_t i = count; i-- > 0;) {
        file.wait(file.read(offload::pages_of(read), offsets[static_cast<size_t>(i)]));
        BOOST_TEST(at::equal(read, numbers[static_cast<size_t>(i)]));
    }
}

BOOST_DATA_TEST_CASE(room_that_was_never_written_is_zero, both_queues, queue) {
    const TemporaryFolder folder;
    ScratchFile file = ScratchFile::open(folder.path(), queue).value();
    const int64_t offset = file.reserve(elements * 4);
    BOOST_TEST(!file.allocate());
    Staging staging;
    const at::Tensor read = staging.take(elements, at::kFloat);
    read.fill_(7);
    file.wait(file.read(offload::pages_of(read), offset));
    BOOST_TEST(!read.any().item<bool>());
}

BOOST_DATA_TEST_CASE(an_operation_that_fails_ends_the_job, both_queues, queue) {
    const TemporaryFolder folder;
    ScratchFile file = ScratchFile::open(folder.path(), queue).value();
    Staging staging;
    const at::Tensor page = staging.take(1024, at::kFloat);
    // Nothing is there, since no room was made.
    const auto beyond_the_end = file.read(offload::pages_of(page), 0);
    BOOST_CHECK_EXCEPTION(file.wait(beyond_the_end), Error, [](const Error& error) {
        return error.code() == ExitCode::io &&
               std::string(error.what()).find("cannot be written or read back") !=
                   std::string::npos;
    });
    // The operations before and after it are as good as ever.
    file.reserve(offload::page_bytes);
    BOOST_TEST(!file.allocate());
    file.wait(file.read(offload::pages_of(page), 0));
}

BOOST_AUTO_TEST_CASE(a_folder_that_does_not_serve) {
    const auto missing = ScratchFile::open("/no/such/folder");
    BOOST_TEST(!missing);
    BOOST_TEST((missing.failure().code == ExitCode::missing_input));
    const auto unwritable = ScratchFile::open("/proc");
    BOOST_TEST(!unwritable);

    const TemporaryFolder folder;
    ScratchFile file = ScratchFile::open(folder.path()).value();
    file.reserve(int64_t{1} << 50);
    const auto failure = file.allocate();
    BOOST_REQUIRE(failure);
    BOOST_TEST((failure->code == ExitCode::io));
    BOOST_TEST(failure->message.find("name another folder") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(memory_is_used_again) {
    Staging staging;
    { const at::Tensor first = staging.take(elements, at::kFloat); }
    const int64_t once = staging.bytes();
    BOOST_TEST(once == offload::whole_pages(elements * 4));
    const at::Tensor second = staging.take(elements, at::kFloat);
    BOOST_TEST(staging.bytes() == once);
    const at::Tensor third = staging.take(elements, at::kFloat);
    BOOST_TEST(staging.bytes() == 2 * once);
}

BOOST_AUTO_TEST_CASE(free_memory_is_given_back) {
    Staging staging;
    const at::Tensor held = staging.take(elements, at::kFloat);
    const int64_t once = staging.bytes();
    { const at::Tensor done = staging.take(elements, at::kFloat); }
    BOOST_TEST(staging.bytes() == 2 * once);
    staging.release_free();
    BOOST_TEST(staging.bytes() == once);
}
