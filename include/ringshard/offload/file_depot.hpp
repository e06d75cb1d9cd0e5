#pragma once

#include "ringshard/offload/depot.hpp"
#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::offload {

// A depot in a file, for ranks that compute on the CPU. Rooms are of the memory of `rooms`, which
// several may share.
class FileDepot final : public Depot {
public:
    FileDepot(ScratchFile file, Staging rooms) : file_(std::move(file)), rooms_(std::move(rooms)) {}

    int64_t reserve(int64_t bytes) override { return file_.reserve(bytes); }
    std::optional<Failure> allocate() override { return file_.allocate(); }
    int64_t bytes() const override { return file_.bytes(); }

    at::Tensor room(int64_t elements, at::ScalarType type) override {
        return rooms_.take(elements, type);
    }
    void forget_free_rooms() override { rooms_.forget_free(); }

    Transfer read(const at::Tensor& room, int64_t bytes, int64_t offset) override {
        return file_.read(pages_of(room, bytes), offset);
    }
    Transfer write(const at::Tensor& room, int64_t bytes, int64_t offset) override {
        return file_.write(pages_of(room, bytes), offset);
    }
    void wait(Transfer transfer) override { file_.wait(transfer); }

    std::string describe() const override { return "a file (" + file_.describe() + ")"; }

private:
    static std::span<std::byte> pages_of(const at::Tensor& room, int64_t bytes) {
        return {static_cast<std::byte*>(room.data_ptr()), static_cast<size_t>(whole_pages(bytes))};
    }

    ScratchFile file_;
    Staging rooms_;
};

}  // namespace ringshard::offload
