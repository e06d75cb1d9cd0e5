#include <ATen/ATen.h>

#include <boost/test/unit_test.hpp>

#include "mpi_test.hpp"
#include "ringshard/base/error.hpp"
#include "tried_communicator.hpp"

using namespace ringshard;

namespace {

const std::vector<at::ScalarType> types{at::kFloat, at::kBFloat16, at::kInt, at::kLong, at::kByte};
// Elements of a part: nothing, one, odd, small enough for MPI's own trees, several segments of a
// ring.
const std::vector<int64_t> part_sizes{0, 1, 7, 1000, 70001};

// Element i of rank r. Sums over 8 ranks stay below 8 * 3: exact in every type, in every order.
at::Tensor numbers(int64_t rank, int64_t count, at::ScalarType type) {
    return ((at::arange(count, at::kLong) * 7 + rank) % 4).to(type);
}

at::Tensor sum_of_all(int64_t size, int64_t count, at::ScalarType type) {
    at::Tensor sum = at::zeros({count}, at::kLong);
    for (int64_t r = 0; r < size; ++r) sum += numbers(r, count, at::kLong);
    return sum.to(type);
}

struct Fixture {
    std::unique_ptr<comm::Communicator> communicator =
        test::make_tried_communicator(test::world().split(0, "test"));
    int64_t rank = communicator->rank();
    int64_t size = communicator->size();
};

template <class Check>
void for_all_sizes(Check check) {
    for (const int64_t count : part_sizes) {
        BOOST_TEST_INFO_SCOPE(count << " elements");
        check(count);
    }
}

template <class Check>
void for_all_types_and_sizes(Check check) {
    for (const at::ScalarType type : types) {
        BOOST_TEST_INFO_SCOPE(c10::toString(type));
        for_all_sizes([&](int64_t count) { check(type, count); });
    }
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(all_reduce_sums_exactly, Fixture) {
    for_all_types_and_sizes([&](at::ScalarType type, int64_t count) {
        at::Tensor mine = numbers(rank, count, type);
        communicator->all_reduce(mine).wait();
        BOOST_TEST(mine.equal(sum_of_all(size, count, type)));
    });
}

BOOST_FIXTURE_TEST_CASE(reduce_scatter_sums_exactly, Fixture) {
    for_all_types_and_sizes([&](at::ScalarType type, int64_t part) {
        at::Tensor mine = numbers(rank, part * size, type);
        const at::Tensor before = mine.clone();
        at::Tensor out = at::zeros({part}, type);
        communicator->reduce_scatter(out, mine).wait();
        BOOST_TEST(out.equal(sum_of_all(size, part * size, type).narrow(0, rank * part, part)));
        BOOST_TEST(mine.equal(before));
    });
}

BOOST_FIXTURE_TEST_CASE(parts_longer_than_a_block_are_reduced, Fixture) {
    constexpr int64_t part = 1200011;
    at::Tensor out = at::zeros({part});
    communicator->reduce_scatter(out, numbers(rank, part * size, at::kFloat)).wait();
    const at::Tensor expected = sum_of_all(size, part * size, at::kFloat);
    BOOST_TEST(out.equal(expected.narrow(0, rank * part, part)));
    at::Tensor all = numbers(rank, part * size, at::kFloat);
    communicator->all_reduce(all).wait();
    BOOST_TEST(all.equal(expected));
}

BOOST_FIXTURE_TEST_CASE(all_gather_puts_parts_in_order, Fixture) {
    for_all_types_and_sizes([&](at::ScalarType type, int64_t part) {
        at::Tensor out = at::zeros({part * size}, type);
        communicator->all_gather(out, numbers(rank, part, type)).wait();
        for (int64_t r = 0; r < size; ++r)
            BOOST_TEST(out.narrow(0, r * part, part).equal(numbers(r, part, type)));
    });
}

BOOST_FIXTURE_TEST_CASE(all_gather_in_place, Fixture) {
    constexpr int64_t part = 100000;
    at::Tensor out = at::zeros({part * size});
    out.narrow(0, rank * part, part).copy_(numbers(rank, part, at::kFloat));
    communicator->all_gather(out, out.narrow(0, rank * part, part)).wait();
    for (int64_t r = 0; r < size; ++r)
        BOOST_TEST(out.narrow(0, r * part, part).equal(numbers(r, part, at::kFloat)));
}

BOOST_FIXTURE_TEST_CASE(all_to_all_transposes_parts, Fixture) {
    for_all_types_and_sizes([&](at::ScalarType type, int64_t part) {
        at::Tensor out = at::zeros({part * size}, type);
        communicator->all_to_all(out, numbers(rank, part * size, type)).wait();
        for (int64_t r = 0; r < size; ++r)
            BOOST_TEST(out.narrow(0, r * part, part)
                           .equal(numbers(r, part * size, type).narrow(0, rank * part, part)));
    });
}

// Rank r sends (r + p) % 3 rows to rank p: to some none, and to itself too.
BOOST_FIXTURE_TEST_CASE(all_to_all_takes_parts_of_any_size, Fixture) {
    const auto rows_between = [](int64_t from, int64_t to) { return (from + to) % 3; };
    const auto rows_of = [&](int64_t from, int64_t to) {
        return at::full({rows_between(from, to), 5}, 10.0 * static_cast<double>(from) + to,
                        at::kBFloat16);
    };
    comm::RowCounts sent;
    comm::RowCounts received;
    std::vector<at::Tensor> parts;
    std::vector<at::Tensor> expected;
    for (int64_t r = 0; r < size; ++r) {
        sent.push_back(rows_between(rank, r));
        received.push_back(rows_between(r, rank));
        parts.push_back(rows_of(rank, r));
        expected.push_back(rows_of(r, rank));
    }
    const at::Tensor out = at::zeros_like(at::cat(expected));
    communicator->all_to_all_uneven(out, received, at::cat(parts), sent).wait();
    BOOST_TEST(out.equal(at::cat(expected)));
}

// All rows of all ranks go to one, or to the next one; or there are none. Rows of one number too.
BOOST_FIXTURE_TEST_CASE(all_to_all_takes_the_extremes_of_uneven_parts, Fixture) {
    const auto exchange = [&](const auto& rows_between, const std::vector<int64_t>& shape_of_row) {
        const auto part = [&](int64_t from, int64_t to) {
            std::vector<int64_t> shape{rows_between(from, to)};
            shape.insert(shape.end(), shape_of_row.begin(), shape_of_row.end());
            return at::full(shape, 10 * from + to + 1, at::kLong);
        };
        comm::RowCounts sent;
        comm::RowCounts received;
        std::vector<at::Tensor> parts;
        std::vector<at::Tensor> expected;
        for (int64_t r = 0; r < size; ++r) {
            sent.push_back(rows_between(rank, r));
            received.push_back(rows_between(r, rank));
            parts.push_back(part(rank, r));
            expected.push_back(part(r, rank));
        }
        const at::Tensor out = at::zeros_like(at::cat(expected));
        communicator->all_to_all_uneven(out, received, at::cat(parts), sent).wait();
        BOOST_TEST(out.equal(at::cat(expected)));
    };
    for (const std::vector<int64_t>& shape_of_row : {std::vector<int64_t>{}, {3}, {2, 5}}) {
        exchange([&](int64_t, int64_t to) { return to == size - 1 ? 70001 : 0; }, shape_of_row);
        exchange([&](int64_t from, int64_t to) { return (from + 1) % size == to ? 5 : 0; },
                 shape_of_row);
        exchange([](int64_t from, int64_t) { return from == 0 ? 2 : 0; }, shape_of_row);
        exchange([](int64_t, int64_t) { return 0; }, shape_of_row);
    }
}

BOOST_FIXTURE_TEST_CASE(shift_moves_several_tensors_to_the_next_rank, Fixture) {
    for_all_sizes([&](int64_t count) {
        at::Tensor keys = at::zeros({count}, at::kBFloat16);
        at::Tensor values = at::zeros({2 * count});
        communicator
            ->shift({{numbers(rank, count, at::kBFloat16), keys},
                     {numbers(rank + 1, 2 * count, at::kFloat), values}})
            .wait();
        const int64_t previous = (rank + size - 1) % size;
        BOOST_TEST(keys.equal(numbers(previous, count, at::kBFloat16)));
        BOOST_TEST(values.equal(numbers(previous + 1, 2 * count, at::kFloat)));
    });
}

BOOST_FIXTURE_TEST_CASE(broadcast_from_the_last_rank, Fixture) {
    for_all_sizes([&](int64_t count) {
        const int root = static_cast<int>(size) - 1;
        at::Tensor told =
            rank == root ? numbers(5, count, at::kLong) : at::zeros({count}, at::kLong);
        communicator->broadcast(told, root).wait();
        BOOST_TEST(told.equal(numbers(5, count, at::kLong)));
    });
}

// bf16 travels as bf16 and is added in fp32: not-a-number stays one, halves round to even.
BOOST_FIXTURE_TEST_CASE(bf16_sums_round_like_the_type, Fixture) {
    constexpr int64_t count = 20000;  // long enough for the ring
    at::Tensor mine = at::full({count}, rank == 0 ? 256.0 : 1.0, at::kBFloat16);
    mine[0] = std::numeric_limits<float>::quiet_NaN();
    mine[1] = rank == 0 ? std::numeric_limits<float>::infinity() : 0.0F;
    communicator->all_reduce(mine).wait();
    BOOST_TEST(std::isnan(mine[0].item<float>()));
    BOOST_TEST(std::isinf(mine[1].item<float>()));
    const auto sum = mine[2].item<float>();
    BOOST_TEST((sum >= 256 && sum <= 256 + 2 * static_cast<float>(size)));
}

// Operations given before any is waited for are done in order, each with its own tensors.
BOOST_FIXTURE_TEST_CASE(many_operations_may_be_under_way, Fixture) {
    std::vector<at::Tensor> tensors;
    std::vector<comm::Pending> pending;
    for (int64_t i = 0; i < 20; ++i) {
        tensors.push_back(numbers(rank + i, 3000 * (i + 1), at::kFloat));
        pending.push_back(communicator->all_reduce(tensors.back()));
    }
    for (auto& operation : pending) operation.wait();
    for (int64_t i = 0; i < 20; ++i) {
        at::Tensor expected = at::zeros({3000 * (i + 1)});
        for (int64_t r = 0; r < size; ++r) expected += numbers(r + i, 3000 * (i + 1), at::kFloat);
        BOOST_TEST(tensors[static_cast<size_t>(i)].equal(expected));
    }
}

BOOST_FIXTURE_TEST_CASE(two_communicators_at_once, Fixture) {
    const auto other = test::make_tried_communicator(test::world().split(0, "test"));
    at::Tensor a = numbers(rank, 1 << 20, at::kFloat);
    at::Tensor b = numbers(rank, 1 << 19, at::kFloat);
    comm::Pending first = communicator->all_reduce(a);
    comm::Pending second = other->all_reduce(b);
    second.wait();
    first.wait();
    BOOST_TEST(a.equal(sum_of_all(size, 1 << 20, at::kFloat)));
    BOOST_TEST(b.equal(sum_of_all(size, 1 << 19, at::kFloat)));
}

BOOST_FIXTURE_TEST_CASE(tensors_that_cannot_travel_are_named, Fixture) {
    BOOST_CHECK_THROW(static_cast<void>(communicator->all_reduce(at::zeros({4}, at::kHalf))),
                      Error);
    BOOST_CHECK_THROW(static_cast<void>(communicator->all_reduce(at::zeros({4, 4}).t())), Error);
    BOOST_CHECK_THROW(
        static_cast<void>(communicator->all_gather(at::zeros({2 * size + 1}), at::zeros({2}))),
        Error);
    BOOST_CHECK_THROW(
        static_cast<void>(communicator->all_gather(at::zeros({size}), at::zeros({1}, at::kInt))),
        Error);
}
