#pragma once

#include "ringshard/offload/offload_store.hpp"
#include "ringshard/offload/scratch_file.hpp"
#include "ringshard/offload/staging.hpp"

namespace ringshard::offload {

// An offload store in a file, for ranks that compute on the CPU. It takes staging buffers from
// `staging`, which several stores may share.
class FileOffloadStore final : public OffloadStore {
public:
    FileOffloadStore(ScratchFile file, Staging staging)
        : file_(std::move(file)), staging_(std::move(staging)) {}

    int64_t reserve(int64_t bytes) override { return file_.reserve(bytes); }
    std::optional<Failure> allocate() override { return file_.allocate(); }
    int64_t bytes() const override { return file_.bytes(); }

    at::Tensor staging_buffer(int64_t elements, at::ScalarType type) override {
        return staging_.take(elements, type);
    }
    void release_free_buffers() override { staging_.release_free(); }

    Transfer read(const at::Tensor& buffer, int64_t bytes, int64_t offset) override {
        return file_.read(pages_of(buffer, bytes), offset);
    }
    Transfer write(const at::Tensor& buffer, int64_t bytes, int64_t offset) override {
        return file_.write(pages_of(buffer, bytes), offset);
    }
    void wait(Transfer transfer) override { file_.wait(transfer); }

    std::string describe() const override { return "a file (" + file_.describe() + ")"; }

private:
    static std::span<std::byte> pages_of(const at::Tensor& buffer, int64_t bytes) {
        return {static_cast<std::byte*>(buffer.data_ptr()),
                static_cast<size_t>(whole_pages(bytes))};
    }

    ScratchFile file_;
    Staging staging_;
};

}  // namespace ringshard::offload
