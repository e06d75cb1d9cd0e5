// One tiny model of each family, in every layout of so many ranks, against transformers. Weights
// and tokens follow from names, as in generator/families.py.
#include <ATen/ATen.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "golden.hpp"
#include "mpi_test.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "test_model.hpp"
#include "unpacked.hpp"

using namespace ringshard;
using config::ActivationPolicy;
using nlohmann::json;
using test::TestModel;

namespace {

// Uniform numbers in [0, 1): SplitMix64 from the FNV-1a hash of a name.
std::vector<double> numbers(const std::string& name, size_t count) {
    uint64_t seed = 14695981039346656037U;
    for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211U;
    std::vector<double> values(count);
    for (double& value : values) {
        seed += 0x9E3779B97F4A7C15U;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        value = static_cast<double>((z ^ (z >> 31)) >> 40) / static_cast<double>(1 << 24);
    }
    return values;
}

struct Family {
    std::string name;
    json golden;
    std::filesystem::path folder;
    data::FlatBatch batch;
    std::vector<int64_t> last_tokens;  // of the documents
};

std::vector<float> values_of(const std::string& name, const json& tensor) {
    size_t count = 1;
    for (const auto& size : tensor["shape"]) count *= size.get<size_t>();
    const double mean = tensor["mean"];
    const double spread = tensor["spread"];
    std::vector<float> values;
    for (const double number : numbers(name, count))
        values.push_back(static_cast<float>(mean + spread * (2 * number - 1)));
    return values;
}

// The releases of Qwen3.5 hold the experts of a block as one tensor for gate and up, and one for
// down.
std::vector<hub::TensorEntry> stacked(const std::vector<hub::TensorEntry>& entries) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const hub::TensorEntry& entry : entries) {
        const size_t experts = entry.name.find("mlp.experts.");
        if (experts == std::string::npos) {
            shapes[entry.name] = entry.shape;
            continue;
        }
        const bool is_down = entry.name.ends_with("down_proj.weight");
        std::vector<int64_t>& shape = shapes[entry.name.substr(0, experts) + "mlp.experts." +
                                             (is_down ? "down_proj" : "gate_up_proj")];
        if (shape.empty()) shape = {0, (is_down ? 1 : 2) * entry.shape[0], entry.shape[1]};
        if (!entry.name.ends_with("up_proj.weight")) ++shape[0];
    }
    std::vector<hub::TensorEntry> all;
    for (const auto& [name, shape] : shapes) all.push_back({name, hub::StoredType::fp32, shape});
    return all;
}

// The names in the golden of the tensors that lie in one of a file.
std::vector<std::string> parts_of(const std::string& name, int64_t experts) {
    const size_t end = name.rfind('.');
    const std::string last = name.substr(end + 1);
    if (!name.ends_with("mlp.experts." + last)) return {name};
    std::vector<std::string> layers{last};
    if (last == "gate_up_proj") layers = {"gate_proj", "up_proj"};
    std::vector<std::string> parts;
    for (int64_t expert = 0; expert < experts; ++expert)
        for (const std::string& layer : layers)
            parts.push_back(format_text("{}.{}.{}.weight", name.substr(0, end), expert, layer));
    return parts;
}

void write_model(const json& golden, const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << golden["config"].dump(2);
    std::vector<hub::TensorEntry> entries;
    for (const auto& [name, tensor] : golden["tensors"].items())
        entries.push_back({name, hub::StoredType::fp32, tensor["shape"]});
    const bool is_stacked = golden["config"]["model_type"] == "qwen3_5_moe";
    if (is_stacked) entries = stacked(entries);
    hub::SafetensorsWriter writer(folder / "model.safetensors", entries);
    for (const hub::TensorEntry& entry : entries)
        for (const std::string& name : is_stacked ? parts_of(entry.name, entry.shape.front())
                                                  : std::vector<std::string>{entry.name})
            writer.write(values_of(name, golden["tensors"][name]));
    if (const auto failure = writer.close()) throw Error(*failure);
}

// All documents are one packed row.
Family open_family(const std::string& name) {
    Family family;
    family.name = name;
    family.golden = json::parse(
        test::unpacked(test::golden_folder() / "families" / format_text("{}.json", name)));
    family.folder = std::filesystem::temp_directory_path() /
                    format_text("ringshard-family-{}-{}",
                                test::world().broadcast(std::to_string(getpid())), family.name);
    if (test::world().rank() == 0) write_model(family.golden, family.folder);
    test::world().barrier();
    const std::vector<int32_t> lengths = family.golden["lengths"];
    int64_t total = 0;
    for (const int32_t length : lengths) family.last_tokens.push_back((total += length) - 1);
    const json& config = family.golden["config"];
    const double vocabulary = config.value("text_config", config)["vocab_size"];
    std::vector<int32_t> tokens;
    for (const double number : numbers("tokens", static_cast<size_t>(total)))
        tokens.push_back(static_cast<int32_t>(number * vocabulary));
    std::vector<int32_t> labels = tokens;
    for (size_t document = 0; document < lengths.size(); ++document)
        labels[static_cast<size_t>(family.last_tokens[document] + 1 - lengths[document])] = -100;
    data::SampleList rows;
    rows.add(tokens, labels, lengths);
    const std::vector<int64_t> first{0};
    family.batch = data::flatten(test::one_row_each(std::move(rows)), first);
    return family;
}

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(test::golden_folder() / "families"))
        names.push_back(entry.path().stem().stem().string());  // without .json.gz
    std::ranges::sort(names);
    return names;
}

at::Tensor rows_of(const json& rows) {
    const std::vector<std::vector<float>> values = rows;
    std::vector<at::Tensor> tensors;
    for (const std::vector<float>& row : values) tensors.push_back(at::tensor(row));
    return at::stack(tensors);
}

void check_logits(const Family& family, TestModel& model, const json& golden, double tolerance) {
    const at::Tensor logits = model.logits(family.batch);
    const at::Tensor some = logits.index_select(0, at::tensor(family.last_tokens));
    BOOST_TEST(test::largest_difference(some, rows_of(golden["logits"])) < tolerance);
}

// With the loss that balances experts, as transformers adds it.
double mean_loss(const Family& family, TestModel& model) {
    const auto targets =
        static_cast<int64_t>(family.batch.tokens.size() - family.last_tokens.size());
    const auto sums = ops::add_up(model.transformer.forward_backward(
        model.cut(family.batch), 1.0 / static_cast<double>(targets)));
    model.zero.finish_gradients();
    const double aux_loss = model.transformer.take_router_load().aux_loss;
    const auto whole = test::world().sum(std::vector<double>{sums.loss, aux_loss});
    return whole[0] / static_cast<double>(targets) + model.spec.router_aux_loss_coef * whole[1];
}

// The golden has the norm of a gradient, its sum, and its product with numbers between -1 and 1.
void check_gradient(const at::Tensor& gradient, const std::string& name,
                    const std::vector<double>& sketch) {
    const at::Tensor ours = gradient.to(at::kDouble).flatten();
    const auto count = static_cast<size_t>(ours.numel());
    const at::Tensor signs = at::tensor(numbers("sketch of " + name, count)).mul_(2).sub_(1);
    const double near = 2e-5 * sketch[0] + 1e-7;  // what nearly cancels has no digits
    BOOST_TEST(std::abs(ours.norm().item<double>() - sketch[0]) < near);
    BOOST_TEST(std::abs(ours.sum().item<double>() - sketch[1]) <
               near * std::sqrt(static_cast<double>(count)));
    BOOST_TEST(std::abs((ours * signs).sum().item<double>() - sketch[2]) < 2 * near);
}

// Returns the mean square of the differences to the logits that fp32 gives.
double error_of_logits(const Family& family, TestModel& model) {
    const at::Tensor some =
        model.logits(family.batch).index_select(0, at::tensor(family.last_tokens));
    const at::Tensor exact = rows_of(family.golden["logits"]).to(at::kDouble);
    return (some.to(at::kDouble) - exact).square().mean().item<double>();
}

// The sums over families of error_of_logits().
struct Bf16Errors {
    double plain = 0;
    double with_wide_residual = 0;
};

void check_gradients(const Family& family, TestModel& model) {
    const auto gradients = model.gradients();
    size_t learned = 0;  // all but the corrections of routers
    for (const auto& [name, tensor] : family.golden["tensors"].items()) {
        BOOST_TEST_INFO_SCOPE(name);
        if (!tensor.contains("gradient")) continue;
        ++learned;
        BOOST_TEST_REQUIRE(gradients.contains(name));
        check_gradient(gradients.at(name), name, tensor["gradient"]);
    }
    BOOST_TEST(gradients.size() == learned);
}

// A changed token of one document moves no logit of another by a bit.
void check_leak(const Family& family, TestModel& model) {
    data::FlatBatch batch = family.batch;
    const at::Tensor before = model.logits(batch);
    const int64_t place = family.last_tokens.front() - 3;
    auto& token = batch.tokens[static_cast<size_t>(place)];
    token = token == 7 ? 8 : 7;
    const at::Tensor after = model.logits(batch);
    const int64_t second = family.last_tokens.front() + 1;
    const int64_t rest = after.size(0) - second;
    BOOST_TEST(after.narrow(0, 0, place).equal(before.narrow(0, 0, place)));
    BOOST_TEST(!after[place].equal(before[place]));
    BOOST_TEST(after.narrow(0, second, rest).equal(before.narrow(0, second, rest)));
}

std::vector<mesh::MeshShape> layouts() {
    std::vector<mesh::MeshShape> all;
    for (const mesh::MeshShape& shape :
         {mesh::MeshShape{1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}, {1, 1, 2, 2}, {1, 1, 4, 1}})
        if (shape.world() == test::world().size()) all.push_back(shape);
    return all;
}

// A residual stream in fp32 beside a computation in bf16, on the CPU.
void check_wide_residual(const Family& family, const mesh::MeshShape& shape, double plain_error,
                         Bf16Errors& errors) {
    if (test::device().is_cuda()) return;
    for (const ActivationPolicy policy : {ActivationPolicy::all, ActivationPolicy::input}) {
        TestModel model(
            test::world(), family.folder,
            {.shape = shape, .compute = at::kBFloat16, .policies = policy, .residual = at::kFloat});
        BOOST_TEST(std::abs(mean_loss(family, model) - family.golden["loss"].get<double>()) < 2e-2);
        if (model.spec.num_experts() > 0) continue;
        for (const auto& [name, gradient] : model.gradients()) {
            const json& tensor = family.golden["tensors"][name];
            BOOST_TEST_INFO_SCOPE(name);
            const double norm = tensor["gradient"][0];
            BOOST_TEST(std::abs(gradient.norm().item<double>() - norm) < 0.1 * norm + 1e-4);
        }
        if (policy == ActivationPolicy::input) continue;
        errors.plain += plain_error;
        errors.with_wide_residual += error_of_logits(family, model);
    }
}

void check_layout(const Family& family, const mesh::MeshShape& shape, Bf16Errors& errors) {
    const bool is_split = shape.world() > 1;
    for (const ActivationPolicy policy : {ActivationPolicy::all, ActivationPolicy::input}) {
        if (is_split && policy == ActivationPolicy::all) continue;
        TestModel model(test::world(), family.folder,
                        {.shape = shape, .cuts = {true, true, true, false}, .policies = policy});
        check_logits(family, model, family.golden, 2e-5);
        BOOST_TEST(std::abs(mean_loss(family, model) - family.golden["loss"].get<double>()) < 3e-6);
        check_gradients(family, model);
        if (policy == ActivationPolicy::input) check_leak(family, model);
    }
    if (is_split) return;
    TestModel model(test::world(), family.folder, {.shape = shape, .compute = at::kBFloat16});
    const json& golden = family.golden["bf16"];
    // Rounding may send a token to other experts.
    if (model.spec.num_experts() == 0) check_logits(family, model, golden, 0.15);
    BOOST_TEST(std::abs(mean_loss(family, model) - golden["loss"].get<double>()) < 2e-2);
    check_wide_residual(family, shape, error_of_logits(family, model), errors);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_family_gives_transformers_numbers) {
    BOOST_TEST(family_names().size() >= 20U);
    Bf16Errors errors;
    for (const std::string& name : family_names()) {
        if (layouts().empty()) continue;
        const Family family = open_family(name);
        BOOST_TEST_INFO_SCOPE(family.name);
        for (const mesh::MeshShape& shape : layouts()) {
            BOOST_TEST_INFO_SCOPE(to_text(shape));
            check_layout(family, shape, errors);
        }
        test::world().barrier();
        if (test::world().rank() == 0) std::filesystem::remove_all(family.folder);
    }
    if (errors.with_wide_residual > 0) BOOST_TEST(errors.with_wide_residual < errors.plain);
}

namespace {

// Documents whose borders lie within three tokens of the cuts between ranks (multiples of 20), and
// such as are shorter than the convolution.
const std::vector<std::vector<int32_t>> lengths_near_cuts{{38, 4, 37, 3, 41, 37},
                                                          {2, 1, 117, 1, 39}};

data::FlatBatch packed(const std::vector<int32_t>& lengths) {
    std::vector<int32_t> tokens;
    for (const double number : numbers("packed tokens", 160))
        tokens.push_back(static_cast<int32_t>(number * 96));
    data::SampleList rows;
    rows.add(tokens, tokens, lengths);
    const std::vector<int64_t> first{0};
    return data::flatten(test::one_row_each(std::move(rows)), first);
}

// A changed first, middle or last token of a document moves no bit of another document, nor of the
// tokens before it.
void check_documents(TestModel& model, const std::vector<int32_t>& lengths) {
    data::FlatBatch batch = packed(lengths);
    const at::Tensor before = model.logits(batch);
    int64_t begin = 0;
    for (const int32_t length : lengths) {
        const int64_t end = begin + length;
        for (const int64_t place : std::set<int64_t>{begin, begin + length / 2, end - 1}) {
            auto& token = batch.tokens[static_cast<size_t>(place)];
            const int32_t kept = token;
            token = token == 7 ? 8 : 7;
            const at::Tensor after = model.logits(batch);
            BOOST_TEST(after.narrow(0, 0, place).equal(before.narrow(0, 0, place)),
                       "before token " << place);
            BOOST_TEST(!after[place].equal(before[place]), "token " << place);
            BOOST_TEST(after.slice(0, end).equal(before.slice(0, end)),
                       "documents after token " << place);
            token = kept;
        }
        begin = end;
    }
}

}  // namespace

// In a block a token reaches window - 1 tokens further; behind all blocks' reach no bit moves.
BOOST_AUTO_TEST_CASE(windows_hide_what_lies_behind_them) {
    for (const char* const name : {"starcoder2", "mixtral"}) {
        const Family family = open_family(name);
        for (const mesh::MeshShape& shape : layouts()) {
            BOOST_TEST_INFO_SCOPE(name << ", " << to_text(shape));
            TestModel model(test::world(), family.folder,
                            {.shape = shape, .cuts = {true, true, true, false}});
            int64_t reach = 0;
            for (const model::BlockSpec& block : model.spec.blocks)
                reach += block.attention().mask.window.value() - 1;
            data::FlatBatch batch = packed({160});
            const at::Tensor before = model.logits(batch);
            for (const int64_t place : {int64_t{0}, int64_t{37}, int64_t{79}, int64_t{120}}) {
                BOOST_TEST_INFO_SCOPE("token " << place);
                auto& token = batch.tokens[static_cast<size_t>(place)];
                const int32_t kept = token;
                token = token == 7 ? 8 : 7;
                const at::Tensor after = model.logits(batch);
                token = kept;
                const auto is_equal = [&](int64_t begin, int64_t end) {
                    return after.slice(0, begin, end).equal(before.slice(0, begin, end));
                };
                BOOST_TEST(is_equal(0, place));
                BOOST_TEST(!is_equal(place, place + 1));
                BOOST_TEST(!is_equal(place + reach, place + reach + 1));
                BOOST_TEST(is_equal(place + reach + 1, 160));
            }
        }
        test::world().barrier();
        if (test::world().rank() == 0) std::filesystem::remove_all(family.folder);
    }
}

BOOST_AUTO_TEST_CASE(states_stay_in_their_documents) {
    const auto world = test::world().size();
    Bf16Errors of_one_rank;
    for (const char* const name :
         {"qwen3_5", "qwen3_next", "bamba", "lfm2", "falcon_h1", "deepseek_v3", "nemotron_h",
          "kimi_linear", "bailing_hybrid", "olmo_hybrid", "gpt2", "gemma4", "gemma4-per-layer",
          "mimo_v2_flash", "mistral3-mistral4"}) {
        const Family family = open_family(name);
        for (const mesh::MeshShape& shape : {mesh::MeshShape{1, 1, 1, 1},
                                             {1, 1, 2, 1},
                                             {1, 1, 1, 2},
                                             {1, 1, 2, 2},
                                             {1, 1, 4, 1},
                                             {1, 1, 4, 2}}) {
            if (shape.world() != world) continue;
            BOOST_TEST_INFO_SCOPE(name << ", " << to_text(shape));
            if (world > 4) check_layout(family, shape, of_one_rank);
            TestModel model(test::world(), family.folder,
                            {.shape = shape, .cuts = {true, true, true, false}});
            for (const std::vector<int32_t>& lengths : lengths_near_cuts)
                check_documents(model, lengths);
        }
        test::world().barrier();
        if (test::world().rank() == 0) std::filesystem::remove_all(family.folder);
    }
}
