// A Hugging Face folder from shards: the bytes that transformers wrote, whoever writes them.
#include <ATen/ops/full.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <set>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/hub/export_weights.hpp"
#include "shared_folder.hpp"
#include "test_model.hpp"

using namespace ringshard;
using namespace ringshard::hub;
using test::TestModel;
namespace fs = std::filesystem;

namespace {

struct Folder : test::SharedFolder {
    Folder() : SharedFolder("export") {}

    std::set<std::string> names() const {
        std::error_code error;
        std::set<std::string> found;
        for (const fs::path& entry : folder_entries(path, error)) found.insert(entry.filename());
        return found;
    }
    // Every file of weights and the index is the same in both folders.
    void expect_same(const fs::path& golden) const {
        std::error_code error;
        for (const fs::path& entry : folder_entries(golden, error)) {
            if (!entry.filename().string().starts_with("model")) continue;
            const auto wanted = read_file(entry);
            const auto found = read_file(path / entry.filename());
            BOOST_TEST((found && *found == *wanted), entry << " was written differently");
        }
    }
};

struct Layout {
    const char* name;
    mesh::Cuts cuts;
    mesh::MeshShape shape;
};
std::vector<Layout> layouts() {
    const int64_t ranks = test::world().size();
    std::vector<Layout> all{{"multi_gpu", {false, false, false, true}, {.replicate = ranks}},
                            {"zero3", {true, true, true, false}, {.shard = ranks}}};
    if (ranks == 4) all.push_back({"zero3, replicate 2", {true, true, true, false}, {2, 1, 2, 1}});
    return all;
}

// What a checkpoint would hold of the golden's folder, on rank 0.
std::map<std::string, std::string> small_files(const fs::path& golden) {
    if (!test::world().is_root()) return {};
    return {{"config.json", *read_file(golden / "config.json")}, {"mine.txt", "kept"}};
}

// Bytes of tensors in the first file of the folder that the golden numbers are cut in.
constexpr int64_t golden_shard_size = 183424;

}  // namespace

BOOST_FIXTURE_TEST_CASE(whole_and_in_fp32_tied_or_not, Folder) {
    for (const auto* name : {"qwen2-tiny", "qwen3-tiny"}) {
        const fs::path golden = test::golden_folder() / "models" / name;
        for (const Layout& layout : layouts()) {
            BOOST_TEST_CONTEXT(name << ", " << layout.name) {
                TestModel model(test::world(), golden,
                                {.shape = layout.shape, .cuts = layout.cuts});
                BOOST_TEST(
                    !export_weights(model.zero, path, small_files(golden), {}, test::world()));
                if (test::world().is_root()) {
                    expect_same(golden);
                    BOOST_TEST((names() == std::set<std::string>{"config.json", "mine.txt",
                                                                 "model.safetensors"}));
                }
                test::world().barrier();
            }
        }
    }
}

BOOST_FIXTURE_TEST_CASE(in_bf16_and_in_parts, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-sharded-tiny";
    const ExportForm form{StoredType::bf16, golden_shard_size};
    for (const Layout& layout : layouts()) {
        BOOST_TEST_CONTEXT(layout.name) {
            TestModel model(test::world(), golden, {.shape = layout.shape, .cuts = layout.cuts});
            BOOST_TEST(!export_weights(model.zero, path, small_files(golden), form, test::world()));
            if (test::world().is_root()) expect_same(golden);
            test::world().barrier();
        }
    }
}

BOOST_FIXTURE_TEST_CASE(numbers_are_rounded_to_nearest_even, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    const auto weights = model.weights();
    BOOST_TEST(!export_weights(model.zero, path, {}, {StoredType::bf16, 60'000}, test::world()));
    const auto stored = StoredModel::open(path).value();
    BOOST_TEST(stored.tensors().size() == weights.size());
    BOOST_TEST(names().size() > 3U);
    for (const auto& [name, tensor] : weights) {
        const StoredTensor* found = stored.find(name);
        BOOST_TEST_REQUIRE(found != nullptr);
        BOOST_TEST((found->type == StoredType::bf16 && found->shape == tensor.sizes().vec()));
        std::vector<float> read(static_cast<size_t>(tensor.numel()));
        BOOST_TEST(!stored.read(*found, 0, read));
        const at::Tensor rounded = tensor.to(at::kBFloat16).to(at::kFloat).contiguous();
        const auto* const wanted = static_cast<const float*>(rounded.data_ptr());
        BOOST_TEST(std::equal(read.begin(), read.end(), wanted), name);
    }
}

BOOST_FIXTURE_TEST_CASE(an_older_model_is_replaced, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    const auto names_after = [&](const ExportForm& form) {
        BOOST_TEST(!export_weights(model.zero, path, small_files(golden), form, test::world()));
        const auto found = names();
        test::world().barrier();
        return found;
    };
    const std::set<std::string> whole{"config.json", "mine.txt", "model.safetensors"};
    BOOST_TEST((names_after({StoredType::fp32, 300'000}) ==
                std::set<std::string>{"config.json", "mine.txt", "model-00001-of-00003.safetensors",
                                      "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors",
                                      "model.safetensors.index.json"}));
    BOOST_TEST((names_after({}) == whole));
    BOOST_TEST((names_after({StoredType::fp32, 400'000}) ==
                std::set<std::string>{"config.json", "mine.txt", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json"}));
}

BOOST_FIXTURE_TEST_CASE(what_killed_exports_left_is_removed, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    if (test::world().is_root())
        for (const auto* name :
             {"model.safetensors.tmp-7", "model-00001-of-00003.safetensors.tmp-1234",
              "config.json.tmp-7", "model.safetensors.index.json.tmp-8", "notes.txt.tmp-7",
              "model.safetensors.tmp-x"})
            BOOST_TEST(!write_file_atomically(path / name, "half"));
    test::world().barrier();
    BOOST_TEST(!export_weights(model.zero, path, small_files(golden), {}, test::world()));
    BOOST_TEST((names() == std::set<std::string>{"config.json", "mine.txt", "model.safetensors",
                                                 "model.safetensors.tmp-x", "notes.txt.tmp-7"}));
    test::world().barrier();
}

BOOST_FIXTURE_TEST_CASE(an_older_model_is_whole_until_the_new_one_is, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    BOOST_TEST(!export_weights(model.zero, path, small_files(golden), {}, test::world()));
    const auto config = read_file(path / "config.json");
    const auto in_the_way = path / ("model.safetensors" + work_mark());
    if (test::world().is_root()) fs::create_directories(in_the_way / "full");
    test::world().barrier();
    const ExportForm other{.type = StoredType::bf16};
    BOOST_TEST(
        export_weights(model.zero, path, small_files(golden), other, test::world()).has_value());
    BOOST_TEST((read_file(path / "config.json") == config));
    if (test::world().is_root()) fs::remove_all(in_the_way);
    test::world().barrier();
    const auto refuse = [] {
        return std::optional(Failure{ExitCode::superseded, "another one owns it"});
    };
    const auto refused =
        export_weights(model.zero, path, small_files(golden), other, test::world(), refuse);
    BOOST_TEST_REQUIRE(refused.has_value());
    BOOST_TEST((refused->code() == ExitCode::superseded));
    BOOST_TEST((read_file(path / "config.json") == config));
}

BOOST_FIXTURE_TEST_CASE(config_json_says_the_type, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    const auto config_after = [&](const char* config) {
        std::map<std::string, std::string> files;
        if (test::world().is_root()) files["config.json"] = config;
        BOOST_TEST(!export_weights(model.zero, path, files, {StoredType::bf16}, test::world()));
        const auto found = read_file(path / "config.json");
        test::world().barrier();
        return found.value_or("");
    };
    BOOST_TEST(config_after(R"({"b": 1e-06, "a": 10000.0})") ==
               "{\n  \"b\": 1e-06,\n  \"a\": 10000.0,\n  \"dtype\": \"bfloat16\"\n}\n");
    BOOST_TEST(config_after(R"({"torch_dtype": "float32"})") ==
               "{\n  \"torch_dtype\": \"bfloat16\",\n  \"dtype\": \"bfloat16\"\n}\n");
    std::map<std::string, std::string> files;
    if (test::world().is_root()) files["config.json"] = "[";
    const auto failure = export_weights(model.zero, path, files, {}, test::world());
    BOOST_TEST_REQUIRE(failure.has_value());
    BOOST_TEST(number(failure->code()) == 65);
}

BOOST_FIXTURE_TEST_CASE(what_fails_on_one_rank_fails_on_all, Folder) {
    const fs::path golden = test::golden_folder() / "models" / "qwen2-tiny";
    TestModel model(test::world(), golden,
                    {.shape = {.shard = test::world().size()}, .cuts = {true, true, true, false}});
    const auto expect_failure = [&](const fs::path& folder, int code, const std::string& words) {
        const auto failure = export_weights(model.zero, folder, {}, {}, test::world());
        BOOST_TEST_REQUIRE(failure.has_value());
        BOOST_TEST(number(failure->code()) == code);
        BOOST_TEST(failure->message().find(words) != std::string::npos, failure->message());
        if (test::world().is_root()) BOOST_TEST(names().empty());
        test::world().barrier();
    };
    expect_failure("/proc/no_folder", 74, "/proc/no_folder cannot be made");

    const int last = test::world().size() - 1;
    if (test::world().rank() == last) {  // the disk takes no more than this from the last rank
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit small{100'000, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &small);
    }
    expect_failure(path, 74, "cannot be written: File too large");
    const rlimit free{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &free);

    if (test::world().rank() == last)
        model.zero.shelves()
            .front()
            .exact()
            .load(0, shard::Access::read)
            .narrow(0, 0, 1)
            .fill_(std::numeric_limits<float>::infinity());
    expect_failure(path, 76, "embed_tokens.weight holds NaN or infinite numbers");
}
