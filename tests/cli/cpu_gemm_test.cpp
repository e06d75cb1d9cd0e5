// A run chooses the libraries of its matrix products: by name, from a file, or as rank 0 has
// chosen.
#include "ringshard/run/cpu_gemm.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"

using namespace ringshard;
using ops::GemmKind;
using ops::GemmPass;
using run::GemmTable;

namespace {

// A library in name only.
class Named final : public ops::GemmBackend {
public:
    Named(const char* name, bool has_bf16) : name_(name), has_bf16_(has_bf16) {}
    std::string_view name() const override { return name_; }
    std::string version() const override { return "7"; }
    bool serves(at::ScalarType type) const override { return type == at::kFloat || has_bf16_; }
    void multiply(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                  const at::Tensor&) override {}
    void add_product(const at::Tensor&, const at::Tensor&, const at::Tensor&) override {}
    int64_t workspace_bytes(const GemmKind&, const ops::GemmSizes&) const override { return 0; }

private:
    std::string_view name_;
    bool has_bf16_;
};

// mkl and aten, and mkl has bf16 only if that is said: so a build without oneDNN.
ops::Gemms two_libraries(bool mkl_has_bf16 = true) {
    std::vector<std::unique_ptr<ops::GemmBackend>> backends;
    backends.push_back(std::make_unique<Named>("mkl", mkl_has_bf16));
    backends.push_back(std::make_unique<Named>("aten", true));
    return {std::move(backends), {"Test 9000", "AuthenticAMD", {"avx2"}}};
}

const GemmKind forward{GemmPass::forward, at::kFloat, 512, 768};
const GemmKind gradient{GemmPass::weight_gradient, at::kBFloat16, 512, 768};

GemmTable table_of(const ops::Gemms& gemms) {
    GemmTable table = run::empty_table(gemms, 4);
    table.products = {{"forward fp32 512x768", "aten"}, {"weight_gradient bf16 512x768", "mkl"}};
    return table;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_library_by_name) {
    ops::Gemms gemms = two_libraries(false);
    using config::CpuGemm;
    BOOST_TEST(!run::take_named_gemm(gemms, CpuGemm::aten, at::kBFloat16, "command line"));
    BOOST_TEST(gemms.backend_of(forward).name() == "aten");
    const auto absent = run::take_named_gemm(gemms, CpuGemm::onednn, at::kFloat, "command line");
    BOOST_REQUIRE(absent.has_value());
    BOOST_TEST(number(absent->code) == 78);
    BOOST_TEST(absent->message ==
               "cpu_gemm = onednn [command line]: this build has no oneDNN (CMake finds it where "
               "libdnnl-dev is installed); take one of mkl, aten, or auto");
    const auto unserved = run::take_named_gemm(gemms, CpuGemm::mkl, at::kBFloat16, "a.yaml:3");
    BOOST_REQUIRE(unserved.has_value());
    BOOST_TEST(unserved->message ==
               "cpu_gemm = mkl [a.yaml:3]: it has no products of bf16 for Test 9000 avx2; take one "
               "of mkl, aten, or auto");
    BOOST_TEST(!run::take_named_gemm(gemms, CpuGemm::mkl, at::kFloat, "command line"));
}

BOOST_AUTO_TEST_CASE(all_take_what_rank_0_has) {
    const comm::Group& world = test::world();
    ops::Gemms gemms = two_libraries();
    GemmTable table = table_of(gemms);
    if (!world.is_root()) table.products = {{"forward fp32 512x768", "mkl"}};
    const std::vector<GemmKind> kinds{forward, gradient};
    BOOST_TEST(!run::take_choice_of_root(world, gemms, kinds, table));
    BOOST_TEST(gemms.backend_of(forward).name() == "aten");
    BOOST_TEST(gemms.backend_of(gradient).name() == "mkl");
    // A name that this build does not have is passed over.
    ops::Gemms others = two_libraries();
    table.products = {{"forward fp32 512x768", "cublas"}};
    BOOST_TEST(!run::take_choice_of_root(world, others, kinds, table));
    BOOST_TEST(others.backend_of(forward).name() == "mkl");
}

BOOST_AUTO_TEST_CASE(a_rank_that_cannot_follow) {
    const comm::Group& world = test::world();
    ops::Gemms gemms = two_libraries(world.is_root());
    const auto failure =
        run::take_choice_of_root(world, gemms, {forward, gradient}, table_of(gemms));
    BOOST_TEST(failure.has_value() == (world.size() > 1));
    if (failure)
        BOOST_TEST(failure->message().find("cpu_gemm = auto: rank 0 takes mkl, which has no "
                                           "products of bf16 for Test 9000 avx2; cpu_gemm = aten "
                                           "serves every processor of this job") !=
                   std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_table_in_a_file) {
    const ops::Gemms gemms = two_libraries();
    const auto folder =
        std::filesystem::temp_directory_path() / format_text("ringshard_cpu_gemm_{}", getpid());
    std::filesystem::create_directory(folder);
    const GemmTable table = table_of(gemms);
    const auto file = run::gemm_cache_file(folder, table);
    BOOST_TEST(file.filename().string() == "cpu-gemm-test-9000-avx2-threads-4.json");
    const auto read = [&](const std::string& content) {
        BOOST_TEST(!write_file_atomically(file, content));
        GemmTable found = run::empty_table(gemms, 4);
        const std::string warning = run::read_gemm_cache(file, found);
        return std::pair(warning, found.products.size());
    };
    GemmTable nothing_there = run::empty_table(gemms, 4);
    BOOST_TEST(run::read_gemm_cache(file, nothing_there).empty());
    BOOST_TEST(read(to_json(table)) == (std::pair<std::string, size_t>("", 2)));

    const std::string whole = to_json(table);
    for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 2),
                                       std::string("[1]"), std::string(R"({"processor": 3})")}) {
        const auto [warning, products] = read(damaged);
        BOOST_TEST(warning == file.string() +
                                  " is no table of matrix products; matrix products "
                                  "are timed again");
        BOOST_TEST(products == 0U);
    }
    GemmTable other = table;
    other.processor = "Test 8000";
    BOOST_TEST(read(to_json(other)).first ==
               file.string() +
                   " was made on another processor (Test 8000; this one is Test 9000 "
                   "avx2); matrix products are timed again");
    other = table;
    other.threads = 2;
    BOOST_TEST(read(to_json(other)).first ==
               file.string() + " is of another number of threads; matrix products are timed again");
    other = table;
    other.libraries = "mkl 6, aten 7";  // since then a library was replaced
    BOOST_TEST(read(to_json(other)) == (std::pair<std::string, size_t>("", 0)));
    std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(products_of_a_model) {
    model::ModelSpec spec;
    spec.vocabulary = 1000;
    spec.width = 64;
    spec.blocks.resize(2);
    for (model::BlockSpec& block : spec.blocks) {
        block.width = 64;
        block.attention().heads = {4, 2, 16};
        block.mlp().intermediate = 96;
    }
    const auto kinds = run::gemm_kinds(spec, at::kBFloat16);
    std::set<std::string> names;
    for (const GemmKind& kind : kinds) names.insert(run::name_of(kind));
    BOOST_TEST(names.size() == kinds.size());
    BOOST_TEST(kinds.size() == 15U);
    for (const char* name :
         {"forward bf16 128x64", "input_gradient bf16 64x64", "weight_gradient bf16 192x64",
          "forward bf16 64x96", "weight_gradient bf16 1000x64"})
        BOOST_TEST(names.contains(name), name);
}
