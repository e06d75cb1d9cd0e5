#include "ringshard/data/dataset_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

using namespace ringshard;
using namespace ringshard::data;

namespace {

struct Folder {
    ~Folder() { std::filesystem::remove_all(root); }
    std::filesystem::path root =
        std::filesystem::temp_directory_path() / format_text("ringshard_files_{}", getpid());
    HubCache hub{Environment({{"HF_HOME", (root / "hf").string()}})};

    void write(const std::filesystem::path& file, const std::string& content = "{}") const {
        create_directories((root / file).parent_path());
        std::ofstream(root / file) << content;
    }
    // Paths below the folder, joined; or what is wrong.
    std::string find(const std::string& path, const std::string& split,
                     const std::string& config = "", bool takes_any = false) const {
        const bool is_ours = exists(root / path) || path.find_first_of("*[") != std::string::npos;
        std::vector<std::string> warnings;
        const auto files = find_dataset_files(
            {"dataset_name", is_ours ? (root / path).string() : path, config, split, {}, takes_any},
            hub, warnings);
        if (!files)
            return format_text("{} {}", number(files.failure().code), files.failure().message);
        std::vector<std::string> names;
        for (const auto& file : files.value())
            names.push_back(file.lexically_relative(root).string());
        return join(names, " ");
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(files_named_after_splits_are_the_splits, Folder) {
    for (const auto* name :
         {"d/train-00001-of-00002.parquet", "d/train-00000-of-00002.parquet", "d/test.jsonl",
          "d/dev.jsonl.gz", "d/notes.jsonl", "d/README.txt", "d/.hidden/train.jsonl", "e/b.jsonl",
          "e/a.jsonl", "e/constraint.jsonl", "f/train/x.jsonl", "f/test/x.jsonl"})
        write(name);
    BOOST_TEST(find("d", "train") ==
               "d/train-00000-of-00002.parquet d/train-00001-of-00002.parquet");
    BOOST_TEST(find("d", "test") == "d/test.jsonl");
    BOOST_TEST(find("d", "validation") == "d/dev.jsonl.gz");
    BOOST_TEST(find("e", "train") == "e/a.jsonl e/b.jsonl e/constraint.jsonl");
    BOOST_TEST(find("e", "test").starts_with("66 "));
    BOOST_TEST(find("e", "test").find("it has train") != std::string::npos);
    BOOST_TEST(find("f", "test") == "f/test/x.jsonl");
    BOOST_TEST(find("d/*.jsonl", "test") == "d/test.jsonl");
    BOOST_TEST(find("e/[ab].jsonl", "train") == "e/a.jsonl e/b.jsonl");
    BOOST_TEST(find("f/**/x.jsonl", "train") == "f/train/x.jsonl");
    BOOST_TEST(find("d/test.jsonl", "train") == "d/test.jsonl");
    BOOST_TEST(find("d/test.jsonl", "test", "", true) == "d/test.jsonl");
    BOOST_TEST(find("e/*.nothing", "train").starts_with("66 "));
    BOOST_TEST(find("no/such/file.jsonl", "train").starts_with("66 "));
}

BOOST_FIXTURE_TEST_CASE(patterns_lead_where_their_parts_say, Folder) {
    for (const auto* name : {"g/a.jsonl", "g/b.json", "g/one/a.jsonl", "g/one/two/a.jsonl",
                             "g/one/two/c.jsonl", "g/ax.jsonl"})
        write(name);
    std::filesystem::create_directory_symlink(root / "g", root / "g/one/circle");
    BOOST_TEST(find("g/*.jsonl", "train") == "g/a.jsonl g/ax.jsonl");
    BOOST_TEST(find("g/*/a.jsonl", "train") == "g/one/a.jsonl");
    BOOST_TEST(find("g/**/a.jsonl", "train") == "g/a.jsonl g/one/a.jsonl g/one/two/a.jsonl");
    BOOST_TEST(find("g/o*/**/[ac].jsonl", "train") ==
               "g/one/a.jsonl g/one/circle/a.jsonl g/one/two/a.jsonl g/one/two/c.jsonl");
    BOOST_TEST(find("g/one/two/**", "train") == "g/one/two/a.jsonl g/one/two/c.jsonl");
    BOOST_TEST(find("g", "train").find("g/one/two/c.jsonl") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(only_files_of_the_dataset_are_read, Folder) {
    write("outside.jsonl");
    for (const auto* path : {"../outside.jsonl", "/etc/passwd", "data/../../outside.jsonl"}) {
        write("card/README.md",
              format_text("---\nconfigs:\n- config_name: default\n  data_files: {}\n---\n", path));
        const std::string refused = find("card", "train");
        BOOST_TEST(refused.starts_with("65 " + (root / "card/README.md").string()), refused);
        BOOST_TEST(refused.find("outside of the dataset's folder") != std::string::npos, refused);
        write("saved/dataset_info.json");
        write("saved/state.json",
              format_text(R"({{"_data_files": [{{"filename": "{}"}}]}})", path));
        BOOST_TEST(find("saved", "train").starts_with("65 "));
    }
    std::filesystem::create_directories(root / "pipes");
    BOOST_TEST(mkfifo((root / "pipes/rows.jsonl").c_str(), 0666) == 0);
    const std::string pipe = find("pipes/rows.jsonl", "train");
    BOOST_TEST(pipe.starts_with("65 "), pipe);
    BOOST_TEST(pipe.find("is not a regular file") != std::string::npos, pipe);
    write("pipes/README.md",
          "---\nconfigs:\n- config_name: default\n  data_files: rows.jsonl\n---\n");
    BOOST_TEST(find("pipes", "train").starts_with("65 "));
}

BOOST_FIXTURE_TEST_CASE(what_looks_like_a_file_is_no_hub_dataset, Folder) {
    write("d/train.jsonl");
    for (const auto* name : {"nofile.jsonl", "my-data/part.parquet", "rows.csv"}) {
        const std::string missing = find(name, "train");
        BOOST_TEST(missing ==
                   format_text("66 dataset_name = {}: there is no such file or folder", name));
    }
    BOOST_TEST(find("owner/name-v1.0", "train").find("hf download") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(tables_and_texts_beside_data_are_left_out_with_a_warning, Folder) {
    for (const auto* name :
         {"d/a.csv", "d/b.tsv.gz", "d/notes.txt", "e/rows.jsonl", "e/about.txt", "e/map.csv"})
        write(name);
    BOOST_TEST(find("d", "train") == "d/a.csv d/b.tsv.gz");
    BOOST_TEST(find("e", "train") == "e/rows.jsonl");
    BOOST_TEST(find("d/notes.txt", "train") == "d/notes.txt");
}

BOOST_FIXTURE_TEST_CASE(folders_of_save_to_disk, Folder) {
    write("s/state.json", R"({"_data_files": [{"filename": "data-0.arrow"}], "_split": null})");
    write("s/dataset_info.json");
    write("s/data-0.arrow");
    write("s/cache-123.arrow");
    BOOST_TEST(find("s", "train") == "s/data-0.arrow");
    write("m/dataset_dict.json", R"({"splits": ["train", "test"]})");
    for (const auto* split : {"train", "test"}) {
        write(format_text("m/{}/state.json", split),
              format_text(R"({{"_data_files": [{{"filename": "d.arrow"}}], "_split": "{}"}})",
                          split));
        write(format_text("m/{}/d.arrow", split));
    }
    BOOST_TEST(find("m", "test") == "m/test/d.arrow");
    BOOST_TEST(find("m", "validation").starts_with("66 "));
}

BOOST_FIXTURE_TEST_CASE(hub_names_are_found_in_the_users_cache, Folder) {
    const std::string missing = find("owner/name", "train");
    BOOST_TEST(missing.starts_with("66 "));
    BOOST_TEST(missing.find("hf download --repo-type dataset owner/name") != std::string::npos);
    const std::string snapshot = "hf/hub/datasets--owner--name/snapshots/abc/";
    write("hf/hub/datasets--owner--name/refs/main", "abc\n");
    write(snapshot + "plain/train.parquet");
    write(snapshot + "other/x-train.jsonl");
    BOOST_TEST(find("owner/name", "train", "plain") == snapshot + "plain/train.parquet");
    write(snapshot + "README.md", R"(---
configs:
- config_name: plain
  data_files:
  - split: train
    path: plain/train*
  default: true
- config_name: second
  data_files: "other/*"
---
)");
    BOOST_TEST(find("owner/name", "train") == snapshot + "plain/train.parquet");
    BOOST_TEST(find("owner/name", "train", "second") == snapshot + "other/x-train.jsonl");
    write("hf/datasets/owner___kept/default/0.0.0/hash/dataset_info.json");
    write("hf/datasets/owner___kept/default/0.0.0/hash/kept-train.arrow");
    BOOST_TEST(find("owner/kept", "train") ==
               "hf/datasets/owner___kept/default/0.0.0/hash/kept-train.arrow");
}
