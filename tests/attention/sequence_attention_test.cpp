// Attention over a sequence that is split over rings and Ulysses groups, beside the same on one
// rank: every way for keys to travel, and every type for heads to travel in.
#include "ringshard/attention/sequence_attention.hpp"

#include <boost/test/unit_test.hpp>

#include "autograd.hpp"
#include "mpi_test.hpp"
#include "ringshard/mesh/mesh.hpp"

using namespace ringshard;
using namespace ringshard::attention;

namespace {

constexpr int64_t length = 203;
const std::vector<int64_t> document_starts{0, 2, 3, 120, 121};
const HeadCounts counts{8, 2, 16};
const auto width = (counts.query_heads + 2 * counts.key_heads) * counts.head_dim;

// Notes what type travels between ranks, and in which operation.
class Recorder final : public comm::Communicator {
public:
    explicit Recorder(comm::Communicator& inner) : inner_(inner) {}
    int rank() const override { return inner_.rank(); }
    int size() const override { return inner_.size(); }
    comm::Pending all_reduce(at::Tensor in_out) override { return inner_.all_reduce(in_out); }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        gathered.push_back(in.scalar_type());
        return inner_.all_gather(out, in);
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        scattered.push_back(in.scalar_type());
        return inner_.reduce_scatter(out, in);
    }
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override {
        exchanged.push_back(in.scalar_type());
        return inner_.all_to_all(out, in);
    }
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts received, at::Tensor in,
                                    comm::RowCounts sent) override {
        rows_sent.push_back(in.size(0));
        return inner_.all_to_all_uneven(out, std::move(received), in, std::move(sent));
    }
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override {
        ++num_shifts;
        return inner_.shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor in_out, int root) override {
        return inner_.broadcast(in_out, root);
    }

    std::vector<at::ScalarType> gathered;
    std::vector<at::ScalarType> scattered;
    std::vector<at::ScalarType> exchanged;
    std::vector<int64_t> rows_sent;
    int num_shifts = 0;

private:
    comm::Communicator& inner_;
};

// The rows of some tokens of the filled list; what fills up is zeros.
at::Tensor rows_of(const at::Tensor& whole, const Layout& layout, int64_t filled) {
    const at::Tensor all = at::zeros({filled, whole.size(1)}, whole.options());
    all.narrow(0, 0, whole.size(0)).copy_(whole);
    std::vector<at::Tensor> runs;
    for (const Run& run : layout) runs.push_back(all.narrow(0, run.start, run.length));
    return at::cat(runs);
}

struct Outcome {
    at::Tensor out;
    at::Tensor d_qkv;
};

// This rank's rows of the result. Collective over the mesh.
Outcome attend_on(const mesh::Mesh& mesh, const ContextParallelOptions& context_parallel,
                  const at::Tensor& qkv, const at::Tensor& d_out, comm::Communicator& ring,
                  comm::Communicator& ulysses, const Mask& mask = {},
                  const std::vector<Branch>& branches = {}) {
    const mesh::Coordinates& at = mesh.coordinates();
    const SequencePartition partition(length, document_starts, mesh.shape().ring,
                                      mesh.shape().ulysses, branches);
    const Layout mine = partition.of_rank(at.ring, at.ulysses);
    const Plan plan = make_plan(partition, at.ring, mask);
    const at::Tensor my_qkv = rows_of(qkv, mine, partition.filled_length());
    const at::Tensor my_d_out = rows_of(d_out, mine, partition.filled_length());
    const SequenceAttention attention(counts, ring, ulysses, context_parallel);
    const auto result = attention.forward(my_qkv, plan);
    return {result.out, attention.backward(my_d_out, my_qkv, result, plan)};
}

struct Inputs {
    at::Tensor qkv;
    at::Tensor d_out;
    Inputs to(at::ScalarType type) const { return {qkv.to(type), d_out.to(type)}; }
};

Inputs random_inputs() {
    at::manual_seed(3);  // the same on all ranks
    return {at::randn({length, width}), at::randn({length, counts.query_heads * counts.head_dim})};
}

Outcome on_one_rank(const Inputs& inputs, const Mask& mask = {}) {
    const mesh::Mesh mesh(comm::Group(MPI_COMM_SELF), {}, at::kCPU);
    return attend_on(mesh, {}, inputs.qkv, inputs.d_out, mesh.ring(), mesh.ulysses(), mask);
}

// The same rows of the result on one rank.
Outcome rows_of(const Outcome& whole, const mesh::Mesh& mesh,
                const std::vector<Branch>& branches = {}) {
    const SequencePartition partition(length, document_starts, mesh.shape().ring,
                                      mesh.shape().ulysses, branches);
    const Layout mine = partition.of_rank(mesh.coordinates().ring, mesh.coordinates().ulysses);
    const int64_t filled = partition.filled_length();
    return {rows_of(whole.out.narrow(0, 0, length), mine, filled),
            rows_of(whole.d_qkv.narrow(0, 0, length), mine, filled)};
}

std::vector<mesh::MeshShape> shapes_of_this_world() {
    std::vector<mesh::MeshShape> shapes;
    const int64_t world = test::world().size();
    for (int64_t ulysses = 1; ulysses <= world; ulysses *= 2)
        shapes.push_back({1, 1, world / ulysses, ulysses});
    return shapes;
}

constexpr auto rotate = ContextParallelOptions::Keys::rotate;
constexpr auto all_gather = ContextParallelOptions::Keys::all_gather;

}  // namespace

BOOST_AUTO_TEST_CASE(is_that_of_one_rank) {
    const Inputs wide = random_inputs();
    const Outcome reference = on_one_rank(wide);
    for (const mesh::MeshShape& shape : shapes_of_this_world()) {
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const Outcome expected = rows_of(reference, mesh);
        for (const auto keys : {rotate, all_gather}) {
            for (const auto type : {at::kFloat, at::kBFloat16}) {
                BOOST_TEST_INFO_SCOPE(to_text(shape) << (keys == all_gather ? " gathered " : " ")
                                                     << at::toString(type));
                const Inputs inputs = wide.to(type);
                const Outcome found = attend_on(mesh, {.keys = keys}, inputs.qkv, inputs.d_out,
                                                mesh.ring(), mesh.ulysses());
                BOOST_TEST(found.out.scalar_type() == type);
                BOOST_TEST(found.d_qkv.scalar_type() == type);
                BOOST_TEST(test::distance(found.out, expected.out) < test::tolerance(type));
                BOOST_TEST(test::distance(found.d_qkv, expected.d_qkv) < test::tolerance(type));
            }
        }
    }
}

// The keys of a narrow window are exchanged at once, and none where a token sees itself alone.
BOOST_AUTO_TEST_CASE(a_window_is_that_of_one_rank) {
    const Inputs wide = random_inputs();
    const Outcome all_keys = on_one_rank(wide);
    for (const int64_t window : {1, 7, 40, 500}) {
        const Mask mask{.window = window};
        const Outcome reference = on_one_rank(wide, mask);
        BOOST_TEST(reference.out.equal(all_keys.out) == (window == 500));
        for (const mesh::MeshShape& shape : shapes_of_this_world()) {
            const mesh::Mesh mesh(test::world(), shape, at::kCPU);
            const Outcome expected = rows_of(reference, mesh);
            for (const auto type : {at::kFloat, at::kBFloat16}) {
                BOOST_TEST_INFO_SCOPE(to_text(shape)
                                      << " window " << window << " " << at::toString(type));
                const Inputs inputs = wide.to(type);
                Recorder ring(mesh.ring());
                const Outcome found =
                    attend_on(mesh, {}, inputs.qkv, inputs.d_out, ring, mesh.ulysses(), mask);
                BOOST_TEST(test::distance(found.out, expected.out) < test::tolerance(type));
                BOOST_TEST(test::distance(found.d_qkv, expected.d_qkv) < test::tolerance(type));
                const bool exchanges = shape.ring > 1 && window < 500;
                BOOST_TEST(ring.rows_sent.size() == (exchanges ? 3 : 0));
                BOOST_TEST((ring.num_shifts == 0) == (exchanges || shape.ring == 1));
                for (const int64_t rows : ring.rows_sent) BOOST_TEST((rows == 0 || window > 1));
            }
        }
    }
}

namespace {

// The result on one rank of a list in which every branch has the tokens of its stem, too.
Outcome without_branches(const Inputs& inputs, const std::vector<Branch>& branches,
                         const Mask& mask) {
    std::vector<int64_t> starts;
    std::vector<int64_t> tokens;  // of the list with branches
    std::vector<float> is_own;
    for (size_t document = 0; document < document_starts.size(); ++document) {
        starts.push_back(std::ssize(tokens));
        const auto add = [&](int64_t begin, int64_t end, float own) {
            for (int64_t token = begin; token < end; ++token) tokens.push_back(token);
            is_own.resize(tokens.size(), own);
        };
        for (const Branch& branch : branches)
            if (branch.document == document)
                add(document_starts[branch.stem], document_starts[branch.stem] + branch.length, 0);
        const bool is_last = document + 1 == document_starts.size();
        add(document_starts[document], is_last ? length : document_starts[document + 1], 1);
    }
    const at::Tensor places = at::tensor(tokens);
    const at::Tensor own = at::tensor(is_own).unsqueeze(1);
    const mesh::Mesh mesh(comm::Group(MPI_COMM_SELF), {}, at::kCPU);
    const auto count = std::ssize(tokens);
    const SequencePartition partition(count, starts, 1, 1);
    const Plan plan = make_plan(partition, 0, mask);
    const auto filled = [&](const at::Tensor& rows) {
        return rows_of(rows, {{0, partition.filled_length()}}, partition.filled_length());
    };
    const at::Tensor qkv = filled(inputs.qkv.index_select(0, places));
    const at::Tensor d_out = filled(inputs.d_out.index_select(0, places) * own);
    const SequenceAttention attention(counts, mesh.ring(), mesh.ulysses());
    const auto result = attention.forward(qkv, plan);
    const at::Tensor d_qkv = attention.backward(d_out, qkv, result, plan).narrow(0, 0, count);
    return {
        at::zeros_like(inputs.d_out).index_add_(0, places, result.out.narrow(0, 0, count) * own),
        at::zeros_like(inputs.qkv).index_add_(0, places, d_qkv)};
}

}  // namespace

// Two documents go on behind parts of a third, whose keys get the gradients of all.
BOOST_AUTO_TEST_CASE(a_branch_is_a_document_with_its_stem) {
    const std::vector<Branch> branches{{3, 2, 100}, {4, 2, 60}};
    const Inputs wide = random_inputs();
    for (const Mask& mask : {Mask{}, Mask{.window = 7}, Mask{.window = 90}}) {
        const Outcome reference = without_branches(wide, branches, mask);
        for (const mesh::MeshShape& shape : shapes_of_this_world()) {
            const mesh::Mesh mesh(test::world(), shape, at::kCPU);
            const Outcome expected = rows_of(reference, mesh, branches);
            for (const auto keys : {rotate, all_gather})
                for (const auto type : {at::kFloat, at::kBFloat16}) {
                    BOOST_TEST_INFO_SCOPE(to_text(shape) << " window " << mask.window.value_or(0)
                                                         << " " << at::toString(type));
                    const Inputs inputs = wide.to(type);
                    const Outcome found = attend_on(mesh, {.keys = keys}, inputs.qkv, inputs.d_out,
                                                    mesh.ring(), mesh.ulysses(), mask, branches);
                    BOOST_TEST(found.out.scalar_type() == type);
                    BOOST_TEST(test::distance(found.out, expected.out) < test::tolerance(type));
                    BOOST_TEST(test::distance(found.d_qkv, expected.d_qkv) < test::tolerance(type));
                }
        }
    }
}

BOOST_AUTO_TEST_CASE(keys_take_the_chosen_way) {
    const Inputs inputs = random_inputs().to(at::kBFloat16);
    const mesh::Mesh mesh(test::world(), {1, 1, test::world().size(), 1}, at::kCPU);
    const auto size = static_cast<int>(test::world().size());
    for (const auto keys : {rotate, all_gather}) {
        Recorder ring(mesh.ring());
        attend_on(mesh, {.keys = keys}, inputs.qkv, inputs.d_out, ring, mesh.ulysses());
        const bool gathers = keys == all_gather && size > 1;
        // Keys go round in both passes, less the last step of each, and gradients go all the way.
        BOOST_TEST(ring.num_shifts == (gathers || size == 1 ? 0 : 2 * (size - 1) + size));
        BOOST_TEST(ring.gathered == std::vector<at::ScalarType>(gathers ? 2 : 0, at::kBFloat16));
        BOOST_TEST(ring.scattered == std::vector<at::ScalarType>(gathers ? 1 : 0, at::kFloat));
    }
}

// A wider type on the way changes nothing but the gradients of key heads that several ranks hold:
// they are rounded once, when they have been added up.
BOOST_AUTO_TEST_CASE(heads_are_exchanged_in_the_chosen_type) {
    const Inputs exact = random_inputs().to(at::kBFloat16).to(at::kFloat);
    const Inputs inputs = exact.to(at::kBFloat16);
    const Outcome reference = on_one_rank(exact);
    for (const mesh::MeshShape& shape : shapes_of_this_world()) {
        BOOST_TEST_INFO_SCOPE(to_text(shape));
        const mesh::Mesh mesh(test::world(), shape, at::kCPU);
        const Outcome expected = rows_of(reference, mesh);
        const auto run = [&](std::optional<at::ScalarType> type, at::ScalarType travels) {
            Recorder ulysses(mesh.ulysses());
            const Outcome outcome =
                attend_on(mesh, {.heads = type}, inputs.qkv, inputs.d_out, mesh.ring(), ulysses);
            // In: qkv twice, d_out and out. Out: out and the gradient.
            BOOST_TEST(ulysses.exchanged ==
                       std::vector<at::ScalarType>(shape.ulysses > 1 ? 6 : 0, travels));
            BOOST_TEST(outcome.d_qkv.scalar_type() == at::kBFloat16);
            return outcome;
        };
        const Outcome narrow = run(std::nullopt, at::kBFloat16);
        const Outcome wide = run(at::kFloat, at::kFloat);
        BOOST_TEST(wide.out.equal(narrow.out));
        const at::Tensor d_keys = expected.d_qkv.slice(1, counts.query_heads * counts.head_dim);
        const auto error = [&](const Outcome& outcome) {
            return test::distance(outcome.d_qkv.slice(1, counts.query_heads * counts.head_dim),
                                  d_keys);
        };
        if (shape.ulysses > counts.key_heads)
            BOOST_TEST(error(wide) < error(narrow));
        else
            BOOST_TEST(wide.d_qkv.equal(narrow.d_qkv));
    }
}
