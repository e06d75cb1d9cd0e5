// libFuzzer: a model.safetensors. Every element of an accepted file can be read.
#include "fuzz_folder.hpp"
#include "ringshard/hub/safetensors.hpp"
#include "stored_type.hpp"

int try_reader(const uint8_t* data, size_t size) {
    using namespace ringshard;
    static const test::FuzzFolder folder;
    folder.write("model.safetensors", test::text_of(data, size));
    const auto model = hub::StoredModel::open(folder.path());
    if (!model) return 0;
    for (const auto& [name, tensor] : model.value().tensors()) {
        if (!hub::can_be_weight(tensor.type)) continue;
        int64_t count = 1;
        for (const int64_t length : tensor.shape) count *= length;
        std::vector<float> elements(static_cast<size_t>(count));
        if (model.value().read(tensor, 0, elements)) return 1;
    }
    return 0;
}
