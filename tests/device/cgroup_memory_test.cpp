#include "cgroup_memory.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "ringshard/base/text.hpp"

using namespace ringshard;
using device::memory_left_in_cgroups;
namespace fs = std::filesystem;

namespace {

constexpr int64_t MiB = int64_t{1} << 20;
const auto* const unlimited_v1 = "9223372036854771712";
const auto* const mount_v2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const auto* const mount_v1 =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

// A made-up /proc and /sys.
class Root {
public:
    Root() { fs::create_directories(folder_); }
    ~Root() { fs::remove_all(folder_); }
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;

    Root& write(const std::string& file, const std::string& content) {
        fs::create_directories((folder_ / file).parent_path());
        std::ofstream(folder_ / file) << content;
        return *this;
    }
    Root& process(const std::string& cgroup, const std::string& mountinfo) {
        const auto* const others = "23 1 8:1 / / rw - ext4 /dev/root rw\n";
        return write("proc/self/cgroup", cgroup).write("proc/self/mountinfo", others + mountinfo);
    }
    // Bytes in MiB; `max` as the kernel writes it.
    Root& group_v2(const std::string& group, const std::string& max, int64_t used, int64_t cache,
                   const std::string& high = "max") {
        const std::string folder = "sys/fs/cgroup" + group;
        return write(folder + "/memory.max", max)
            .write(folder + "/memory.high", high)
            .write(folder + "/memory.current", std::to_string(used * MiB))
            .write(folder + "/memory.stat", format_text("anon 1\n"
                                                        "file 99999999999\n"
                                                        "shmem 99999\n"
                                                        "inactive_file {}\n"
                                                        "active_file 0\n",
                                                        cache * MiB));
    }
    Root& group_v1(const std::string& group, const std::string& limit, int64_t used,
                   int64_t cache) {
        const std::string folder = "sys/fs/cgroup/memory" + group;
        return write(folder + "/memory.limit_in_bytes", limit)
            .write(folder + "/memory.usage_in_bytes", std::to_string(used * MiB))
            .write(folder + "/memory.use_hierarchy", "1")
            .write(folder + "/memory.stat",
                   format_text(
                       "active_file 77777777777\ntotal_active_file {}\ntotal_inactive_file 0\n",
                       cache * MiB));
    }
    // In MiB; -1: no limit.
    int64_t left() const {
        const auto bytes = memory_left_in_cgroups(folder_);
        return bytes ? *bytes / MiB : -1;
    }

private:
    fs::path folder_ = fs::temp_directory_path() / format_text("cgroup_memory_test-{}", getpid());
};

std::string mebibytes(int64_t number) { return std::to_string(number * MiB); }

}  // namespace

BOOST_AUTO_TEST_CASE(no_control_group_limits_nothing) {
    Root root;
    BOOST_TEST(root.left() == -1);
    BOOST_TEST(root.process("0::/\n", mount_v2).left() == -1);
    BOOST_TEST(root.process("0::/user\n", mount_v2).group_v2("/user", "max", 5, 1).left() == -1);
    BOOST_TEST(root.process("4:memory:/\n", mount_v1).group_v1("", unlimited_v1, 5, 1).left() ==
               -1);
    BOOST_TEST(root.process("nonsense\n4:memory\n", "35 31 - \nnonsense - cgroup2\n").left() == -1);
}

// SLURM limits the job and the step; the leaf, where the process is, says max.
BOOST_AUTO_TEST_CASE(the_tightest_ancestor_counts_in_v2) {
    const std::string job = "/system.slice/slurmstepd.scope/job_7";
    Root root;
    root.process("0::" + job + "/step_0/user/task_3\n", mount_v2)
        .group_v2("/system.slice", "max", 9000, 0)
        .group_v2(job, mebibytes(4000), 3000, 0)
        .group_v2(job + "/step_0", mebibytes(4000), 2500, 0)
        .group_v2(job + "/step_0/user", "max", 2500, 0)
        .group_v2(job + "/step_0/user/task_3", "max", 600, 0);
    BOOST_TEST(root.left() == 1000);
    BOOST_TEST(root.group_v2(job + "/step_0", mebibytes(3000), 2500, 0).left() == 500);
}

BOOST_AUTO_TEST_CASE(page_cache_can_be_evicted_and_shared_memory_cannot) {
    Root root;
    root.process("0::/job\n", mount_v2).group_v2("/job", mebibytes(1000), 900, 300);
    BOOST_TEST(root.left() == 400);
}

BOOST_AUTO_TEST_CASE(a_group_is_as_small_as_memory_high) {
    Root root;
    root.process("0::/job\n", mount_v2).group_v2("/job", mebibytes(1000), 100, 0, mebibytes(600));
    BOOST_TEST(root.left() == 500);
    BOOST_TEST(root.group_v2("/job", "max", 100, 0, mebibytes(600)).left() == 500);
}

BOOST_AUTO_TEST_CASE(a_group_beyond_its_limit_leaves_less_than_nothing) {
    Root root;
    root.process("0::/job\n", mount_v2).group_v2("/job", mebibytes(100), 150, 0);
    BOOST_TEST(root.left() == -50);
}

BOOST_AUTO_TEST_CASE(the_tightest_ancestor_counts_in_v1) {
    const std::string job = "/slurm/uid_1000/job_7";
    Root root;
    root.process("11:cpuset:/elsewhere\n4:cpu,memory:" + job + "/step_0/task_0\n0::/\n", mount_v1)
        .group_v1("", unlimited_v1, 9000, 0)
        .group_v1("/slurm", unlimited_v1, 8000, 0)
        .group_v1("/slurm/uid_1000", unlimited_v1, 800, 0)
        .group_v1(job, mebibytes(1000), 800, 50)
        .group_v1(job + "/step_0", mebibytes(1000), 700, 0)
        .group_v1(job + "/step_0/task_0", unlimited_v1, 300, 0);
    BOOST_TEST(root.left() == 250);
    // A parent that does not count its children does not limit them.
    root.write("sys/fs/cgroup/memory" + job + "/memory.use_hierarchy", "0");
    BOOST_TEST(root.left() == 300);
}

// v2 is mounted beside v1, and its groups have no memory controller.
BOOST_AUTO_TEST_CASE(hybrid_hosts_have_their_limit_in_v1) {
    const std::string mounts = std::string(mount_v1) +
                               "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                               "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    Root root;
    root.process("4:memory:/job\n1:cpu:/job\n0::/job\n", mounts)
        .write("sys/fs/cgroup/unified/job/cgroup.procs", "1\n")
        .group_v1("/job", mebibytes(400), 100, 0);
    BOOST_TEST(root.left() == 300);
}

// Without a cgroup namespace a container sees its own group at the mount point.
BOOST_AUTO_TEST_CASE(a_container_sees_a_part_of_the_hierarchy) {
    const auto* const mount =
        "35 31 0:32 /docker/a\\040b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    Root root;
    root.process("4:memory:/docker/a b/inner\n", mount)
        .group_v1("", mebibytes(400), 100, 0)
        .group_v1("/inner", unlimited_v1, 50, 0);
    BOOST_TEST(root.left() == 300);
    // Of a group beside that part nothing is seen; the part itself holds it or is near it.
    root.process("4:memory:/elsewhere\n", mount);
    BOOST_TEST(root.left() == 300);
}
