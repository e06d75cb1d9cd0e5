#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringshard/base/files.hpp"

namespace ringshard::data {

// A file of named arrays, made once and then mapped into memory by everybody who reads it: a table
// of contents, a text about the file as a whole, the arrays, each from a multiple of 64 bytes on.
struct ArrayPlace {
    std::string name;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // set by ArrayFileWriter::plan
};

// Several processes may write parts of one file.
class ArrayFileWriter {
public:
    // Sizes the file and writes its head if `writes_head`.
    static Expected<ArrayFileWriter> open(const std::filesystem::path& file,
                                          const std::string& about, std::vector<ArrayPlace> arrays,
                                          bool writes_head);

    // `at`: bytes from the beginning of the array.
    std::optional<Failure> write(const std::string& array, uint64_t at,
                                 std::span<const std::byte> bytes);
    std::optional<Failure> flush() { return file_.flush(); }

private:
    ArrayFileWriter(File file, std::vector<ArrayPlace> arrays)
        : file_(std::move(file)), arrays_(std::move(arrays)) {}
    File file_;
    std::vector<ArrayPlace> arrays_;
};

class ArrayFile {
public:
    // Refuses what is not such a file, is of another version or is not whole.
    static Expected<ArrayFile> map(const std::filesystem::path& file);

    const std::string& about() const { return about_; }
    bool has(const std::string& name) const;
    template <class T>
    std::span<const T> array(const std::string& name) const {
        const auto bytes = bytes_of(name);
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }
    // Keeps the arrays where they are for as long as it lives.
    std::shared_ptr<const void> owner() const { return mapping_; }

private:
    std::span<const std::byte> bytes_of(const std::string& name) const;  // empty if there is none

    std::shared_ptr<const std::byte> mapping_;
    std::string about_;
    std::vector<ArrayPlace> arrays_;
};

}  // namespace ringshard::data
