#pragma once

#include <hdf5.h>

#include <utility>

#include "ringshard/base/error.hpp"

namespace ringshard::checkpoint::hdf5 {

// Owns an HDF5 id.
template <herr_t (*Close)(hid_t)>
class Handle {
public:
    Handle(hid_t id, const char* what) : id_(id) {
        if (id < 0) throw Error(ExitCode::io, format_text("HDF5 could not {}", what));
    }
    ~Handle() {
        if (id_ >= 0) Close(id_);
    }
    Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
    Handle& operator=(Handle&&) = delete;
    operator hid_t() const { return id_; }

    // Closes the id and throws on errors, which the destructor ignores.
    void close(const char* what) {
        if (Close(std::exchange(id_, -1)) < 0)
            throw Error(ExitCode::io, format_text("HDF5 could not {}", what));
    }

private:
    hid_t id_;
};

using FileId = Handle<H5Fclose>;
using GroupId = Handle<H5Gclose>;
using DatasetId = Handle<H5Dclose>;
using SpaceId = Handle<H5Sclose>;
using TypeId = Handle<H5Tclose>;
using PropertiesId = Handle<H5Pclose>;
using AttributeId = Handle<H5Aclose>;

inline void expect(herr_t result, const char* what) {
    if (result < 0) throw Error(ExitCode::io, format_text("HDF5 could not {}", what));
}

}  // namespace ringshard::checkpoint::hdf5
