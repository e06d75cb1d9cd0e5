#include "golden.hpp"

#include <ATen/ATen.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ringshard::test {

std::filesystem::path golden_folder() {
    const char* const elsewhere = std::getenv("RINGSHARD_GOLDEN_FOLDER");
    return elsewhere == nullptr ? RINGSHARD_GOLDEN_FOLDER : elsewhere;
}

namespace {

at::ScalarType type_of(const std::string& name) {
    if (name == "F32") return at::kFloat;
    if (name == "F64") return at::kDouble;
    if (name == "BF16") return at::kBFloat16;
    if (name == "I64") return at::kLong;
    if (name == "U8") return at::kByte;
    throw std::runtime_error("a golden of type " + name);
}

}  // namespace

std::map<std::string, at::Tensor> read_golden(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw std::runtime_error("no golden " + file.string());
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    uint64_t header_length = 0;
    std::memcpy(&header_length, bytes.data(), 8);
    const auto header = nlohmann::json::parse(bytes.substr(8, header_length));
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        const std::vector<int64_t> shape = entry["shape"];
        at::Tensor tensor = at::empty(shape, type_of(entry["dtype"]));
        std::memcpy(tensor.data_ptr(),
                    bytes.data() + 8 + header_length + entry["data_offsets"][0].get<size_t>(),
                    static_cast<size_t>(tensor.nbytes()));
        tensors[name] = tensor;
    }
    return tensors;
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
    const double scale = b.to(at::kDouble).norm().item<double>();
    const double distance = (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
    return scale == 0 ? distance : distance / scale;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
    return a.numel() == 0 ? 0 : (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace ringshard::test
