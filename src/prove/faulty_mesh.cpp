#include "faulty_mesh.hpp"

#include <ATen/ops/zeros_like.h>

#include <map>
#include <string>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::prove {

namespace {

// Forwards to another communicator. Where a fault says so, zeros are in the place of what this rank
// sends.
class LossyCommunicator final : public comm::Communicator {
public:
    LossyCommunicator(comm::Communicator& wrapped, std::string point, Faults& faults)
        : wrapped_(wrapped), point_(std::move(point)), faults_(faults) {}

    int rank() const override { return wrapped_.rank(); }
    int size() const override { return wrapped_.size(); }
    comm::Pending all_reduce(at::Tensor in_out) override {
        if (loses(in_out)) in_out.zero_();
        return wrapped_.all_reduce(std::move(in_out));
    }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        return wrapped_.all_gather(std::move(out), sent(std::move(in)));
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        return wrapped_.reduce_scatter(std::move(out), sent(std::move(in)));
    }
    comm::Pending all_to_all(at::Tensor out, at::Tensor in) override {
        return wrapped_.all_to_all(std::move(out), sent(std::move(in)));
    }
    comm::Pending all_to_all_uneven(at::Tensor out, comm::RowCounts received, at::Tensor in,
                                    comm::RowCounts counts) override {
        return wrapped_.all_to_all_uneven(std::move(out), std::move(received), sent(std::move(in)),
                                          std::move(counts));
    }
    comm::Pending shift(std::vector<comm::Exchange> exchanges) override {
        if (!exchanges.empty() && loses(exchanges.front().send))
            for (comm::Exchange& exchange : exchanges)
                exchange.send = at::zeros_like(exchange.send);
        return wrapped_.shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor in_out, int root) override {
        if (loses(in_out) && root == rank()) in_out.zero_();
        return wrapped_.broadcast(std::move(in_out), root);
    }

private:
    // Of whole numbers, which are counts, a loss would end the run; errors that matter here are
    // silent.
    bool loses(const at::Tensor& sent) {
        return sent.is_floating_point() &&
               faults_.corruption_at(point_) == Faults::Corruption::drop;
    }
    at::Tensor sent(at::Tensor in) { return loses(in) ? at::zeros_like(in) : std::move(in); }

    comm::Communicator& wrapped_;
    std::string point_;
    Faults& faults_;
};

}  // namespace

std::unique_ptr<mesh::Mesh> faulty_mesh(const mesh::Mesh& mesh, Faults& faults) {
    if (!faults.aims_at("prove:")) return nullptr;
    const std::map<std::string, std::pair<const char*, comm::Communicator*>> groups{
        {"replicate", {"replicate", &mesh.replicate()}},
        {"ring", {"ring", &mesh.ring()}},
        {"ulysses", {"ulysses", &mesh.ulysses()}},
        {"zero", {"zero", &mesh.zero()}},
        {"tensors of all", {"all", &mesh.world()}},
        {"experts", {"experts", &mesh.sections()}},
        {"experts zero", {"experts zero", &mesh.section_zero()}},
        {"experts world", {"experts world", &mesh.section_world()}}};
    return std::make_unique<mesh::Mesh>(
        mesh.shape(), mesh::rank_of(mesh.coordinates(), mesh.shape()), mesh.device(),
        [&](const char* group, int64_t /*rank*/, int64_t /*size*/) {
            const auto& [name, wrapped] = groups.at(group);
            return std::make_unique<LossyCommunicator>(*wrapped, concat("prove:", name), faults);
        });
}

}  // namespace ringshard::prove
