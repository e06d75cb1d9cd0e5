#include "ringshard/hub/safetensors.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>

#include "ringshard/hub/tied_head.hpp"

using namespace ringshard;
using namespace ringshard::hub;

namespace {

struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / format_text("ringshard_safetensors_{}", getpid());

    // A file with this header and so many bytes of data.
    void write(const std::string& header, size_t data_bytes,
               const std::string& name = "model.safetensors") const {
        std::ofstream file(path / name, std::ios::binary);
        const uint64_t length = header.size();
        file.write(reinterpret_cast<const char*>(&length), 8);
        file << header << std::string(data_bytes, '\1');
    }
    void expect_refused(const std::string& words, int code = 65) const {
        const auto opened = StoredModel::open(path);
        BOOST_TEST_REQUIRE(!opened);
        BOOST_TEST(number(opened.failure().code) == code);
        BOOST_TEST(opened.failure().message.find(words) != std::string::npos,
                   opened.failure().message);
    }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_is_written_is_read, Folder) {
    const std::vector<float> a{1, 2, 3, 4, 5, 6};
    const std::vector<float> b{0.5F, -1.25F};
    SafetensorsWriter writer(path / "model.safetensors", {{"a", StoredType::fp32, {2, 3}},
                                                          {"b", StoredType::bf16, {2}},
                                                          {"c", StoredType::fp16, {1, 2}}});
    writer.write(std::span(a).first(4));
    writer.write(std::span(a).last(2));
    writer.write(b);
    writer.write(b);
    BOOST_TEST(!writer.close());
    const auto model = StoredModel::open(path);
    std::vector<float> read(4);
    BOOST_TEST(!model.value().read(*model.value().find("a"), 1, read));
    BOOST_TEST(read == (std::vector<float>{2, 3, 4, 5}));
    read.resize(2);
    for (const auto* name : {"b", "c"}) {
        BOOST_TEST(!model.value().read(*model.value().find(name), 0, read));
        BOOST_TEST(read == b);
    }
    BOOST_TEST((model.value().find("a")->shape == std::vector<int64_t>{2, 3}));
    BOOST_TEST(model.value().find("d") == nullptr);
}

BOOST_FIXTURE_TEST_CASE(damaged_files_are_refused, Folder) {
    expect_refused("holds neither", 66);
    write("{", 0);
    expect_refused("no readable header");
    std::ofstream(path / "model.safetensors") << "abc";
    expect_refused("not a safetensors file");
    std::ofstream(path / "model.safetensors") << "\xff\xff\xff\xff\xff\xff\xff\x7f"
                                              << "{}";
    expect_refused("not a safetensors file");
    const auto entry = [](const char* fields) { return format_text(R"({{"a": {{{}}}}})", fields); };
    write(entry(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])"), 4);
    expect_refused("is the file whole");
    write(entry(R"("dtype": "F32", "shape": [3], "data_offsets": [0, 8])"), 8);
    expect_refused("do not fit its shape");
    write(entry(R"("dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0])"), 8);
    expect_refused("not a list of sizes");
    write(entry(R"("dtype": "F32", "shape": [1099511627776, 4194304], "data_offsets": [0, 0])"), 8);
    expect_refused("do not fit its shape");
    write(entry(R"("dtype": "F4", "shape": [8], "data_offsets": [0, 8])"), 8);
    expect_refused("is not a type of safetensors with whole bytes");
    write(entry(R"("dtype": "F32", "shape": [-2], "data_offsets": [0, 8])"), 8);
    expect_refused("not a list of sizes");
    write(entry(R"("dtype": "F32", "shape": [2], "data_offsets": [8, 0])"), 8);
    expect_refused("is the file whole");
    write(
        R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
        12);
    expect_refused("overlaps");
    write(R"({"a": 3})", 12);
    expect_refused("not an object");
    write(R"({"a": {"dtype": 3, "shape": [2], "data_offsets": [0, 8]}})", 12);
    expect_refused("dtype");
    // Nested so deeply that printing it would use up the stack.
    write(format_text(R"({{"a": {{"dtype": {}{}}}}})", std::string(1'000'000, '['),
                      std::string(1'000'000, ']')),
          8);
    expect_refused("no readable header");
}

BOOST_FIXTURE_TEST_CASE(shards_come_with_an_index, Folder) {
    write(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 4, "one.safetensors");
    write(R"({"b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", 4, "two.safetensors");
    const auto index = path / "model.safetensors.index.json";
    std::ofstream(index) << R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})";
    BOOST_TEST(StoredModel::open(path).value().tensors().size() == 2U);
    std::ofstream(index) << R"({"weight_map": {"a": "one.safetensors", "b": "three.safetensors"}})";
    expect_refused("three.safetensors", 66);
    std::ofstream(index) << R"({"weight_map": {"a": 1}})";
    expect_refused("names no file");
    std::ofstream(index) << "[";
    expect_refused("no weight_map");
}

BOOST_FIXTURE_TEST_CASE(an_index_names_regular_files_of_its_folder, Folder) {
    const auto index = path / "model.safetensors.index.json";
    for (const std::string name : {"../one.safetensors", "a/../../one.safetensors", "/dev/zero"}) {
        std::ofstream(index) << R"({"weight_map": {"a": ")" << name << R"("}})";
        expect_refused(
            format_text("a lies in {}, which may be outside of the model's folder", name));
    }
    BOOST_TEST_REQUIRE(mkfifo((path / "pipe.safetensors").c_str(), 0600) == 0);
    std::ofstream(index) << R"({"weight_map": {"a": "pipe.safetensors"}})";
    expect_refused("pipe.safetensors: there is no such file, it is empty or no regular file", 66);
}

BOOST_FIXTURE_TEST_CASE(a_head_is_compared_with_the_embedding_in_parts, Folder) {
    const auto compare = [&](std::vector<float> head, std::vector<int64_t> head_shape) {
        const std::vector<float> embedding{1, 2, 3, 4, 5, 6};
        SafetensorsWriter writer(path / "model.safetensors",
                                 {{"model.embed_tokens.weight", StoredType::bf16, {3, 2}},
                                  {"lm_head.weight", StoredType::fp32, std::move(head_shape)}});
        writer.write(embedding);
        writer.write(head);
        BOOST_TEST_REQUIRE(!writer.close());
        const auto stored = StoredModel::open(path).value();
        BOOST_TEST(holds_head_and_embedding(stored, {}));
        const auto is_equal = [&](int64_t part, int64_t num_parts) {
            return is_head_the_embedding(stored, {}, part, num_parts).value();
        };
        return std::vector{is_equal(0, 1), is_equal(0, 2), is_equal(1, 2), is_equal(6, 7)};
    };
    BOOST_TEST(compare({1, 2, 3, 4, 5, 6}, {3, 2}) == (std::vector{true, true, true, true}));
    BOOST_TEST(compare({1, 2, 3, 4, 5, 7}, {3, 2}) == (std::vector{false, true, false, false}));
    BOOST_TEST(compare({0, 2, 3, 4, 5, 6}, {3, 2}) == (std::vector{false, false, true, true}));
    BOOST_TEST(compare({1, 2, 3, 4, 5, 6}, {2, 3}) == (std::vector{false, false, false, false}));
}
