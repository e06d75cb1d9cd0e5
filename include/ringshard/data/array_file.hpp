#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// A file of named arrays that any number of processes write once and every reader then maps into
// memory. Its content: the arrays, each at a multiple of 64 bytes; the list of their chunks; a
// table of contents with a text about the whole file.
struct ArrayPlace {
    std::string name;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // in the file
};

// A range of an array as one call of write() stored it, with its hash.
struct Chunk {
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;   // at most largest_chunk
    uint64_t hash = 0;
};
constexpr uint64_t largest_chunk = uint64_t{1} << 20;

// Returns the number of chunks that a write of so many bytes makes.
constexpr uint64_t chunks_of(uint64_t bytes) { return (bytes + largest_chunk - 1) / largest_chunk; }

// Offsets of everything in a file.
struct ArrayLayout {
    ArrayLayout(std::vector<ArrayPlace> arrays, uint64_t num_chunks);  // sets the offsets

    std::vector<ArrayPlace> arrays;
    uint64_t num_chunks;
    uint64_t chunks_offset;
    uint64_t table_offset() const { return chunks_offset + num_chunks * sizeof(Chunk); }
};

// Writes parts of one file; several processes may write at the same time. The file becomes valid
// when one of them writes the head, at the end.
class ArrayFileWriter {
public:
    // begin() creates the file; the other processes call join() after that.
    static Expected<ArrayFileWriter> begin(const std::filesystem::path& file, ArrayLayout layout);
    static Expected<ArrayFileWriter> join(const std::filesystem::path& file, ArrayLayout layout);

    // `at`: byte offset in the array. Makes chunks_of(bytes.size()) chunks.
    std::optional<Failure> write(const std::string& array, uint64_t at,
                                 std::span<const std::byte> bytes);
    // Writes the list of this process's chunks, from number `first_chunk` of the file's chunks on,
    // and flushes.
    std::optional<Failure> finish_part(uint64_t first_chunk);
    // Sum these over all writers, modulo 2^64, for write_head().
    uint64_t chunk_sum() const { return chunk_sum_; }

    std::optional<Failure> write_head(const std::string& about, uint64_t total_chunk_sum);

private:
    ArrayFileWriter(File file, ArrayLayout layout)
        : file_(std::move(file)), layout_(std::move(layout)) {}
    File file_;
    ArrayLayout layout_;
    std::vector<Chunk> chunks_;
    uint64_t chunk_sum_ = 0;
};

// Input of write_array_file(), which writes a whole file from one process.
struct NamedBytes {
    std::string name;
    std::span<const std::byte> bytes;
};
std::optional<Failure> write_array_file(const std::filesystem::path& file, const std::string& about,
                                        std::span<const NamedBytes> arrays);

class ArrayFile {
public:
    // Fails if the file is not an array file, has another version or is incomplete. Only
    // sum_checked() hashes the content.
    static Expected<ArrayFile> map(const std::filesystem::path& file);

    const std::filesystem::path& name() const { return name_; }
    const std::string& about() const { return about_; }
    bool has(const std::string& name) const;
    template <class T>
    std::span<const T> array(const std::string& name) const {
        const auto bytes = bytes_of(name);
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
    uint64_t offset_of(const std::string& array) const;  // in the file; 0 if there is no such array

    uint64_t num_chunks() const { return num_chunks_; }
    // Hashes the chunks from `first` to `last` (exclusive) and returns their sum; that of all
    // chunks is chunk_sum(), modulo 2^64. Fails if the bytes of a chunk have changed.
    Expected<uint64_t> sum_checked(uint64_t first, uint64_t last) const;
    uint64_t chunk_sum() const { return chunk_sum_; }

    // Keeps the arrays mapped for its lifetime.
    std::shared_ptr<const void> owner() const { return mapping_; }

private:
    std::span<const std::byte> bytes_of(const std::string& name) const;  // empty if it is missing
    const ArrayPlace* find(const std::string& name) const;

    std::filesystem::path name_;
    std::shared_ptr<const std::byte> mapping_;
    std::string about_;
    std::vector<ArrayPlace> arrays_;
    uint64_t num_chunks_ = 0;
    uint64_t chunks_offset_ = 0;
    uint64_t chunk_sum_ = 0;
};

// Formats "<file>: <what>: the file is damaged; remove it, and it is made again".
Failure damaged_data(const std::filesystem::path& file, const std::string& what);

}  // namespace ringshard::data
