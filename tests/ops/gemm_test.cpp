// Every library of matrix products of this build, in every direction of a linear layer, against
// products in double precision.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <set>

#include "autograd.hpp"
#include "ringshard/ops/gemm.hpp"
#include "ringshard/ops/linear.hpp"

using namespace ringshard;
using ops::GemmKind;
using ops::GemmPass;
using test::distance;

namespace {

const ops::Processor old{"old", "GenuineIntel", {"avx2"}};
const ops::Processor with_bf16{"new", "AuthenticAMD", {"avx512_bf16"}};

// All products through one backend, as if on a processor.
template <class Check>
void for_backends_on(const ops::Processor& processor, at::ScalarType type, Check check) {
    ops::Gemms gemms = ops::Gemms::open(processor).value();
    for (const auto& backend : gemms.backends()) {
        if (!backend->serves(type)) continue;
        BOOST_TEST_INFO_SCOPE(backend->name()
                              << " " << backend->version() << " " << at::toString(type));
        gemms.choose_for_all(*backend);
        check(gemms, at::TensorOptions(type), test::tolerance(type));
    }
}

// bf16 is multiplied with the processor's instructions, or as it is imitated, and through fp32.
template <class Check>
void for_backends_and_types(Check check) {
    for_backends_on(with_bf16, at::kFloat, check);
    for_backends_on(with_bf16, at::kBFloat16, check);
    for_backends_on(old, at::kBFloat16, check);
}

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

// The middle columns of a wider matrix.
at::Tensor columns_of_more(int64_t rows, int64_t columns, at::TensorOptions options) {
    return at::randn({rows, columns + 24}, options).narrow(1, 8, columns);
}

const ops::Processor intel{"Xeon", "GenuineIntel", {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}};
const ops::Processor arm{"Neoverse", "", {"bf16"}};
const ops::Processor amd{"EPYC", "AuthenticAMD", {"avx2", "avx512f", "avx512_bf16"}};

// A library that only has a name and takes its time.
class Named final : public ops::GemmBackend {
public:
    Named(std::string name, int64_t products) : name_(std::move(name)), products_(products) {}
    std::string_view name() const override { return name_; }
    std::string version() const override { return "1"; }
    bool serves(at::ScalarType) const override { return true; }
    void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                  const at::Tensor&) override {
        for (int64_t i = 0; i < products_; ++i) c.copy_(at::mm(a, b));
        ++calls;
    }
    void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) override {
        for (int64_t i = 0; i < products_; ++i) c.copy_(at::mm(a, b));
        ++calls;
    }
    int64_t workspace_bytes(const GemmKind&, const ops::GemmSizes&) const override { return 0; }
    int64_t calls = 0;

private:
    std::string name_;
    int64_t products_;
};

ops::Gemms gemms_of(const std::vector<std::pair<std::string, int64_t>>& backends,
                    const ops::Processor& processor) {
    std::vector<std::unique_ptr<ops::GemmBackend>> made;
    for (const auto& [name, products] : backends)
        made.push_back(std::make_unique<Named>(name, products));
    return {std::move(made), processor};
}

std::string rule_of(const ops::Processor& processor, const GemmKind& kind,
                    const std::vector<std::pair<std::string, int64_t>>& backends = {
                        {"onednn", 1}, {"mkl", 1}, {"aten", 1}, {"native", 1}}) {
    return std::string(gemms_of(backends, processor).by_rule(kind).name());
}

}  // namespace

// As the kernels that Ringshard chooses do.
BOOST_AUTO_TEST_CASE(libtorchs_products_on_a_gpu_sum_in_fp32) {
    at::globalContext().setAllowBF16ReductionCuBLAS(true);
    BOOST_TEST_REQUIRE(bool(ops::Gemms::open()));
    BOOST_TEST((at::globalContext().allowBF16ReductionCuBLAS() !=
                at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK));
}

BOOST_AUTO_TEST_CASE(this_build_has_a_library) {
    const ops::Gemms gemms = ops::Gemms::open().value();
    BOOST_TEST(gemms.find("aten") != nullptr);
    BOOST_TEST(gemms.find("cublas") == nullptr);
    for (const auto& backend : gemms.backends()) {
        BOOST_TEST(gemms.find(backend->name()) == backend.get());
        BOOST_TEST(!backend->version().empty());
        BOOST_TEST_MESSAGE(backend->name() << " " << backend->version());
    }
    BOOST_TEST(!gemms.processor().description().empty());
}

// Two of them in one process would each start their threads.
BOOST_AUTO_TEST_CASE(all_libraries_share_one_openmp) {
    for_backends_and_types([](const ops::Gemms& gemms, at::TensorOptions options, double) {
        ops::linear(gemms, at::ones({64, 64}, options), at::ones({64, 64}, options));
    });
    std::set<std::string> files;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        for (const char* name : {"/libgomp", "/libomp", "/libiomp"})
            if (line.find(name) != std::string::npos) files.insert(line.substr(line.find('/')));
    BOOST_TEST(files.size() == 1U);
}

BOOST_AUTO_TEST_CASE(every_library_in_every_direction) {
    at::manual_seed(3);
    for_backends_and_types(
        [](const ops::Gemms& gemms, at::TensorOptions options, double tolerance) {
            for (const int64_t tokens : {1, 3, 64, 261})
                for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
                         {1, 1}, {7, 3}, {64, 192}, {33, 130}, {520, 96}, {40, 600}}) {
                    BOOST_TEST_INFO_SCOPE(tokens << " tokens, " << out << " x " << in);
                    const at::Tensor x = at::randn({tokens, in}, options);
                    const at::Tensor weight = at::randn({out, in}, options);
                    const at::Tensor bias = at::randn({out}, options);
                    const at::Tensor dy = at::randn({tokens, out}, options);

                    const at::Tensor y = wide(x).mm(wide(weight).t());
                    BOOST_TEST(distance(ops::linear(gemms, x, weight), y) < tolerance);
                    BOOST_TEST(distance(ops::linear(gemms, x, weight, bias), y + wide(bias)) <
                               tolerance);
                    BOOST_TEST(distance(ops::linear_backward_input(gemms, dy, weight),
                                        wide(dy).mm(wide(weight))) < tolerance);
                    const at::Tensor d_weight = at::ones({out, in});
                    ops::add_weight_gradient(gemms, d_weight, dy, x);
                    BOOST_TEST(distance(d_weight, wide(dy).t().mm(wide(x)) + 1) < tolerance);
                    ops::add_weight_gradient(gemms, d_weight.fill_(NAN), dy, x, true);
                    BOOST_TEST(distance(d_weight + 1, wide(dy).t().mm(wide(x)) + 1) < tolerance);
                }
        });
}

// Rows of a wider matrix, and weights that begin anywhere in a flat buffer.
BOOST_AUTO_TEST_CASE(views_with_a_stride) {
    at::manual_seed(4);
    for_backends_and_types(
        [](const ops::Gemms& gemms, at::TensorOptions options, double tolerance) {
            for (const int64_t tokens : {1, 37}) {
                constexpr int64_t in = 48;
                constexpr int64_t out = 56;
                const at::Tensor x = columns_of_more(tokens, in, options);
                const at::Tensor dy = columns_of_more(tokens, out, options);
                const at::Tensor weight =
                    at::randn({out * in + 5}, options).narrow(0, 5, out * in).view({out, in});
                BOOST_TEST(distance(ops::linear(gemms, x, weight), wide(x).mm(wide(weight).t())) <
                           tolerance);
                BOOST_TEST(distance(ops::linear_backward_input(gemms, dy, weight),
                                    wide(dy).mm(wide(weight))) < tolerance);
                const at::Tensor y = columns_of_more(tokens, out, options);
                const at::Tensor y_before = y.clone();
                ops::add_linear(gemms, y, x, weight);
                BOOST_TEST(distance(y, wide(y_before) + wide(x).mm(wide(weight).t())) < tolerance);
                const at::Tensor dx = columns_of_more(tokens, in, options);
                const at::Tensor dx_before = dx.clone();
                ops::add_linear_backward_input(gemms, dx, dy, weight);
                BOOST_TEST(distance(dx, wide(dx_before) + wide(dy).mm(wide(weight))) < tolerance);
                const at::Tensor flat = at::ones({out * in + 6});
                ops::add_weight_gradient(gemms, flat.narrow(0, 3, out * in).view({out, in}), dy, x);
                BOOST_TEST(distance(flat.narrow(0, 3, out * in).view({out, in}),
                                    wide(dy).t().mm(wide(x)) + 1) < tolerance);
                BOOST_TEST(flat.narrow(0, 0, 3).eq(1).all().item<bool>());
                BOOST_TEST(flat.narrow(0, 3 + out * in, 3).eq(1).all().item<bool>());
            }
        });
}

BOOST_AUTO_TEST_CASE(without_rows_and_without_numbers) {
    for_backends_and_types([](const ops::Gemms& gemms, at::TensorOptions options, double) {
        const at::Tensor weight = at::ones({5, 4}, options);
        const at::Tensor d_weight = at::ones({5, 4});
        BOOST_TEST(ops::linear(gemms, at::ones({0, 4}, options), weight).sizes() ==
                   (at::IntArrayRef{0, 5}));
        BOOST_TEST(ops::linear_backward_input(gemms, at::ones({0, 5}, options), weight).sizes() ==
                   (at::IntArrayRef{0, 4}));
        ops::add_weight_gradient(gemms, d_weight, at::ones({0, 5}, options),
                                 at::ones({0, 4}, options));
        ops::add_linear(gemms, at::ones({0, 5}, options), at::ones({0, 4}, options), weight);
        ops::add_linear_backward_input(gemms, at::ones({0, 4}, options), at::ones({0, 5}, options),
                                       weight);
        BOOST_TEST(d_weight.eq(1).all().item<bool>());

        const at::TensorOptions meta = options.device(at::kMeta);
        const at::Tensor rows = at::empty({3, 4}, meta);
        const at::Tensor of_meta = at::empty({5, 4}, meta);
        const at::Tensor y = ops::linear(gemms, rows, of_meta);
        BOOST_TEST(y.is_meta());
        BOOST_TEST(ops::linear_backward_input(gemms, y, of_meta).sizes() == rows.sizes());
        ops::add_weight_gradient(gemms, at::empty({5, 4}, meta.dtype(at::kFloat)), y, rows);
        ops::add_linear(gemms, y, rows, of_meta);
        ops::add_linear_backward_input(gemms, rows, y, of_meta);
    });
}

// Long sums in bf16 round once: rounding on the way would be a hundred times as far off.
BOOST_AUTO_TEST_CASE(sums_are_fp32) {
    at::manual_seed(5);
    for_backends_and_types([](const ops::Gemms& gemms, at::TensorOptions options, double) {
        constexpr int64_t tokens = 4096;
        const at::Tensor x = at::rand({tokens, 8}, options);
        const at::Tensor dy = at::rand({tokens, 8}, options);
        const at::Tensor d_weight = at::zeros({8, 8});
        const bool is_rounded =
            options.dtype() == at::kBFloat16 && gemms.processor().multiplies_bf16() &&
            gemms.backend_of({GemmPass::weight_gradient, at::kBFloat16, 8, 8}).name() == "aten";
        ops::add_weight_gradient(gemms, d_weight, dy, x);
        BOOST_TEST(distance(d_weight, wide(dy).t().mm(wide(x))) < (is_rounded ? 4e-3 : 1e-5));
    });
}

// Blocks of a converted matrix meet in every dimension, and each number of bf16 is rounded once: it
// is the nearest to the sum, but for sums that lie between two.
BOOST_AUTO_TEST_CASE(through_fp32_in_blocks) {
    at::manual_seed(7);
    for_backends_on(
        old, at::kBFloat16, [](const ops::Gemms& gemms, at::TensorOptions options, double) {
            const auto check = [&](int64_t tokens, int64_t in, int64_t out) {
                BOOST_TEST_INFO_SCOPE(tokens << " tokens, " << out << " x " << in);
                const at::Tensor x = at::randn({tokens, in}, options);
                const at::Tensor weight = at::randn({out, in}, options);
                const at::Tensor bias = at::randn({out}, options);
                const at::Tensor dy = at::randn({tokens, out}, options);
                const auto is_rounded_once = [](const at::Tensor& ours, const at::Tensor& exact) {
                    const at::Tensor nearest = exact.to(at::kBFloat16);
                    BOOST_TEST(ours.ne(nearest).sum().item<int64_t>() <= 1 + exact.numel() / 200);
                    BOOST_TEST(distance(ours, exact) < 4e-3);
                };
                is_rounded_once(ops::linear(gemms, x, weight, bias),
                                wide(x).mm(wide(weight).t()) + wide(bias));
                is_rounded_once(ops::linear_backward_input(gemms, dy, weight),
                                wide(dy).mm(wide(weight)));
                const at::Tensor d_weight = at::ones({out, in});
                ops::add_weight_gradient(gemms, d_weight, dy, x);
                BOOST_TEST(distance(d_weight, wide(dy).t().mm(wide(x)) + 1) < 2e-6);
            };
            check(2, 2100, 2053);
            check(2050, 3, 5);
            check(5, 4097, 2);
        });
}

BOOST_AUTO_TEST_CASE(through_fp32_where_no_instruction_multiplies_bf16) {
    for (const ops::Processor& processor : {old, with_bf16}) {
        const ops::Gemms gemms = ops::Gemms::open(processor).value();
        for (const auto& backend : gemms.backends())
            BOOST_TEST((backend->version().find(" (bf16 through fp32)") != std::string::npos) ==
                       (!processor.multiplies_bf16() && backend->name() != "native"));
    }
    const auto multiplies = [](const char* cpuinfo) {
        return ops::parse_processor(cpuinfo).multiplies_bf16();
    };
    BOOST_TEST(multiplies("flags : avx512f avx512_bf16\n"));
    BOOST_TEST(multiplies("flags : avx2 amx_bf16\n"));
    BOOST_TEST(multiplies("Features : asimd bf16\n"));
    BOOST_TEST(!multiplies("flags : sse2\n"));
    BOOST_TEST(!multiplies("flags : avx2 avx512f avx512_vnni\n"));
    BOOST_TEST(!multiplies("Features : asimd sve\n"));
}

// A row's numbers do not depend on the rows beside it, and a product comes out the same again.
BOOST_AUTO_TEST_CASE(the_same_bits_again) {
    at::manual_seed(6);
    for_backends_and_types([](const ops::Gemms& gemms, at::TensorOptions options, double) {
        const at::Tensor x = at::randn({96, 200}, options);
        const at::Tensor weight = at::randn({72, 200}, options);
        const at::Tensor y = ops::linear(gemms, x, weight);
        BOOST_TEST(at::equal(y, ops::linear(gemms, x, weight)));
        at::Tensor other = x.clone();
        other.narrow(0, 40, 20).zero_();
        const at::Tensor beside = ops::linear(gemms, other, weight);
        BOOST_TEST(at::equal(y.narrow(0, 0, 40), beside.narrow(0, 0, 40)));
        BOOST_TEST(at::equal(y.narrow(0, 60, 36), beside.narrow(0, 60, 36)));
    });
}

BOOST_AUTO_TEST_CASE(rules_of_processors) {
    const auto bf16 = [](GemmPass pass, int64_t out) {
        return GemmKind{pass, at::kBFloat16, out, 512};
    };
    BOOST_TEST(rule_of(amd, bf16(GemmPass::forward, 512)) == "native");
    BOOST_TEST(rule_of(amd, bf16(GemmPass::weight_gradient, 512)) == "native");
    BOOST_TEST(rule_of(intel, bf16(GemmPass::forward, 512)) == "native");
    BOOST_TEST(rule_of(intel, bf16(GemmPass::weight_gradient, 512)) == "native");
    BOOST_TEST(rule_of(arm, bf16(GemmPass::forward, 512)) == "aten");
    BOOST_TEST(rule_of(arm, bf16(GemmPass::weight_gradient, 512)) == "mkl");
    const GemmKind fp32{GemmPass::forward, at::kFloat, 512, 512};
    BOOST_TEST(rule_of(amd, fp32) == "native");
    BOOST_TEST(rule_of(intel, fp32) == "mkl");
    BOOST_TEST(rule_of(old, fp32) == "mkl");
    // Without instructions for bf16 LibTorch sums in fp32 too.
    BOOST_TEST(rule_of(old, bf16(GemmPass::forward, 512)) == "mkl");
    // Without AMX, on Intel's processors as on others.
    for (const char* vendor : {"AuthenticAMD", "GenuineIntel"})
        for (const char* feature : {"avx512_bf16", "avx512_vnni"})
            BOOST_TEST(rule_of(ops::Processor{"no tiles", vendor, {"avx2", "avx512f", feature}},
                               bf16(GemmPass::weight_gradient, 512)) == "native");
    const auto candidates_of = [&](const ops::Processor& processor) {
        return gemms_of({{"mkl", 1}, {"aten", 1}}, processor)
            .candidates(bf16(GemmPass::weight_gradient, 512))
            .size();
    };
    BOOST_TEST(candidates_of(old) == 2U);
    BOOST_TEST(candidates_of(amd) == 1U);
    // Builds without one of them.
    BOOST_TEST(rule_of(amd, fp32, {{"mkl", 1}, {"aten", 1}}) == "mkl");
    BOOST_TEST(rule_of(amd, fp32, {{"aten", 1}}) == "aten");
    // Rounding gradients to bf16 is the last resort.
    BOOST_TEST(rule_of(intel, bf16(GemmPass::weight_gradient, 512), {{"onednn", 1}, {"aten", 1}}) ==
               "onednn");
    BOOST_TEST(rule_of(intel, bf16(GemmPass::weight_gradient, 512), {{"aten", 1}}) == "aten");
}

BOOST_AUTO_TEST_CASE(a_timing_finds_the_fastest) {
    const GemmKind large{GemmPass::forward, at::kFloat, 1024, 512};
    const GemmKind larger{GemmPass::forward, at::kFloat, 4096, 512};
    const GemmKind small{GemmPass::forward, at::kFloat, 64, 64};
    const GemmKind gradient{GemmPass::weight_gradient, at::kBFloat16, 1024, 512};
    const ops::Gemms gemms = gemms_of({{"onednn", 40}, {"mkl", 1}, {"aten", 20}}, amd);
    const auto best = ops::time_gemms(gemms, std::array{large, larger, small, gradient});
    BOOST_TEST(best.at(large)->name() == "mkl");
    BOOST_TEST(best.at(larger)->name() == "mkl");
    BOOST_TEST(best.at(gradient)->name() == "mkl");
    BOOST_TEST(!best.contains(small));  // it keeps its rule
    // Kinds whose corners are alike are timed once.
    const auto calls = [&](const char* name) {
        return dynamic_cast<const Named*>(gemms.find(name))->calls;
    };
    BOOST_TEST(calls("onednn") == calls("mkl"));
    BOOST_TEST(calls("aten") == calls("mkl") / 2);
}

BOOST_AUTO_TEST_CASE(a_choice_stands_in_place_of_the_rule) {
    ops::Gemms gemms = gemms_of({{"onednn", 1}, {"mkl", 1}, {"aten", 1}}, amd);
    const GemmKind kind{GemmPass::forward, at::kFloat, 1024, 512};
    const GemmKind other{GemmPass::forward, at::kFloat, 1024, 1024};
    BOOST_TEST(gemms.backend_of(kind).name() == "onednn");
    gemms.choose(kind, *gemms.find("mkl"));
    BOOST_TEST(gemms.backend_of(kind).name() == "mkl");
    BOOST_TEST(gemms.backend_of(other).name() == "onednn");
    gemms.choose_for_all(*gemms.find("aten"));
    BOOST_TEST(gemms.backend_of(kind).name() == "aten");
    BOOST_TEST(gemms.backend_of(other).name() == "aten");
}

BOOST_AUTO_TEST_CASE(processors_by_what_linux_says) {
    const ops::Processor processor = ops::parse_processor(
        "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
        "model name\t: AMD EPYC\n"
        "flags\t\t: fpu avx2 avx512f avx512_bf16\n\nprocessor\t: 1\nflags\t\t: amx_bf16\n");
    BOOST_TEST(processor.name == "AMD EPYC, family 26 model 2");
    BOOST_TEST(processor.vendor == "AuthenticAMD");
    BOOST_TEST(processor.has("avx512_bf16"));
    BOOST_TEST(!processor.has("amx_bf16"));
    BOOST_TEST(processor.description() == "AMD EPYC, family 26 model 2 avx2 avx512f avx512_bf16");
    BOOST_TEST(ops::parse_processor("").description() == "unknown processor");
    const ops::Processor arm = ops::parse_processor(
        "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU part\t: 0xd40\n\n");
    BOOST_TEST(arm.has("sve"));
    BOOST_TEST(arm.vendor.empty());
    BOOST_TEST(arm.description() == "Arm implementer 0x41 part 0xd40 sve bf16");
}
