#include "ringshard/peft/written_adapter.hpp"

#include <set>
#include <utility>

#include "ringshard/peft/named_adapters.hpp"

namespace ringshard::peft {

namespace {

class WrittenAdapter final : public hub::AdapterTensors {
public:
    WrittenAdapter(const std::vector<shard::FlatUnit>& units, NamedVariant variant,
                   const InitialAdapter* initial)
        : variant_(std::move(variant)), initial_(initial) {
        for (const shard::FlatUnit& unit : units)
            for (const shard::PlacedTensor& tensor : unit.tensors())
                if (tensor.is_made_by_run)
                    adapters_.insert(own_name(tensor.spec.name, variant_.name));
    }

    std::optional<Tensor> in_file(const shard::FlatUnit& unit,
                                  const shard::PlacedTensor& tensor) const override {
        if (tensor.begins_before || tensor.variant != variant_.number || !unit.is_trained())
            return std::nullopt;
        const std::string& name = tensor.spec.name;
        return Tensor{name_in_adapter(own_name(name, variant_.name), adapters_),
                      initial_ != nullptr && tensor.is_made_by_run
                          ? InitialAdapter::widened_shape(name, tensor.spec.shape)
                          : tensor.spec.shape};
    }

    std::optional<Failure> write(const std::string& tensor, int64_t first,
                                 std::span<const float> values,
                                 const hub::WriteElements& write) const override {
        return initial_ == nullptr ? write(first, values)
                                   : initial_->write_widened(tensor, first, values, write);
    }

private:
    NamedVariant variant_;
    const InitialAdapter* initial_;
    std::set<std::string> adapters_;  // the names of the tensors of all adapters
};

}  // namespace

std::shared_ptr<const hub::AdapterTensors> written_adapter(
    const std::vector<shard::FlatUnit>& units, NamedVariant variant,
    const InitialAdapter* initial) {
    return std::make_shared<const WrittenAdapter>(units, std::move(variant), initial);
}

}  // namespace ringshard::peft
