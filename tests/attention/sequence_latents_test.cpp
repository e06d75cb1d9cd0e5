// Attention to keys and values that are made of latents, over rings and Ulysses groups, beside its
// definition in double precision.
#include "ringshard/attention/sequence_latents.hpp"

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "mpi_test.hpp"
#include "ringshard/mesh/mesh.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

constexpr int64_t rank_of_latents = 10;
constexpr int64_t rotated = 4;  // elements that all keys share
constexpr int64_t latent_width = rank_of_latents + rotated;

// Counts what this rank sends round the ring.
class SentBytes final : public comm::Communicator {
public:
    explicit SentBytes(comm::Communicator& inner) : inner_(inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    comm::Pending all_reduce(at::Tensor in_out) override { return inner_.all_reduce(in_out); }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
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
        for (const comm::Exchange& exchange : exchanges)
            bytes += static_cast<int64_t>(exchange.send.nbytes());
        return inner_.shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor in_out, int root) override {
        return inner_.broadcast(in_out, root);
    }
    int64_t bytes = 0;

private:
    comm::Communicator& inner_;
};

// [t, heads (key_dim + value_dim)]: the keys of a head are a product of the latent, and the
// elements that all share.
at::Tensor expand(const at::Tensor& latents, const at::Tensor& weight, const LatentSizes& sizes) {
    const int64_t plain = sizes.key_dim - rotated;
    const auto parts = at::matmul(latents.narrow(1, 0, rank_of_latents), weight.t())
                           .unflatten(1, {sizes.heads, -1})
                           .split_with_sizes({plain, sizes.value_dim}, 2);
    const at::Tensor shared =
        latents.narrow(1, rank_of_latents, rotated).unsqueeze(1).expand({-1, sizes.heads, -1});
    return at::cat({at::cat({parts[0], shared}, 2).flatten(1), parts[1].flatten(1)}, 1);
}

LatentExpansion expansion_of(const at::Tensor& weight, const at::Tensor& d_weight,
                             const LatentSizes& sizes) {
    return {[=](const at::Tensor& latents) { return expand(latents, weight, sizes); },
            [=](const at::Tensor& d_rows, const at::Tensor& latents) {
                const at::Tensor leaf = latents.detach().requires_grad_();
                const at::Tensor of_weight = weight.detach().requires_grad_();
                expand(leaf, of_weight, sizes).backward(d_rows);
                d_weight.add_(of_weight.grad());
                return leaf.grad();
            }};
}

at::Tensor by_definition(const at::Tensor& queries, const at::Tensor& expanded,
                         const std::vector<int64_t>& starts, const LatentSizes& sizes) {
    const int64_t keys = sizes.heads * sizes.key_dim;
    const auto heads = [&](const at::Tensor& rows) {
        return rows.unflatten(1, {sizes.heads, -1}).transpose(0, 1);
    };
    std::vector<at::Tensor> documents;
    for (size_t i = 0; i < starts.size(); ++i) {
        const int64_t end = i + 1 < starts.size() ? starts[i + 1] : queries.size(0);
        const at::Tensor rows = expanded.slice(0, starts[i], end);
        const at::Tensor q = heads(queries.slice(0, starts[i], end));
        const at::Tensor k = heads(rows.narrow(1, 0, keys));
        const at::Tensor v = heads(rows.narrow(1, keys, rows.size(1) - keys));
        const at::Tensor scores =
            at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(sizes.key_dim));
        const at::Tensor hidden = at::ones_like(scores, at::kBool).triu(1);
        const at::Tensor shares =
            scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(-1);
        documents.push_back(at::matmul(shares, v).transpose(0, 1).flatten(1));
    }
    return at::cat(documents);
}

at::Tensor rows_of(const at::Tensor& whole, const Layout& layout, int64_t filled) {
    const at::Tensor all = at::zeros({filled, whole.size(1)}, whole.options());
    all.narrow(0, 0, whole.size(0)).copy_(whole);
    std::vector<at::Tensor> runs;
    for (const Run& run : layout) runs.push_back(all.narrow(0, run.start, run.length));
    return at::cat(runs);
}

at::Tensor sum_of_ranks(const at::Tensor& mine) {
    const at::Tensor flat = mine.contiguous().flatten();
    const auto* numbers = flat.const_data_ptr<float>();
    return at::tensor(test::world().sum(std::vector<double>(numbers, numbers + flat.numel())))
        .view(mine.sizes());
}

double distance(const at::Tensor& ours, const at::Tensor& reference) {
    return (ours - reference).norm().item<double>() / (reference.norm().item<double>() + 1);
}

void check(const LatentSizes& sizes, ContextParallelOptions::Keys keys) {
    constexpr int64_t length = 203;
    const std::vector<int64_t> starts{0, 2, 3, 120, 121};
    at::manual_seed(3);  // the same on all ranks
    const int64_t expanded = sizes.heads * (sizes.key_dim - rotated + sizes.value_dim);
    const at::Tensor queries = at::randn({length, sizes.heads * sizes.key_dim});
    const at::Tensor latents = at::randn({length, latent_width});
    const at::Tensor weight = at::randn({expanded, rank_of_latents});
    const at::Tensor d_out = at::randn({length, sizes.heads * sizes.value_dim});
    const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
    const at::Tensor exact_queries = leaf(queries);
    const at::Tensor exact_latents = leaf(latents);
    const at::Tensor exact_weight = leaf(weight);
    const at::Tensor out =
        by_definition(exact_queries, expand(exact_latents, exact_weight, sizes), starts, sizes);
    (out * d_out).sum().backward();

    const int64_t world = test::world().size();
    for (int64_t ulysses = 1; ulysses <= world; ulysses *= 2) {
        const mesh::MeshShape shape{1, 1, world / ulysses, ulysses};
        BOOST_TEST_INFO_SCOPE(to_text(shape));
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const SequencePartition partition(length, starts, shape.ring, shape.ulysses);
        const int64_t ring = mesh.coordinates().ring;
        const Layout mine = partition.of_rank(ring, mesh.coordinates().ulysses);
        const auto part = [&](const at::Tensor& all) {
            return rows_of(all.detach(), mine, partition.filled_length());
        };
        const Plan plan = make_plan(partition, ring);
        const SequenceLatents attention(sizes, mesh.ring(), mesh.ulysses(), {.keys = keys},
                                        at::kCPU, {});
        const at::Tensor d_weight = at::zeros_like(weight);
        const LatentExpansion expansion = expansion_of(weight, d_weight, sizes);
        const auto result = attention.forward(part(queries), part(latents), expansion, plan);
        const auto [d_queries, d_latents] =
            attention.backward(part(d_out), part(queries), part(latents), result, expansion, plan);
        BOOST_TEST(distance(result.out, part(out)) < 2e-6);
        BOOST_TEST(distance(d_queries, part(exact_queries.grad())) < 2e-6);
        BOOST_TEST(distance(d_latents, part(exact_latents.grad())) < 2e-6);
        BOOST_TEST(distance(sum_of_ranks(d_weight), exact_weight.grad()) < 2e-6);
    }
}

constexpr auto rotate = ContextParallelOptions::Keys::rotate;
constexpr auto all_gather = ContextParallelOptions::Keys::all_gather;

}  // namespace

BOOST_AUTO_TEST_CASE(is_its_definition_on_every_split) {
    for (const LatentSizes& sizes : {LatentSizes{8, 12, 8}, {8, 12, 12}, {8, 8, 14}})
        for (const auto keys : {rotate, all_gather}) check(sizes, keys);
}

// A token costs its latent on each hop, in the type of the computation, whatever heads there are.
BOOST_AUTO_TEST_CASE(latents_travel_round_a_ring) {
    constexpr int64_t length = 4096;
    const LatentSizes sizes{4, 12, 8};
    const mesh::Mesh mesh(test::world(), {1, 1, test::world().size(), 1}, at::kCPU);
    const SequencePartition partition(length, std::vector<int64_t>{0}, mesh.shape().ring, 1);
    const int64_t tokens = partition.tokens_per_rank();
    const Plan plan = make_plan(partition, mesh.coordinates().ring);
    SentBytes ring(mesh.ring());
    const SequenceLatents attention(sizes, ring, mesh.ulysses(), {}, at::kCPU, {});
    const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kBFloat16); };
    const LatentExpansion expansion = expansion_of(
        random({sizes.heads * (sizes.key_dim - rotated + sizes.value_dim), rank_of_latents}), {},
        sizes);
    attention.forward(random({tokens, sizes.heads * sizes.key_dim}), random({tokens, latent_width}),
                      expansion, plan);
    const int64_t hops = mesh.shape().ring - 1;
    BOOST_TEST(ring.bytes == latent_width * 2 * tokens * hops);
}
