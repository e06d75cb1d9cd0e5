#include "ringshard/checkpoint/state_file.hpp"

#include <hdf5.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "ringshard/base/text.hpp"

using namespace ringshard;
using namespace ringshard::checkpoint;

namespace {

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_state_{}", getpid());
    std::filesystem::path file = path / "state.h5";
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_is_laid_out_is_found, Folder) {
    const auto made = create_state_file(file, {{"/model/a", {3, 2}}, {"/model/b", {4}}},
                                        {{"step", 7}}, {{"settings", "x: 1"}});
    BOOST_TEST_REQUIRE(static_cast<bool>(made));
    const auto found = open_state_file(file);
    BOOST_TEST_REQUIRE(static_cast<bool>(found));
    BOOST_TEST(found.value().datasets.at("/model/a").shape == (std::vector<int64_t>{3, 2}));
    BOOST_TEST(found.value().datasets.at("/model/b").offset ==
               made.value().datasets.at("/model/b").offset);
    BOOST_TEST(found.value().numbers.at("step") == 7);
    BOOST_TEST(found.value().texts.at("settings") == "x: 1");
}

// HDF5 goes round in a group that holds itself and is not counted twice, as damage may leave one.
BOOST_FIXTURE_TEST_CASE(a_group_that_holds_itself_has_an_end, Folder) {
    BOOST_TEST_REQUIRE(static_cast<bool>(create_state_file(file, {{"/model/a", {3, 2}}}, {}, {})));
    const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    BOOST_TEST(H5Lcreate_hard(id, "/model", id, "/model/again", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    const hid_t group = H5Oopen(id, "/model", H5P_DEFAULT);
    BOOST_TEST(H5Odecr_refcount(group) >= 0);
    H5Oclose(group);
    BOOST_TEST(H5Fclose(id) >= 0);
    const auto found = open_state_file(file);
    BOOST_TEST_REQUIRE(!found);
    BOOST_TEST(found.failure().message.find("HDF5 could not list the file") != std::string::npos);
}
