#include "check_communicator.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "check_numbers.hpp"
#include "ringshard/base/text.hpp"
#include "ringshard/base/timer.hpp"

namespace ringshard::cli {

namespace {

// Exchanges tensors through one communicator by every operation, and compares what arrives.
class CommunicatorCheck {
public:
    CommunicatorCheck(std::string name, comm::Communicator& communicator, at::TensorOptions options)
        : name_(std::move(name)),
          communicator_(communicator),
          options_(options),
          numbers_(communicator.size(), options) {}

    std::vector<std::string> run() {
        const int64_t size = communicator_.size();
        const int64_t rank = communicator_.rank();
        constexpr int64_t most_elements = int64_t{1} << 20;
        const int64_t part = std::clamp<int64_t>(most_elements / size, 8, 1000);
        const int64_t whole = part * size;
        const auto all = [&](int64_t r) { return numbers_.of_rank(r, 0, whole); };
        const auto part_of_rank = [&](int64_t r, int64_t p) {
            return numbers_.of_rank(r, p * part, part);
        };
        const at::Tensor sum = numbers_.sum_of_all(0, whole);

        at::Tensor reduced = all(rank);
        communicator_.all_reduce(reduced).wait();
        expect("all-reduce", reduced, sum);

        at::Tensor scattered = at::zeros({part}, options_);
        communicator_.reduce_scatter(scattered, all(rank)).wait();
        expect("reduce-scatter", scattered, numbers_.sum_of_all(rank * part, part));

        at::Tensor gathered = at::zeros({whole}, options_);
        communicator_.all_gather(gathered, scattered).wait();
        expect("all-gather", gathered, sum);

        at::Tensor exchanged = at::zeros({whole}, options_);
        communicator_.all_to_all(exchanged, all(rank)).wait();
        for (int64_t r = 0; r < size; ++r)
            expect("all-to-all", exchanged.narrow(0, r * part, part), part_of_rank(r, rank));

        // Rank r sends r + 1 rows to every rank.
        const comm::RowCounts sent(static_cast<size_t>(size), rank + 1);
        comm::RowCounts arriving;
        for (int64_t r = 0; r < size; ++r) arriving.push_back(r + 1);
        at::Tensor uneven = at::zeros({size * (size + 1) / 2}, options_);
        const at::Tensor mine = numbers_.of_rank(rank, 0, rank + 1).repeat({size});
        communicator_.all_to_all_uneven(uneven, arriving, mine, sent).wait();
        for (int64_t r = 0; r < size; ++r)
            expect("uneven all-to-all", uneven.narrow(0, r * (r + 1) / 2, r + 1),
                   numbers_.of_rank(r, 0, r + 1));

        at::Tensor from_previous = at::zeros({whole}, options_);
        communicator_.shift({{all(rank), from_previous}}).wait();
        expect("shift", from_previous, all((rank + size - 1) % size));

        at::Tensor received = rank == 0 ? all(7) : at::zeros({whole}, options_);
        communicator_.broadcast(received, 0).wait();
        expect("broadcast", received, all(7));
        return wrong_;
    }

private:
    void expect(const char* operation, const at::Tensor& got, const at::Tensor& wanted) {
        if (!got.equal(wanted))
            wrong_.push_back(format_text("{} over {} gave wrong numbers of type {}", operation,
                                         name_, options_.dtype().name()));
    }

    std::string name_;
    comm::Communicator& communicator_;
    at::TensorOptions options_;
    CheckNumbers numbers_;
    std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> check_communicators(const mesh::Mesh& mesh) {
    const std::pair<const char*, comm::Communicator*> all[] = {
        {"replicate", &mesh.replicate()}, {"ring", &mesh.ring()},   {"ulysses", &mesh.ulysses()},
        {"zero", &mesh.zero()},           {"world", &mesh.world()}, {"experts", &mesh.sections()}};
    std::vector<std::string> wrong;
    for (const auto& [name, communicator] : all)
        for (const auto type : {at::kFloat, at::kBFloat16, at::kLong})
            for (const std::string& line :
                 CommunicatorCheck(name, *communicator,
                                   at::TensorOptions(mesh.device()).dtype(type))
                     .run())
                wrong.push_back(line);
    return wrong;
}

Bandwidth measure_all_reduce(const mesh::Mesh& mesh, int64_t bytes) {
    at::Tensor buffer = at::zeros({bytes / 4}, at::TensorOptions(mesh.device()).dtype(at::kFloat));
    const auto synchronize = [&] { return buffer[0].item<float>(); };
    double best = 1e30;
    for (int repetition = 0; repetition < 5; ++repetition) {
        const Timer timer;
        mesh.world().all_reduce(buffer).wait();
        synchronize();
        best = std::min(best, timer.seconds());
    }
    const double share = 2.0 * (mesh.world().size() - 1) / mesh.world().size();
    return {best * 1e3, share * static_cast<double>(bytes) / best / (1 << 30)};
}

}  // namespace ringshard::cli
