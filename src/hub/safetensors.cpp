#include "ringshard/hub/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "ringshard/base/files.hpp"
#include "ringshard/base/narrow.hpp"
#include "ringshard/base/parse_json.hpp"
#include "ringshard/base/shown.hpp"
#include "ringshard/model/conversion.hpp"
#include "stored_type.hpp"

namespace ringshard::hub {

using nlohmann::json;

// A read-only file in memory.
class StoredModel::Mapping {
public:
    explicit Mapping(const std::filesystem::path& file) {
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) return;
        struct stat status {};
        if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
            size_ = static_cast<size_t>(status.st_size);
            void* const address = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
            if (address != MAP_FAILED) address_ = static_cast<const std::byte*>(address);
        }
        ::close(descriptor);
    }
    ~Mapping() {
        if (address_ != nullptr) munmap(const_cast<std::byte*>(address_), size_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    bool is_open() const { return address_ != nullptr; }
    std::span<const std::byte> bytes() const { return {address_, size_}; }

private:
    const std::byte* address_ = nullptr;
    size_t size_ = 0;
};

namespace {

constexpr size_t length_field = 8;
constexpr uint64_t longest_header = 100'000'000;

Failure damaged(const std::filesystem::path& file, const std::string& what) {
    return {ExitCode::bad_data, format_text("{}: {}", file.string(), what)};
}

std::optional<std::vector<int64_t>> read_shape(const json& shape) {
    if (!shape.is_array()) return std::nullopt;
    std::vector<int64_t> sizes;
    int64_t elements = 1;
    for (const json& size : shape) {
        if (!size.is_number_unsigned() || size.get<uint64_t>() > (uint64_t{1} << 40))
            return std::nullopt;
        sizes.push_back(size.get<int64_t>());
        if (__builtin_mul_overflow(elements, sizes.back(), &elements)) return std::nullopt;
    }
    return sizes;
}

// One entry of the header: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
Expected<StoredTensor> read_entry(const json& entry, size_t data_begin, size_t data_size) {
    const auto unreadable = [](const std::string& why) { return Failure{ExitCode::bad_data, why}; };
    if (!entry.is_object()) return unreadable("its entry is not an object");
    const json dtype = entry.value("dtype", json());
    const auto type = read_stored_type(dtype.is_string() ? dtype.get<std::string>() : "");
    if (!type)
        return unreadable(format_text("dtype {} is not a type of safetensors with whole bytes",
                                      shown(dtype.dump())));
    const auto shape = read_shape(entry.value("shape", json()));
    if (!shape) return unreadable("its shape is not a list of sizes");
    const json offsets = entry.value("data_offsets", json());
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
        return unreadable("its data_offsets are not two numbers");
    const auto begin = offsets[0].get<uint64_t>();
    const auto end = offsets[1].get<uint64_t>();
    if (begin > end || end > data_size)
        return unreadable(format_text("its data end at {} and the file's at {}: is the file whole?",
                                      end, data_size));
    if (static_cast<uint64_t>(num_elements(*shape)) > data_size ||
        end - begin != static_cast<uint64_t>(num_elements(*shape)) * bytes_per_element(*type))
        return unreadable(format_text("{} bytes do not fit its shape", end - begin));
    return StoredTensor{
        .type = *type, .shape = *shape, .offset = data_begin + begin, .length = end - begin};
}

// Files of a folder that hold weights: one, or those of the index.
Expected<std::vector<std::string>> weight_files(const std::filesystem::path& folder) {
    if (file_exists(folder / "model.safetensors"))
        return std::vector<std::string>{"model.safetensors"};
    const auto index_file = folder / "model.safetensors.index.json";
    const auto content = read_file(index_file);
    if (!content) return model::no_weights_in(folder);
    const json index = json_or_null<json>(*content);
    const json map = index.is_object() ? index.value("weight_map", json()) : json();
    if (!map.is_object()) return damaged(index_file, "has no weight_map");
    std::set<std::string> files;
    for (const auto& [tensor, file] : map.items()) {
        if (!file.is_string())
            return damaged(index_file, format_text("names no file for {}", tensor));
        const std::filesystem::path name = file.get<std::string>();
        if (name.is_absolute() || std::ranges::find(name, "..") != name.end())
            return damaged(index_file,
                           format_text("{} lies in {}, which may be outside of the model's folder",
                                       tensor, name.string()));
        files.insert(name.string());
    }
    return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace

namespace {

Failure not_there(const std::filesystem::path& file) {
    return {ExitCode::missing_input,
            format_text(
                "{}: there is no such file, it is empty or no regular file, or it cannot be read",
                file.string())};
}

}  // namespace

std::optional<Failure> StoredModel::add_file(const std::filesystem::path& file) {
    const auto mapping = std::make_shared<Mapping>(file);
    if (!mapping->is_open()) return not_there(file);
    const auto bytes = mapping->bytes();
    uint64_t header_length = 0;
    if (bytes.size() >= length_field) std::memcpy(&header_length, bytes.data(), length_field);
    if (bytes.size() < length_field || header_length > longest_header ||
        header_length > bytes.size() - length_field)
        return damaged(file, "is shorter than its header says, or not a safetensors file");
    const auto* const text_begin = reinterpret_cast<const char*>(bytes.data() + length_field);
    const std::string_view text(text_begin, header_length);
    const json header = json_or_null<json>(text);
    if (!header.is_object()) return damaged(file, "has no readable header");

    const size_t data_begin = length_field + header_length;
    std::map<size_t, std::string> by_place;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        auto tensor = read_entry(entry, data_begin, bytes.size() - data_begin);
        if (!tensor) return damaged(file, format_text("{}: {}", name, tensor.failure().message));
        tensor.value().file = files_.size();
        if (!tensors_.emplace(name, tensor.value()).second)
            return damaged(file, format_text("{} stands in two files", name));
        if (tensor.value().length > 0 && !by_place.emplace(tensor.value().offset, name).second)
            return damaged(file, format_text("{} lies where another tensor does", name));
    }
    size_t free_from = data_begin;
    for (const auto& [place, name] : by_place) {
        if (place < free_from)
            return damaged(file, format_text("{} overlaps the tensor before it", name));
        free_from = place + tensors_.at(name).length;
    }
    files_.push_back({file, mapping});
    return std::nullopt;
}

Expected<StoredModel> StoredModel::open(const std::filesystem::path& folder) {
    const auto files = weight_files(folder);
    if (!files) return files.failure();
    StoredModel model;
    for (const std::string& file : files.value())
        if (const auto failure = model.add_file(folder / file)) return *failure;
    return model;
}

std::string StoredModel::to_text() const {
    json files = json::array();
    for (const TensorFile& file : files_) files.push_back(file.name.string());
    json tensors = json::object();
    for (const auto& [name, tensor] : tensors_)
        tensors[name] = {tensor.type, tensor.shape, tensor.file, tensor.offset, tensor.length};
    return json{files, tensors}.dump(-1, ' ', false, json::error_handler_t::replace);
}

StoredModel StoredModel::from_text(const std::string& text) {
    const json read = parse_json<json>(text).value();
    StoredModel model;
    for (const json& file : read[0]) model.files_.push_back({file.get<std::string>(), nullptr});
    for (const auto& [name, tensor] : read[1].items())
        model.tensors_[name] = {tensor[0], tensor[1], tensor[2], tensor[3], tensor[4]};
    return model;
}

comm::Agreed<StoredModel> StoredModel::open(const std::filesystem::path& folder,
                                            const comm::Group& group) {
    return share(group.is_root() ? open(folder) : StoredModel(), group);
}

comm::Agreed<StoredModel> StoredModel::open_file(const std::filesystem::path& file,
                                                 const comm::Group& group) {
    StoredModel model;
    const auto failure = group.is_root() ? model.add_file(file) : std::nullopt;
    return share(failure ? Expected<StoredModel>(*failure) : std::move(model), group);
}

comm::Agreed<StoredModel> StoredModel::share(Expected<StoredModel> of_root,
                                             const comm::Group& group) {
    auto model = comm::agreed(group, std::move(of_root));
    if (!model) return model;
    const std::string list = group.broadcast(group.is_root() ? model.value().to_text() : "");
    return group.is_root() ? std::move(model) : from_text(list);
}

void StoredModel::divide(const std::string& name, const std::vector<Part>& parts) {
    const StoredTensor whole = tensors_.at(name);
    tensors_.erase(name);
    const size_t element = bytes_per_element(whole.type);
    for (const auto& [part_name, shape, first] : parts) {
        StoredTensor part{whole.type, shape, whole.file};
        part.offset = whole.offset + narrow<size_t>(first) * element;
        part.length = narrow<size_t>(num_elements(shape)) * element;
        tensors_[part_name] = std::move(part);
    }
}

void StoredModel::replace(const std::vector<std::string>& others, const std::string& name,
                          std::optional<StoredTensor> tensor) {
    size_t bytes = 0;
    for (const std::string& other : others) {
        const auto found = tensors_.find(other);
        if (found == tensors_.end()) continue;
        bytes += found->second.length;
        tensors_.erase(found);
    }
    if (!tensor) return;
    tensor->length = bytes;
    tensors_[name] = std::move(*tensor);
}

void StoredModel::rename(const NameOf& name_of) {
    for (auto& [stored, tensor] : std::exchange(tensors_, {})) {
        const auto name = name_of(stored);
        (name ? tensors_ : others_).emplace(name.value_or(stored), std::move(tensor));
    }
}

const StoredTensor* StoredModel::find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

// Drops the pages that were read: a mapped page counts as memory of this process from its first
// access on. The page cache may keep it, for other ranks of the host too.
void give_back_pages(std::span<const std::byte> bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = std::bit_cast<uintptr_t>(bytes.data());
    const uintptr_t first = (begin + page - 1) / page * page;
    const uintptr_t end = (begin + bytes.size()) / page * page;
    if (end > first) madvise(std::bit_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace

Expected<std::span<const std::byte>> StoredModel::bytes_of(const StoredTensor& tensor, size_t first,
                                                           size_t length) const {
    const TensorFile& file = files_.at(tensor.file);
    if (!file.mapping) file.mapping = std::make_shared<Mapping>(file.name);
    if (!file.mapping->is_open()) return not_there(file.name);
    const auto bytes = file.mapping->bytes();
    if (tensor.offset + tensor.length > bytes.size())
        return damaged(file.name, "is shorter on this host than rank 0 found it");
    return bytes.subspan(tensor.offset + first, length);
}

std::optional<Failure> StoredModel::read(const StoredTensor& tensor, int64_t first,
                                         std::span<float> into) const {
    if (into.empty()) return std::nullopt;
    if (tensor.decoder) return tensor.decoder->read(*this, first, into);
    const size_t size = bytes_per_element(tensor.type);
    const auto from = bytes_of(tensor, static_cast<size_t>(first) * size, into.size() * size);
    if (!from) return from.failure();
    to_fp32(tensor.type, from.value(), into);
    give_back_pages(from.value());
    return std::nullopt;
}

std::optional<Failure> StoredModel::read_bytes(const StoredTensor& tensor, int64_t first,
                                               std::span<std::byte> into) const {
    if (into.empty()) return std::nullopt;
    const auto from = bytes_of(tensor, static_cast<size_t>(first), into.size());
    if (!from) return from.failure();
    std::ranges::copy(from.value(), into.begin());
    give_back_pages(from.value());
    return std::nullopt;
}

}  // namespace ringshard::hub
