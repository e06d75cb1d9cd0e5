// Linear attention, by either rule, and short convolutions, over a sequence that is split over
// rings and Ulysses groups, beside the same on one rank.
#include "ringshard/attention/sequence_delta.hpp"

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "mpi_test.hpp"
#include "ringshard/attention/sequence_conv.hpp"
#include "ringshard/mesh/mesh.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

const DeltaSizes delta_sizes{.key_heads = 2, .value_heads = 8, .key_dim = 6, .value_dim = 4};
const DeltaSizes by_row_sizes{.key_heads = 4,
                              .value_heads = 8,
                              .key_dim = 6,
                              .value_dim = 4,
                              .rule = ops::StateRule::delta_by_row};
const DeltaSizes additive_sizes{.key_heads = 2,
                                .value_heads = 8,
                                .key_dim = 6,
                                .value_dim = 4,
                                .rule = ops::StateRule::additive};

// A list of packed documents: some are shorter than the convolution, some go over several ranks.
struct Case {
    int64_t length;
    std::vector<int64_t> starts;
};
const std::vector<Case> cases{{203, {0, 2, 3, 120, 121}}, {203, {0}}, {130, {0, 63, 64, 66, 69}}};

struct Outcome {
    at::Tensor out;
    at::Tensor d_rows;
    DeltaWeights gradients;
};

DeltaWeights random_weights(const DeltaSizes& sizes) {
    DeltaWeights weights{at::randn({sizes.convolved(), 1, rows_before + 1}),
                         {at::randn({sizes.value_heads}), at::randn({sizes.decays()})}};
    if (sizes.is_additive()) {
        weights.conv_bias = at::randn({sizes.convolved()});
        weights.skip = at::randn({sizes.value_heads});
    }
    return weights;
}

DeltaWeights zeros_like(const DeltaWeights& weights) {
    const auto zeros = [](const at::Tensor& x) { return x.defined() ? at::zeros_like(x) : x; };
    return {zeros(weights.conv),
            {zeros(weights.decay.log_rate), zeros(weights.decay.bias)},
            zeros(weights.conv_bias),
            zeros(weights.skip)};
}

at::Tensor part_of(const at::Tensor& whole, const Layout& layout, int64_t filled) {
    const at::Tensor all = at::zeros({filled, whole.size(1)}, whole.options());
    all.narrow(0, 0, whole.size(0)).copy_(whole);
    std::vector<at::Tensor> runs;
    for (const Run& run : layout) runs.push_back(all.narrow(0, run.start, run.length));
    return at::cat(runs);
}

// Of this rank's tokens. Collective over the mesh.
Outcome run_on(const mesh::Mesh& mesh, const Case& of, const DeltaSizes& sizes,
               const at::Tensor& rows, const at::Tensor& d_out, const DeltaWeights& weights) {
    const auto& [ring, ulysses] = std::pair(mesh.coordinates().ring, mesh.coordinates().ulysses);
    const SequencePartition partition(of.length, of.starts, mesh.shape().ring,
                                      mesh.shape().ulysses);
    const Layout mine = partition.of_rank(ring, ulysses);
    const Plan plan = make_plan(partition, ring, {.through_state = true});
    const SequenceDelta delta(mesh.ring(), mesh.ulysses());
    const at::Tensor my_rows = part_of(rows, mine, partition.filled_length());
    const auto result = delta.forward(sizes, my_rows, weights, plan);
    Outcome outcome{result.out, {}, zeros_like(weights)};
    outcome.d_rows =
        delta.backward(sizes, my_rows, weights, result,
                       part_of(d_out, mine, partition.filled_length()), outcome.gradients, plan);
    return outcome;
}

at::Tensor sum_of_ranks(const at::Tensor& mine) {
    const at::Tensor flat = mine.contiguous().flatten();
    const auto* numbers = flat.const_data_ptr<float>();
    const std::vector<double> sum =
        test::world().sum(std::vector<double>(numbers, numbers + flat.numel()));
    return at::tensor(sum).view(mine.sizes());
}

std::vector<mesh::MeshShape> shapes_of_this_world() {
    std::vector<mesh::MeshShape> shapes;
    const int64_t world = test::world().size();
    for (int64_t ulysses = 1; ulysses <= world; ulysses *= 2)
        shapes.push_back({1, 1, world / ulysses, ulysses});
    return shapes;
}

}  // namespace

namespace {

void check_splits(const DeltaSizes& sizes) {
    const DeltaWeights weights = random_weights(sizes);
    for (const Case& of : cases) {
        const at::Tensor rows = at::randn({of.length, sizes.columns()});
        const at::Tensor d_out = at::randn({of.length, sizes.values()});
        const mesh::Mesh alone(comm::Group(MPI_COMM_SELF), {}, at::kCPU);
        const Outcome whole = run_on(alone, of, sizes, rows, d_out, weights);
        for (const mesh::MeshShape& shape : shapes_of_this_world()) {
            BOOST_TEST_INFO_SCOPE(to_text(shape) << ", " << of.length << " tokens");
            const mesh::Mesh mesh(test::world(), shape, at::kCPU);
            const Outcome split = run_on(mesh, of, sizes, rows, d_out, weights);
            const SequencePartition partition(of.length, of.starts, shape.ring, shape.ulysses);
            const Layout mine =
                partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses);
            const auto expected = [&](const at::Tensor& all) {
                return part_of(all.narrow(0, 0, of.length), mine, partition.filled_length());
            };
            // A rank may hold nothing but what fills up.
            const auto distance = [](const at::Tensor& ours, const at::Tensor& reference) {
                return (ours - reference).norm().item<double>() /
                       (reference.norm().item<double>() + 1);
            };
            // What fills up reads too, of its own biases.
            const at::Tensor is_token = expected(at::ones({of.length, 1}));
            BOOST_TEST(distance(split.out * is_token, expected(whole.out)) < 3e-6);
            BOOST_TEST(distance(split.d_rows, expected(whole.d_rows)) < 3e-6);
            const auto check_sum = [&](const at::Tensor& part, const at::Tensor& all) {
                BOOST_TEST(test::distance(sum_of_ranks(part), all) < 3e-6);
            };
            check_sum(split.gradients.conv, whole.gradients.conv);
            check_sum(split.gradients.decay.log_rate, whole.gradients.decay.log_rate);
            check_sum(split.gradients.decay.bias, whole.gradients.decay.bias);
            if (!sizes.is_additive()) continue;
            check_sum(split.gradients.conv_bias, whole.gradients.conv_bias);
            check_sum(split.gradients.skip, whole.gradients.skip);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_split_gives_the_numbers_of_one_rank) {
    at::manual_seed(3);  // the same on all ranks
    check_splits(delta_sizes);
    check_splits(by_row_sizes);
    check_splits(additive_sizes);
}

namespace {

// A changed row of one document moves no bit of another, in either pass.
void check_documents(const DeltaSizes& sizes) {
    const DeltaWeights weights = random_weights(sizes);
    const Case& of = cases.front();
    const at::Tensor rows = at::randn({of.length, sizes.columns()});
    const at::Tensor d_out = at::randn({of.length, sizes.values()});
    const at::Tensor changed = rows.clone();
    constexpr int64_t place = 118;  // near the end of its document
    changed[place].add_(1);
    for (const mesh::MeshShape& shape : shapes_of_this_world()) {
        BOOST_TEST_INFO_SCOPE(to_text(shape));
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const SequencePartition partition(of.length, of.starts, shape.ring, shape.ulysses);
        const Layout mine = partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses);
        const Outcome before = run_on(mesh, of, sizes, rows, d_out, weights);
        const Outcome after = run_on(mesh, of, sizes, changed, d_out, weights);
        int64_t row = 0;
        for (const Run& run : mine)
            for (int64_t t = run.start; t < run.start + run.length; ++t, ++row) {
                const bool is_in_document = t >= of.starts[2] && t < of.starts[3];
                if (!is_in_document || t < place)
                    BOOST_TEST(after.out[row].equal(before.out[row]), "token " << t);
                if (!is_in_document)
                    BOOST_TEST(after.d_rows[row].equal(before.d_rows[row]), "token " << t);
                if (t == place) BOOST_TEST(!after.out[row].equal(before.out[row]));
            }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(documents_do_not_see_each_other) {
    at::manual_seed(4);
    check_documents(delta_sizes);
    check_documents(by_row_sizes);
    check_documents(additive_sizes);
}

namespace {

// Counts what this rank sends.
class Counter final : public comm::Communicator {
public:
    explicit Counter(comm::Communicator& inner) : inner_(inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    comm::Pending all_reduce(at::Tensor in_out) override { return inner_.all_reduce(in_out); }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        bytes += static_cast<int64_t>(in.nbytes());
        return inner_.all_gather(out, in);
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        return inner_.reduce_scatter(out, in);
    }
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override {
        return inner_.all_to_all(out, in);
    }
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts received, at::Tensor in,
                                    comm::RowCounts sent) override {
        return inner_.all_to_all_uneven(out, std::move(received), in, std::move(sent));
    }
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override {
        return inner_.shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor in_out, int root) override {
        return inner_.broadcast(in_out, root);
    }
    int64_t bytes = 0;

private:
    comm::Communicator& inner_;
};

}  // namespace

namespace {

void check_bytes(const DeltaSizes& sizes) {
    const mesh::Mesh mesh(test::world(), {1, 1, test::world().size(), 1}, at::kCPU);
    const DeltaWeights weights = random_weights(sizes);
    std::vector<int64_t> sent;
    for (const int64_t length : {4096, 65536}) {
        const SequencePartition partition(length, {0}, mesh.shape().ring, 1);
        const Plan plan = make_plan(partition, mesh.coordinates().ring, {.through_state = true});
        Counter ring(mesh.ring());
        const SequenceDelta delta(ring, mesh.ulysses());
        const at::Tensor rows = at::randn({partition.tokens_per_rank(), sizes.columns()});
        const auto result = delta.forward(sizes, rows, weights, plan);
        delta.backward(sizes, rows, weights, result, result.out, {}, plan);
        sent.push_back(ring.bytes);
    }
    BOOST_TEST(sent[0] == sent[1]);
    BOOST_TEST((sent[0] > 0) == (mesh.shape().ring > 1));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_ring_sends_the_same_bytes_at_any_length) {
    check_bytes(delta_sizes);
    check_bytes(by_row_sizes);
    check_bytes(additive_sizes);
}

namespace {

// Of documents one after another, in the type of the rows.
at::Tensor gated_conv(const at::Tensor& rows, const ShortConvWeights& weights, const Case& of) {
    const int64_t taps = weights.conv.size(2);
    const std::vector<at::Tensor> parts = rows.chunk(3, 1);
    std::vector<at::Tensor> documents;
    for (size_t i = 0; i < of.starts.size(); ++i) {
        const int64_t end = i + 1 < of.starts.size() ? of.starts[i + 1] : of.length;
        const auto document = [&](const at::Tensor& x) { return x.slice(0, of.starts[i], end); };
        const at::Tensor x =
            at::constant_pad_nd(document(parts[0]) * document(parts[2]), {0, 0, taps - 1, 0});
        at::Tensor sum = weights.bias.defined() ? weights.bias : at::zeros({1}, rows.options());
        for (int64_t tap = 0; tap < taps; ++tap)
            sum =
                sum + x.narrow(0, tap, end - of.starts[i]) * weights.conv.select(2, tap).squeeze(1);
        documents.push_back(document(parts[1]) * sum);
    }
    return at::cat(documents);
}

void check_short_conv(const Case& of, int64_t taps, bool has_bias) {
    constexpr int64_t columns = 16;
    const ShortConvWeights weights{at::randn({columns, 1, taps}),
                                   has_bias ? at::randn({columns}) : at::Tensor()};
    const at::Tensor rows = at::randn({of.length, 3 * columns});
    const at::Tensor d_out = at::randn({of.length, columns});
    const auto leaf = [](const at::Tensor& x) {
        return x.defined() ? x.to(at::kDouble).requires_grad_() : x;
    };
    const at::Tensor exact_rows = leaf(rows);
    const ShortConvWeights exact{leaf(weights.conv), leaf(weights.bias)};
    const at::Tensor out = gated_conv(exact_rows, exact, of);
    (out * d_out).sum().backward();
    for (const mesh::MeshShape& shape : shapes_of_this_world()) {
        BOOST_TEST_INFO_SCOPE(to_text(shape)
                              << ", " << of.length << " tokens, " << taps << " taps");
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const SequencePartition partition(of.length, of.starts, shape.ring, shape.ulysses);
        const int64_t ring = mesh.coordinates().ring;
        const Layout mine = partition.of_rank(ring, mesh.coordinates().ulysses);
        const auto part = [&](const at::Tensor& all) {
            return part_of(all, mine, partition.filled_length());
        };
        const Plan plan = make_plan(partition, ring, {.through_state = true});
        const SequenceConv conv(mesh.ring(), mesh.ulysses());
        const auto result = conv.forward(part(rows), weights, plan);
        const ShortConvWeights gradients{at::zeros_like(weights.conv), at::zeros({columns})};
        const at::Tensor d_rows =
            conv.backward(part(rows), weights, result, part(d_out), gradients, plan);
        const auto distance = [](const at::Tensor& ours, const at::Tensor& reference) {
            return (ours - reference).norm().item<double>() / (reference.norm().item<double>() + 1);
        };
        BOOST_TEST(distance(result.out, part(out.detach())) < 1e-6);
        BOOST_TEST(distance(d_rows, part(exact_rows.grad())) < 1e-6);
        BOOST_TEST(distance(sum_of_ranks(gradients.conv), exact.conv.grad()) < 1e-6);
        if (has_bias) BOOST_TEST(distance(sum_of_ranks(gradients.bias), exact.bias.grad()) < 1e-6);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gated_short_convolutions_are_their_definition_on_every_split) {
    at::manual_seed(5);
    for (const Case& of : cases) {
        check_short_conv(of, 3, false);
        check_short_conv(of, 4, true);
    }
}
