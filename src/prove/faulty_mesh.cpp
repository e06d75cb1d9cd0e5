#include "faulty_mesh.hpp"

#include <ATen/ops/roll.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <string>
#include <utility>

#include "ringshard/base/text.hpp"

namespace ringshard::prove {

namespace {

using Corruption = Faults::Corruption;

// Forwards to another communicator, and spoils what this rank sends where a fault says so.
class FaultyCommunicator final : public comm::Communicator {
public:
    FaultyCommunicator(comm::Communicator& wrapped, std::string point, Faults& faults)
        : wrapped_(wrapped), point_(std::move(point)), faults_(faults) {}

    int rank() const override { return wrapped_.rank(); }
    int size() const override { return wrapped_.size(); }
    comm::Pending all_reduce(at::Tensor in_out) override {
        const Corruption corruption = next(in_out);
        if (corruption == Corruption::alone) {
            wrapped_.all_reduce(in_out.clone()).wait();
            return {};
        }
        if (corruption != Corruption::none) in_out.copy_(spoiled(in_out, corruption));
        return wrapped_.all_reduce(std::move(in_out));
    }
    comm::Pending all_gather(at::Tensor out, at::Tensor in) override {
        return wrapped_.all_gather(std::move(out), sent(std::move(in)));
    }
    comm::Pending reduce_scatter(at::Tensor out, at::Tensor in) override {
        const Corruption corruption = next(in);
        if (corruption == Corruption::alone) {
            wrapped_.reduce_scatter(at::zeros_like(out), in).wait();
            out.copy_(
                in.flatten().narrow(0, out.numel() * wrapped_.rank(), out.numel()).view_as(out));
            return {};
        }
        return wrapped_.reduce_scatter(std::move(out), spoiled(std::move(in), corruption));
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
        if (!exchanges.empty()) {
            const Corruption corruption = next(exchanges.front().send);
            for (comm::Exchange& exchange : exchanges)
                exchange.send = spoiled(std::move(exchange.send), corruption);
        }
        return wrapped_.shift(std::move(exchanges));
    }
    comm::Pending broadcast(at::Tensor in_out, int root) override {
        const Corruption corruption = next(in_out);
        if (corruption != Corruption::none && root == rank())
            in_out.copy_(spoiled(in_out, corruption));
        return wrapped_.broadcast(std::move(in_out), root);
    }

private:
    // Whole numbers are counts: a point of their own.
    Corruption next(const at::Tensor& sent) {
        return faults_.corruption_at(sent.is_floating_point() ? point_ : point_ + " counts");
    }
    at::Tensor sent(at::Tensor in) {
        const Corruption corruption = next(in);
        return spoiled(std::move(in), corruption);
    }
    at::Tensor spoiled(at::Tensor in, Corruption corruption) {
        switch (corruption) {
            case Corruption::drop: return at::zeros_like(in);
            case Corruption::twice: return in.mul(2);
            case Corruption::scale: return in.mul(1.5);
            case Corruption::swap: return at::roll(in.flatten(), in.numel() / size()).view_as(in);
            case Corruption::stale: return exchange_for_earlier(std::move(in));
            case Corruption::none:
            case Corruption::alone: return in;  // the latter of what is no sum
            case Corruption::flip:
            case Corruption::nan: break;
        }
        throw Error(ExitCode::settings,
                    format_text("RINGSHARD_FAULT: {} does not spoil this operation", point_));
    }
    // Returns what this rank sent when it last sent as many numbers of this type.
    at::Tensor exchange_for_earlier(at::Tensor in) {
        at::Tensor& kept = earlier_[{in.numel(), in.scalar_type()}];
        at::Tensor earlier = kept.defined() ? kept.view_as(in) : in;
        kept = in.clone();
        return earlier;
    }

    comm::Communicator& wrapped_;
    std::string point_;
    Faults& faults_;
    std::map<std::pair<int64_t, at::ScalarType>, at::Tensor> earlier_;
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
            return std::make_unique<FaultyCommunicator>(*wrapped, concat("prove:", name), faults);
        });
}

}  // namespace ringshard::prove
