#include "ringshard/checkpoint/state_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "hdf5_elements.hpp"
#include "ringshard/base/files.hpp"
#include "ringshard/base/utf8.hpp"

namespace ringshard::checkpoint {

using namespace hdf5;

namespace {

const char* const text_group = "/text";

PropertiesId file_access() {
    PropertiesId properties(H5Pcreate(H5P_FILE_ACCESS), "make properties");
    // Datasets begin at pages, so that ranks share only the first and last page of their ranges.
    expect(H5Pset_alignment(properties, 4096, 4096), "set the alignment");
    expect(H5Pset_file_locking(properties, false, true),
           "switch off locks");  // shared file systems may not have them
    return properties;
}

// Tracks the creation order of names, in which Python then lists them.
PropertiesId group_creation() {
    PropertiesId properties(H5Pcreate(H5P_GROUP_CREATE), "make properties");
    expect(H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
           "keep the order");
    return properties;
}

std::string parent_of(const std::string& name) { return name.substr(0, name.rfind('/')); }

void make_groups(const FileId& file, const std::string& name, std::map<std::string, bool>& made) {
    if (name.empty() || made[name]) return;
    make_groups(file, parent_of(name), made);
    GroupId(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, group_creation(), H5P_DEFAULT),
            "make a group");
    made[name] = true;
}

DatasetId make_dataset(const FileId& file, const DatasetSpec& spec,
                       const PropertiesId& properties) {
    return {H5Dcreate2(file, spec.name.c_str(), type_of(spec.type), space_of(spec.shape),
                       H5P_DEFAULT, properties, H5P_DEFAULT),
            "make a dataset"};
}

int64_t make_contiguous(const FileId& file, const DatasetSpec& spec) {
    const PropertiesId properties(H5Pcreate(H5P_DATASET_CREATE), "make properties");
    expect(H5Pset_layout(properties, H5D_CONTIGUOUS), "choose the layout");
    expect(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY), "allocate early");
    expect(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER), "leave out filling");
    const DatasetId dataset = make_dataset(file, spec, properties);
    const haddr_t offset = H5Dget_offset(dataset);
    if (offset == HADDR_UNDEF)
        throw Error(ExitCode::io, format_text("HDF5 gave no place to {}", spec.name));
    return static_cast<int64_t>(offset);
}

// A range of a tensor need not be a box, but HDF5 maps boxes.
void make_virtual(const FileId& file, const DatasetSpec& spec,
                  const std::vector<PartElsewhere>& parts) {
    const PropertiesId properties(H5Pcreate(H5P_DATASET_CREATE), "make properties");
    for (const PartElsewhere& part : parts) {
        int64_t there = part.first_there;
        for (const Box& box : boxes_of(spec.shape, part.first, part.count)) {
            int64_t count = 1;
            for (const hsize_t size : box.size) count *= static_cast<int64_t>(size);
            expect(H5Pset_virtual(properties, choose(spec.shape, box), part.file.c_str(),
                                  spec.name.c_str(),
                                  choose({part.size_there}, std::vector<Elements>{{there, count}})),
                   "map a part");
            there += count;
        }
    }
    make_dataset(file, spec, properties);
}

TypeId text_type(size_t length) {
    TypeId type(H5Tcopy(H5T_C_S1), "make a type");
    expect(H5Tset_size(type, length), "set the length of a text");
    expect(H5Tset_cset(type, H5T_CSET_UTF8), "set the characters of a text");
    expect(H5Tset_strpad(type, H5T_STR_NULLPAD), "set the padding of a text");
    return type;
}

void write_text(const FileId& file, const std::string& name, const std::string& content) {
    const TypeId type = text_type(std::max<size_t>(1, content.size()));
    const SpaceId space(H5Screate(H5S_SCALAR), "make a shape");
    const DatasetId dataset(H5Dcreate2(file, (std::string(text_group) + "/" + name).c_str(), type,
                                       space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                            "make a text");
    const std::string padded = content.empty() ? std::string(1, '\0') : content;
    expect(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded.data()), "write a text");
}

void write_number(const FileId& file, const std::string& name, int64_t value) {
    const SpaceId space(H5Screate(H5S_SCALAR), "make a shape");
    const AttributeId attribute(
        H5Acreate2(file, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT),
        "make an attribute");
    expect(H5Awrite(attribute, H5T_NATIVE_INT64, &value), "write an attribute");
}

constexpr size_t longest_text = size_t{64} << 20;

std::string read_text(const DatasetId& dataset, const std::string& name) {
    const TypeId type(H5Dget_type(dataset), "read a type");
    const SpaceId space(H5Dget_space(dataset), "read a shape");
    const size_t size = H5Tget_size(type);
    if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 ||
        H5Sget_simple_extent_npoints(space) != 1 || size > longest_text)
        throw Error(ExitCode::bad_data, format_text("{} is not one text of fixed length", name));
    std::string content(size, '\0');
    expect(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data()), "read a text");
    content.resize(std::min(content.find('\0'), content.size()));
    if (!is_utf8(content)) throw Error(ExitCode::bad_data, format_text("{} is not UTF-8", name));
    return content;
}

std::vector<int64_t> shape_of(const DatasetId& dataset) {
    const SpaceId space(H5Dget_space(dataset), "read a shape");
    std::vector<hsize_t> sizes(static_cast<size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
    expect(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), "read a shape");
    return {sizes.begin(), sizes.end()};
}

// More than any model has: in a damaged file a group may contain itself, an endless cycle.
constexpr int64_t most_objects = 1'000'000;
constexpr size_t longest_name = 1024;

struct Listing {
    std::vector<std::string> datasets;
    int64_t num_objects = 0;
};

// HDF5 calls it, and no exception may pass through HDF5.
herr_t note_object(hid_t, const char* name, const H5O_info_t* info, void* into) noexcept {
    Listing& listing = *static_cast<Listing*>(into);
    if (info->type == H5O_TYPE_DATASET) listing.datasets.emplace_back(name);
    const bool goes_round =
        ++listing.num_objects > most_objects || std::strlen(name) > longest_name;
    return goes_round ? -1 : 0;
}
herr_t note_attribute(hid_t, const char* name, const H5A_info_t*, void* names) noexcept {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
}

void read_dataset(const FileId& file, const std::string& name, StateFile& found) {
    const DatasetId dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), "open a dataset");
    if (parent_of(name) == text_group) {
        found.texts[name.substr(name.rfind('/') + 1)] = read_text(dataset, name);
        return;
    }
    const TypeId type(H5Dget_type(dataset), "read a type");
    constexpr std::array known{ElementType::fp32, ElementType::bf16, ElementType::u8};
    const auto* const found_type = std::ranges::find_if(
        known, [&](ElementType one) { return H5Tequal(type, type_of(one)) > 0; });
    if (found_type == known.end())
        throw Error(ExitCode::bad_data,
                    format_text("{} holds neither fp32, bf16 nor 8-bit numbers", name));
    const PropertiesId properties(H5Dget_create_plist(dataset), "read properties");
    const bool is_virtual = H5Pget_layout(properties) == H5D_VIRTUAL;
    const haddr_t offset = is_virtual ? HADDR_UNDEF : H5Dget_offset(dataset);
    if (!is_virtual && offset == HADDR_UNDEF)
        throw Error(ExitCode::bad_data, format_text("{} is not contiguous", name));
    found.datasets[name] = {shape_of(dataset), *found_type,
                            is_virtual ? StateFile::elsewhere : static_cast<int64_t>(offset)};
}

// A value that is not a whole number comes from another program.
void read_number(const FileId& file, const std::string& name, StateFile& found) {
    const AttributeId attribute(H5Aopen(file, name.c_str(), H5P_DEFAULT), "open an attribute");
    const TypeId type(H5Aget_type(attribute), "read a type");
    const SpaceId space(H5Aget_space(attribute), "read a shape");
    if (H5Tget_class(type) != H5T_INTEGER || H5Tget_size(type) != sizeof(int64_t) ||
        H5Sget_simple_extent_npoints(space) != 1)
        return;
    int64_t value = 0;
    expect(H5Aread(attribute, H5T_NATIVE_INT64, &value), "read an attribute");
    found.numbers[name] = value;
}

}  // namespace

std::optional<int64_t> bytes_of(const StateFile::Placed& placed) {
    int64_t bytes = bytes_of(placed.type);
    for (const int64_t size : placed.shape)
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
    return bytes;
}

namespace {

[[noreturn]] void throw_not_written() {
    throw Error(ExitCode::io, format_text("cannot be written: {}", std::strerror(errno)));
}

// Copies all of `from` except its holes.
void copy_what_is_written(int from, int into) {
    std::array<std::byte, size_t{1} << 16> buffer{};
    const off_t end = lseek(from, 0, SEEK_END);
    for (off_t at = lseek(from, 0, SEEK_DATA); at >= 0 && at < end;
         at = lseek(from, at, SEEK_DATA)) {
        const off_t hole = lseek(from, at, SEEK_HOLE);
        while (at < hole) {
            const auto wanted = std::min<off_t>(hole - at, buffer.size());
            const ssize_t got = pread(from, buffer.data(), static_cast<size_t>(wanted), at);
            if (got <= 0) throw_not_written();
            const ssize_t put = pwrite(into, buffer.data(), static_cast<size_t>(got), at);
            if (put <= 0) throw_not_written();
            at += put;
        }
    }
    if (ftruncate(into, end) != 0) throw_not_written();
}

class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {
        if (number < 0) throw_not_written();
    }
    ~Descriptor() { close(number_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }

private:
    int number_;
};

// A file during creation. HDF5 lays it out in memory, where the elements, which ranks write later,
// are a hole; finish() copies the layout to disk. Reason: if HDF5 cannot close a file on a full
// disk, it keeps the file and crashes when MPI ends.
class NewFile {
public:
    explicit NewFile(const std::filesystem::path& file)
        : disk_(open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)),
          memory_(memfd_create("layout of a checkpoint", MFD_CLOEXEC)),
          id_(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, file_access()), "make the file") {
        void* handle = nullptr;  // the descriptor of HDF5's default driver
        expect(H5Fget_vfd_handle(id_, H5P_DEFAULT, &handle), "lend its descriptor");
        copy_what_is_written(disk_.number(), memory_.number());
        if (dup2(memory_.number(), *static_cast<int*>(handle)) < 0) throw_not_written();
    }

    operator const FileId&() const { return id_; }
    void finish() {
        id_.close("close the file");
        copy_what_is_written(memory_.number(), disk_.number());
    }

private:
    Descriptor disk_;
    Descriptor memory_;
    FileId id_;
};

// HDF5 cannot close a file that the system does not let grow, and crashes when MPI ends: a limit
// (ulimit -f) is met before that. Its own bytes: about 1 KiB for each dataset and text.
void check_size_limit(const std::vector<DatasetSpec>& datasets,
                      const std::map<std::string, std::string>& texts, bool holds_elements) {
    constexpr int64_t of_each = 4096;
    int64_t bytes = int64_t{1} << 20;
    for (const DatasetSpec& spec : datasets) {
        const auto elements = bytes_of(StateFile::Placed{spec.shape, spec.type, 0});
        bytes += of_each + (holds_elements ? elements.value_or(0) : 0);
    }
    for (const auto& [name, text] : texts) bytes += of_each + std::ssize(text);
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    if (static_cast<uint64_t>(bytes) > limit.rlim_cur)
        throw Error(ExitCode::io,
                    format_text("would have about {} bytes, and this process may write files of {} "
                                "bytes at most; raise the limit (ulimit -f)",
                                bytes, limit.rlim_cur));
}

void write_small_things(const FileId& file, const std::map<std::string, int64_t>& numbers,
                        const std::map<std::string, std::string>& texts,
                        std::map<std::string, bool>& groups) {
    make_groups(file, text_group, groups);
    for (const auto& [name, content] : texts) write_text(file, name, content);
    for (const auto& [name, value] : numbers) write_number(file, name, value);
}

}  // namespace

Expected<StateFile> create_state_file(const std::filesystem::path& file,
                                      const std::vector<DatasetSpec>& datasets,
                                      const std::map<std::string, int64_t>& numbers,
                                      const std::map<std::string, std::string>& texts) {
    return with_failure_as_value(file, [&] {
        check_size_limit(datasets, texts, true);
        NewFile id(file);
        StateFile made{{}, numbers, texts};
        std::map<std::string, bool> groups;
        for (const DatasetSpec& spec : datasets) {
            make_groups(id, parent_of(spec.name), groups);
            made.datasets[spec.name] = {spec.shape, spec.type, make_contiguous(id, spec)};
        }
        write_small_things(id, numbers, texts, groups);
        id.finish();
        return made;
    });
}

std::optional<Failure> create_master_file(
    const std::filesystem::path& file, const std::vector<DatasetSpec>& datasets,
    const std::map<std::string, std::vector<PartElsewhere>>& parts,
    const std::map<std::string, int64_t>& numbers,
    const std::map<std::string, std::string>& texts) {
    const auto made = with_failure_as_value(file, [&] {
        check_size_limit(datasets, texts, false);
        NewFile id(file);
        std::map<std::string, bool> groups;
        for (const DatasetSpec& spec : datasets) {
            make_groups(id, parent_of(spec.name), groups);
            make_virtual(id, spec, parts.at(spec.name));
        }
        write_small_things(id, numbers, texts, groups);
        id.finish();
        return true;
    });
    return made ? std::nullopt : std::optional(made.failure());
}

Expected<StateFile> open_state_file(const std::filesystem::path& file) {
    if (!file_exists(file))
        return Failure{ExitCode::missing_input,
                       format_text("{}: there is no such file", file.string())};
    return with_failure_as_value(file, [&] {
        const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDONLY, file_access());
        if (opened < 0)
            throw Error(ExitCode::bad_data, "HDF5 could not open the file: is it whole?");
        const FileId id(opened, "open the file");
        Listing listing;
        std::vector<std::string> attributes;
        expect(H5Ovisit(id, H5_INDEX_NAME, H5_ITER_NATIVE, note_object, &listing), "list the file");
        expect(H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note_attribute, &attributes),
               "read the attributes");
        for (const auto* names : {&listing.datasets, &attributes})
            if (!std::ranges::all_of(*names, is_utf8))
                throw Error(ExitCode::bad_data, "holds names that are not UTF-8");
        StateFile found;
        for (const std::string& name : listing.datasets) read_dataset(id, "/" + name, found);
        for (const std::string& name : attributes) read_number(id, name, found);
        return found;
    });
}

}  // namespace ringshard::checkpoint
