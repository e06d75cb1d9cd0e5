// What a plan is made of, each part by itself: what there is too little of, what a save costs, what
// an update reads and writes.
#include <boost/test/unit_test.hpp>

#include "ringshard/config/config.hpp"
#include "ringshard/model/operations.hpp"
#include "ringshard/model/transformer.hpp"
#include "ringshard/optim/optimizer.hpp"
#include "ringshard/plan/devices.hpp"
#include "ringshard/plan/room.hpp"
#include "ringshard/plan/step_time.hpp"

using namespace ringshard;

namespace {

constexpr int64_t ranks_per_node = 4;

plan::Device device(bool is_host) {
    plan::Device made{.name = "made", .memory_bytes = 1000, .is_host = is_host};
    made.host_memory = 5000;
    made.scratch_room = 2000;
    made.host_copy_bytes = 10;
    made.save_bytes = 100;
    return made;
}

plan::StepPlan step(int64_t peak) {
    plan::StepPlan plan{};
    plan.memory = {};
    plan.peak = peak;
    return plan;
}

std::string short_of(const plan::StepPlan& plan, bool is_host) {
    const auto shortage = plan::find_shortage(plan, device(is_host), ranks_per_node);
    return shortage ? shortage->of : "nothing";
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_step_is_short_of) {
    plan::StepPlan plan = step(1000);
    BOOST_TEST(short_of(plan, true) == "nothing");
    BOOST_TEST(short_of(plan, false) == "nothing");
    plan.memory.save_copy = 1;  // lies beside the rest on the host, and is not needed beside a GPU
    BOOST_TEST(plan::held_bytes(plan, device(true)) == 1001);
    BOOST_TEST(plan::held_bytes(plan, device(false)) == 1000);
    BOOST_TEST(short_of(plan, true) == "memory of a rank");
    BOOST_TEST(short_of(plan, false) == "nothing");
    plan = step(1001);
    BOOST_TEST(short_of(plan, false) == "memory of the device");
    plan = step(10);
    plan.scratch_bytes = 501;  // of each of four ranks
    BOOST_TEST(short_of(plan, true) == "room for files of a node");
    plan = step(10);
    plan.memory.staging = 1251;
    BOOST_TEST(short_of(plan, false) == "host memory of a node");
    BOOST_TEST(short_of(plan, true) == "memory of a rank");
}

BOOST_AUTO_TEST_CASE(what_a_save_costs) {
    plan::StepPlan plan = step(10);
    plan.memory.save_copy = 50;
    plan.saved_bytes = 75;
    const plan::SaveTime copied = plan::estimate_save(plan, device(false), ranks_per_node);
    BOOST_TEST(copied.is_copied);
    BOOST_TEST(copied.stall == 5);        // 50 bytes at 10 a second
    BOOST_TEST(copied.durable == 5 + 3);  // and four ranks write 300 at 100
    plan.memory.save_copy = 2000;         // of four ranks more than the node has
    const plan::SaveTime written = plan::estimate_save(plan, device(false), ranks_per_node);
    BOOST_TEST(!written.is_copied);
    BOOST_TEST(written.stall == 3);
    BOOST_TEST(written.durable == 3);
    BOOST_TEST(plan::estimate_save(plan, device(true), ranks_per_node).is_copied);
}

BOOST_AUTO_TEST_CASE(what_an_update_moves) {
    config::TrainingSettings training;
    BOOST_TEST(optim::state_bytes(training) == 8);
    BOOST_TEST(optim::update_bytes(training) == 28);  // master and two moments, and the gradient
    training.optimizer_state_dtype = config::NumberType::bf16;
    BOOST_TEST(optim::update_bytes(training) == 20);
    training.optim = config::Optimizer::lion;
    BOOST_TEST(optim::state_bytes(training) == 2);
    BOOST_TEST(optim::update_bytes(training) == 16);
}

// The time of an update follows the weights that a rank updates, whatever a copy of them takes.
BOOST_AUTO_TEST_CASE(the_seconds_of_an_update) {
    const model::ModelSpec spec = model::read_model_spec(MODEL).value();
    plan::Device made = device(true);
    made.optimizer_bytes = 1e6;
    for (const auto optimizer : {config::Optimizer::adamw, config::Optimizer::lion}) {
        config::Config config;
        config.training.optim = optimizer;
        const plan::Question question{config, spec, {.shard = 2}, 16};
        plan::StepPlan plan = step(10);
        const int64_t weights = 1000;
        plan.memory.save_copy = weights * (4 + optim::state_bytes(config.training));
        const plan::StepTime time = plan::estimate_seconds(question, plan, made, ranks_per_node);
        const auto bytes = static_cast<double>(optim::update_bytes(config.training));
        const double ranks = mesh::cuts_of(config.parallel).optimizer ? 1 : 2;
        BOOST_TEST(std::abs(time.optimizer - ranks * weights * bytes / 1e6) < 1e-12);
        made.bf16.products = 1e9;
        plan.update_products = 3e9;
        const plan::StepTime with_products =
            plan::estimate_seconds(question, plan, made, ranks_per_node);
        BOOST_TEST(std::abs(with_products.optimizer - time.optimizer - 3) < 1e-9);
    }
}

namespace {

// The same for every size.
void make_rates_equal(plan::Device& gpu) {
    gpu.products_half_width = gpu.attention_half_length = 0;
    gpu.narrow_heads_share = 1;
}

// A block of Qwen2.5-0.5B on a GPU whose memory and attention have simple rates.
plan::StepTime time_of_block(config::ActivationPolicy policy, int64_t documents) {
    model::ModelSpec spec;
    spec.vocabulary = 1000;
    spec.width = 896;
    spec.blocks.resize(1);
    spec.blocks.front().width = 896;
    spec.blocks.front().attention().heads = {14, 2, 64};
    spec.blocks.front().mlp().intermediate = 4864;
    config::Config config;
    config.training.per_device_train_batch_size = 1;
    config.training.gradient_accumulation_steps = 1;
    config.training.activation_policy = policy;
    plan::Question question{config, spec, {}, 32768, c10::DeviceType::CUDA};
    question.documents = documents;
    plan::Device gpu = plan::find_device("h200-141", 1).value();
    gpu.bf16.row_bytes = 896 * 2 * 32768;  // a pass of the residual stream in a second
    gpu.bf16.attention_extra_keys = gpu.bf16.attention_backward_extra_keys = 0;
    make_rates_equal(gpu);
    return plan::estimate_seconds(question, step(10), gpu, 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_pinned_before_the_first_step) {
    const model::ModelSpec spec = model::read_model_spec(MODEL).value();
    config::Config config;
    config.training.activation_policy = config::ActivationPolicy::all;
    const auto planned = [&](bool offloads) {
        config.training.activation_offloading = offloads;
        return plan::plan_step({config, spec, {}, 64, c10::DeviceType::CUDA}, 1);
    };
    const plan::StepPlan offloading = planned(true);
    BOOST_TEST(offloading.offloaded_activations > 0);
    BOOST_TEST(offloading.offloaded_activations == offloading.memory.staging);
    BOOST_TEST(planned(false).offloaded_activations == 0);
}

// As gpu_passes_test counts them, but for sums of gradients of norms.
BOOST_AUTO_TEST_CASE(rows_that_a_gpu_reads_and_writes) {
    using config::ActivationPolicy;
    const auto near = boost::test_tools::tolerance(1e-3);
    BOOST_TEST(time_of_block(ActivationPolicy::all, 1).rows == 69.71, near);
    BOOST_TEST(time_of_block(ActivationPolicy::everything, 1).rows == 62.29, near);
    BOOST_TEST(time_of_block(ActivationPolicy::attention, 1).rows == 76.00, near);
}

namespace {

// Models of many kinds of blocks, with dimensions that products in FP8 take.
std::map<std::string, model::ModelSpec> specs_of_parts() {
    model::ModelSpec plain;
    plain.vocabulary = 1000;
    plain.width = 64;
    plain.blocks.resize(3);
    for (model::BlockSpec& block : plain.blocks) {
        block.width = 64;
        block.attention().heads = {4, 2, 16};
        block.mlp().intermediate = 96;
    }
    std::map<std::string, model::ModelSpec> specs{{"plain", plain},
                                                  {"windows", plain},
                                                  {"experts", plain},
                                                  {"states", plain},
                                                  {"adapters", plain}};
    specs["windows"].blocks[1].attention().mask = {.window = 16};
    specs["windows"].blocks[1].feed_forward().norms.behind = "post_feedforward_layernorm";
    for (model::BlockSpec& block : specs["experts"].blocks) {
        block.feed_forward().part = model::ExpertsSpec{.count = 8,
                                                       .per_token = 2,
                                                       .intermediate = 32,
                                                       .shared = block.mlp(),
                                                       .shared_gate = "mlp.shared_expert_gate"};
    }
    for (size_t block : {0, 2}) {
        specs["states"].blocks[block].mixer().part = model::DeltaNetSpec{.sizes = {2, 4, 16, 16}};
    }
    specs["adapters"].add_learner("");
    for (model::BlockSpec& block : specs["adapters"].blocks)
        block.adapters.front().layers = {{"self_attn.q_proj", {.rank = 4}},
                                         {"mlp.down_proj", {.rank = 8}}};
    specs["adapters"].frozen = {"model.layers.0.mlp.down_proj.weight",
                                "model.layers.1.self_attn.o_proj.weight"};
    return specs;
}

double sum_of_parts(const plan::StepTime& time, const std::string& sum) {
    double seconds = 0;
    for (const plan::TimePart& part : time.parts) {
        BOOST_TEST(part.seconds >= 0);
        if (part.sum == sum) seconds += part.seconds;
    }
    return seconds;
}

double seconds_of_products(const model::Operations& all, bool has_fp8, double tokens,
                           const plan::Device& gpu) {
    const double saved = has_fp8 ? 1 - 1 / gpu.fp8_products : 0;
    const plan::Device::Rates& rates = gpu.bf16;
    return tokens * ((all.products + all.products_again -
                      saved * (all.in_fp8.products + all.in_fp8.products_again)) /
                         rates.products +
                     (all.products_backward - saved * all.in_fp8.products_backward) /
                         rates.products_backward);
}

double seconds_of_attention(const model::Operations& all, double tokens, double length,
                            const plan::Device::Rates& rates) {
    double seconds = 0;
    for (const auto& [mask, of_pair] : all.of_pair) {
        const double pairs = tokens / length * attention::visible_pairs(length, mask);
        seconds += (of_pair.attention + of_pair.attention_again) *
                   (pairs + tokens * rates.attention_extra_keys) / rates.attention;
        seconds += 1.25 * of_pair.attention_backward *
                   (pairs + tokens * rates.attention_backward_extra_keys) /
                   rates.attention_backward;
    }
    return seconds;
}

void check_sums(const plan::StepTime& time, const plan::Question& question,
                const plan::Device& gpu) {
    const auto near = boost::test_tools::tolerance(1e-12);
    const config::TrainingSettings& training = question.config.training;
    const model::Operations all = model::operations_of(question.spec, training.activations_kept());
    const auto length = static_cast<double>(question.row_length);
    const double tokens = length *
                          static_cast<double>(training.per_device_train_batch_size *
                                              training.gradient_accumulation_steps) /
                          static_cast<double>(question.shape.sequence());
    BOOST_TEST(
        sum_of_parts(time, "products") == seconds_of_products(all, training.has_fp8(), tokens, gpu),
        near);
    BOOST_TEST(
        sum_of_parts(time, "attention") == seconds_of_attention(all, tokens, length, gpu.bf16),
        near);
    // Of eight ranks four are on a host: zero's are on two, the others' on one.
    const double in_ring = 3000 / 1e9;
    const double beside_all = 4000 / 1e8 + 700 / 1e9 + 900 / 1e9;
    const double computing = time.products + time.attention + time.rows + time.loss;
    BOOST_TEST(sum_of_parts(time, "exposed_communication") ==
                   2000 / 1e9 + std::max(0.0, in_ring - time.attention) +
                       std::max(0.0, beside_all - 0.8 * computing),
               near);
    double hidden = 0;
    for (const plan::TimePart& part : time.parts) hidden += part.hidden;
    BOOST_TEST(hidden + time.exposed == 2000 / 1e9 + in_ring + beside_all, near);
    BOOST_TEST(sum_of_parts(time, "products") == time.products, near);
    BOOST_TEST(sum_of_parts(time, "attention") == time.attention, near);
    BOOST_TEST(sum_of_parts(time, "rows") == time.rows, near);
    BOOST_TEST(sum_of_parts(time, "loss") == time.loss, near);
    BOOST_TEST(sum_of_parts(time, "optimizer") == time.optimizer, near);
    BOOST_TEST(
        time.products + time.attention + time.rows + time.loss + time.optimizer + time.exposed ==
            time.total,
        near);
}

plan::StepPlan step_with_traffic() {
    plan::StepPlan plan = step(10);
    plan.memory.save_copy = 1200;
    plan.traffic = {{"zero", 8, 3, 4000},
                    {"ring", 2, 3, 3000},
                    {"ulysses", 2, 3, 2000},
                    {"replicate", 2, 3, 700}};
    plan.moved_bytes = 900;
    return plan;
}

}  // namespace

// The sums, of what operations_of() counts as a whole.
BOOST_AUTO_TEST_CASE(parts_of_a_step_add_up) {
    using config::ActivationPolicy;
    plan::Device gpu = plan::find_device("h100-80", 8).value();
    gpu.link_bytes = gpu.scratch_bytes = 1e9;
    gpu.network_bytes = 1e8;
    make_rates_equal(gpu);
    const plan::StepPlan plan = step_with_traffic();
    for (const auto& [name, spec] : specs_of_parts())
        for (const auto policy : {ActivationPolicy::everything, ActivationPolicy::all,
                                  ActivationPolicy::all_but_gate_up, ActivationPolicy::attention,
                                  ActivationPolicy::input})
            for (const auto precision : {config::Precision::bf16, config::Precision::fp8})
                for (const mesh::MeshShape& shape :
                     {mesh::MeshShape{},
                      mesh::MeshShape{.replicate = 2, .shard = 2, .ring = 2, .ulysses = 2}}) {
                    BOOST_TEST_INFO_SCOPE(name << ", policy " << static_cast<int>(policy)
                                               << ", ranks " << shape.world());
                    config::Config config;
                    config.training.activation_policy = policy;
                    config.training.mixed_precision = precision;
                    const plan::Question question{config, spec, shape, 64, c10::DeviceType::CUDA};
                    const plan::StepTime time = plan::estimate_seconds(question, plan, gpu, 4);
                    check_sums(time, question, gpu);
                }
}

// What the backward pass makes again has a part of its own.
BOOST_AUTO_TEST_CASE(parts_of_a_block_by_name) {
    using config::ActivationPolicy;
    const auto seconds = [](ActivationPolicy policy, const std::string& name) {
        const plan::StepTime time = time_of_block(policy, 1);
        const auto found = std::ranges::find(time.parts, name, &plan::TimePart::name);
        return found == time.parts.end() ? 0 : found->seconds;
    };
    const auto near = boost::test_tools::tolerance(1e-6);
    const double qkv = 32768 * 2.0 * 896 * (896 + 2 * 128) / (0.72 * 989.4e12);
    for (const char* pass : {"forward", "gradient of inputs", "gradient of weights"})
        BOOST_TEST(seconds(ActivationPolicy::all, concat("qkv, ", pass)) == qkv, near);
    BOOST_TEST(seconds(ActivationPolicy::all, "qkv, again") == 0);
    BOOST_TEST(seconds(ActivationPolicy::attention, "qkv, again") == qkv, near);
    BOOST_TEST(seconds(ActivationPolicy::attention, "down, again") == 0);
    BOOST_TEST(seconds(ActivationPolicy::attention, "attention, again") == 0);
    BOOST_TEST(seconds(ActivationPolicy::input, "attention, again") ==
                   seconds(ActivationPolicy::input, "attention, forward"),
               near);
    // In passes of the residual stream.
    BOOST_TEST(seconds(ActivationPolicy::everything, "SwiGLU, forward") == 3 * 4864.0 / 896, near);
    BOOST_TEST(seconds(ActivationPolicy::everything, "norms, backward") == 8.0, near);
    BOOST_TEST(seconds(ActivationPolicy::all, "norms, backward") == 10.0, near);
    BOOST_TEST(seconds(ActivationPolicy::attention, "norms, again") == 4.0, near);
    BOOST_TEST(seconds(ActivationPolicy::attention, "residuals, read by products") == 3.0, near);
    BOOST_TEST(seconds(ActivationPolicy::all, "gradients of heads") == 2 * (896 + 2 * 128) / 896.0,
               near);
}

BOOST_AUTO_TEST_CASE(documents_share_a_row) {
    using config::ActivationPolicy;
    const auto attention = [](int64_t documents) {
        return time_of_block(ActivationPolicy::all, documents).attention;
    };
    const auto near = boost::test_tools::tolerance(1e-3);
    BOOST_TEST(attention(1) / attention(2) == 2.0, near);
    BOOST_TEST(attention(1) / attention(4) == 4.0, near);
    // Below 8,192 tokens they share calls of a slower kernel.
    BOOST_TEST(attention(1) / attention(8) == 8 / 1.9, near);
    const auto of_peak = [](int64_t documents) {
        return time_of_block(ActivationPolicy::all, documents).utilisation;
    };
    BOOST_TEST(of_peak(8) < of_peak(4));
}

BOOST_AUTO_TEST_CASE(chunks_follow_the_memory_of_the_device) {
    using model::Chunks;
    model::ModelSpec spec;  // the sizes of Qwen2.5-7B
    spec.vocabulary = 151936;
    spec.blocks.resize(1);
    spec.blocks.front().width = 3584;
    spec.blocks.front().mlp().intermediate = 18944;
    const auto chunks = [&](double memory, at::ScalarType type = at::kBFloat16,
                            c10::DeviceType device = c10::DeviceType::CUDA) {
        return model::chunks_of(spec, type, device, memory);
    };
    BOOST_TEST((chunks(40e9) == Chunks{4096, 4096, 512}));
    BOOST_TEST((chunks(85e9) == Chunks{8192, 8192, 512}));
    BOOST_TEST((chunks(150e9) == Chunks{8192, 16384, 512}));
    BOOST_TEST((chunks(150e9, at::kFloat) == Chunks{4096, 8192, 512}));
    BOOST_TEST((chunks(1e9) == Chunks{1024, 2048, 512}));
    BOOST_TEST((chunks(1e13) == Chunks{8192, 65536, 512}));  // 16,384 have 2^31.2 logits
    BOOST_TEST((chunks(0) == Chunks{4096, 8192, 512}));
    BOOST_TEST((chunks(150e9, at::kBFloat16, c10::DeviceType::CPU) == Chunks{}));
    spec.vocabulary = 262144;  // Gemma's: 8,192 tokens have 2^31 logits
    BOOST_TEST((chunks(190e9) == Chunks{4096, 16384, 512}));
    BOOST_TEST((chunks(0) == Chunks{4096, 8192, 512}));
    spec.vocabulary = 1 << 21;
    BOOST_TEST((chunks(190e9) == Chunks{512, 16384, 512}));
    BOOST_TEST((chunks(0) == Chunks{512, 8192, 512}));
    spec.vocabulary = 32000;
    BOOST_TEST((chunks(190e9) == Chunks{16384, 16384, 512}));
}

// Small products, short tiles and narrow heads do not reach the rates of large ones, and a ring
// merges its results.
BOOST_AUTO_TEST_CASE(rates_follow_sizes) {
    model::ModelSpec spec;
    spec.vocabulary = 1000;
    spec.width = 260;
    spec.blocks.resize(1);
    spec.blocks.front().width = 260;
    spec.blocks.front().attention().heads = {4, 2, 128};
    spec.blocks.front().mlp().intermediate = 700;
    config::Config config;
    config.training.per_device_train_batch_size = 1;
    config.training.gradient_accumulation_steps = 1;
    config.training.activation_policy = config::ActivationPolicy::all;
    plan::Device gpu = plan::find_device("h100-80", 8).value();
    gpu.bf16.attention_extra_keys = gpu.bf16.attention_backward_extra_keys = 0;
    const auto time_of = [&](int64_t length, const mesh::MeshShape& shape) {
        const plan::Question question{config, spec, shape, length, c10::DeviceType::CUDA};
        return plan::estimate_seconds(question, step(10), gpu, 8);
    };
    const auto near = boost::test_tools::tolerance(1e-9);
    const plan::StepTime small = time_of(1000, {});
    const plan::StepTime in_ring = time_of(16'000, {.ring = 8});
    spec.blocks.front().attention().heads.head_dim = 64;
    const plan::StepTime narrow = time_of(1000, {});
    spec.blocks.front().attention().heads.head_dim = 128;
    make_rates_equal(gpu);
    const plan::StepTime at_full_rate = time_of(1000, {});
    BOOST_TEST(small.products / at_full_rate.products == (260 + 130) / 260.0, near);
    BOOST_TEST(small.attention / at_full_rate.attention == 1500 / 1000.0, near);
    BOOST_TEST(narrow.attention / at_full_rate.attention == 0.5 * 1.5 / 0.72, near);
    // Tiles of 1,000 tokens; ten bytes of each number and step, and ten at the ends.
    BOOST_TEST(in_ring.attention / time_of(16'000, {.ring = 8}).attention == 1.5, near);
    BOOST_TEST(in_ring.rows - time_of(2000, {}).rows ==
                   2000 * 128 * 12 * (8 + 1) * 10.0 / gpu.bf16.row_bytes,
               near);
}
