#pragma once

#include <hwloc.h>

#include <memory>

#include "ringshard/device/binding.hpp"

namespace ringshard::device {

using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;
Bitmap make_bitmap();
std::string to_text(const Bitmap& bitmap);  // "0-3,8"

// The processors of this host, also those that control groups keep from this process.
class Topology {
public:
    Topology();
    explicit Topology(const char* synthetic);  // of a host that is described: hwloc(7)
    ~Topology() { hwloc_topology_destroy(handle_); }
    Topology(const Topology&) = delete;
    Topology& operator=(const Topology&) = delete;

    hwloc_topology_t handle() const { return handle_; }
    int64_t count(hwloc_obj_type_t type) const;
    Bitmap threads_of_process() const;
    Binding binding(const Bitmap& threads) const;

private:
    Bitmap numbers_of(hwloc_obj_type_t type, hwloc_const_cpuset_t threads) const;
    hwloc_topology_t handle_ = nullptr;
};

}  // namespace ringshard::device
