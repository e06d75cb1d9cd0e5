#include "counting_communicator.hpp"

#include <memory>

namespace ringshard::plan {

namespace {

class Kept final : public comm::Completion {
public:
    explicit Kept(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}
    void wait() override { tensors_.clear(); }

private:
    std::vector<at::Tensor> tensors_;
};

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

comm::Pending CountingCommunicator::count(std::vector<at::Tensor> tensors, int64_t bytes) {
    if (size() == 1) return {};
    traffic_.operations += 1;
    traffic_.bytes += bytes;
    return comm::Pending(std::make_unique<Kept>(std::move(tensors)));
}

comm::Pending CountingCommunicator::all_reduce(at::Tensor in_out) {
    return count({in_out}, 2 * bytes_of(in_out) * (size() - 1) / size());
}

comm::Pending CountingCommunicator::all_gather(at::Tensor out, at::Tensor in) {
    return count({out, in}, bytes_of(in) * (size() - 1));
}

comm::Pending CountingCommunicator::reduce_scatter(at::Tensor out, at::Tensor in) {
    return count({out, in}, bytes_of(out) * (size() - 1));
}

comm::Pending CountingCommunicator::all_to_all(at::Tensor out, at::Tensor in) {
    return count({out, in}, bytes_of(in) * (size() - 1) / size());
}

comm::Pending CountingCommunicator::all_to_all_uneven(at::Tensor out, comm::RowCounts,
                                                      at::Tensor in, comm::RowCounts sent) {
    const int64_t rows = in.size(0) - sent[static_cast<size_t>(rank_)];
    const int64_t bytes = in.size(0) == 0 ? 0 : bytes_of(in) / in.size(0) * rows;
    return count({out, in}, bytes);
}

comm::Pending CountingCommunicator::shift(std::vector<comm::Exchange> exchanges) {
    std::vector<at::Tensor> tensors;
    int64_t bytes = 0;
    for (const comm::Exchange& exchange : exchanges) {
        tensors.push_back(exchange.send);
        tensors.push_back(exchange.receive);
        bytes += bytes_of(exchange.send);
    }
    return count(std::move(tensors), bytes);
}

comm::Pending CountingCommunicator::broadcast(at::Tensor in_out, int) {
    return count({in_out}, bytes_of(in_out));
}

}  // namespace ringshard::plan
