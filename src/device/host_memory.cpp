#include "ringshard/device/host_memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "memory_marks.hpp"

namespace ringshard::device {

namespace {

// Blocks come in sizes of eight steps per power of two, so that a freed block serves tensors of
// nearly its size too. Pages of a block that its tensor does not touch take no memory.
struct SizeClass {
    // For at least `bytes`.
    explicit SizeClass(size_t bytes) {
        constexpr size_t smallest = 128;
        const auto power = static_cast<size_t>(std::bit_width(std::max(bytes, smallest) - 1)) - 1;
        const size_t step = size_t{1} << (power - 3);
        const size_t steps = (std::max(bytes, smallest) + step - 1) / step;  // 8 < steps <= 16
        size = steps * step;
        index = power * 8 + steps - 9;
    }
    static constexpr size_t count = 8 * 64;
    size_t size;
    size_t index;
};

// From this size on, blocks are mapped by themselves and go back to the system one by one.
constexpr size_t large = size_t{256} << 10;
// From this size on, they are cut from huge pages where the system has them: fewer faults and fewer
// misses of the address cache.
constexpr size_t huge_page = size_t{2} << 20;
// Large blocks that are kept may make more than the live ones ever did, by this much.
constexpr size_t slack = size_t{64} << 20;
// The tensor's numbers begin here, behind the block's own, at the start of a cache line.
constexpr size_t header = 64;

struct Block {
    size_t asked_for;  // by the tensor, bytes
    size_t size_class_bytes;
    Block* next;  // of its size that is free
};
static_assert(sizeof(Block) <= header);

// The C library need not give out other sizes at the start of a cache line.
constexpr size_t whole_lines(size_t bytes) { return (bytes + header - 1) / header * header; }

void* numbers_of(Block* block) { return reinterpret_cast<char*>(block) + header; }
Block* block_of(void* numbers) {
    return reinterpret_cast<Block*>(static_cast<char*>(numbers) - header);
}

// So many of the tensor's bytes are in use, and the rest of the block is not.
void mark(Block* block, size_t bytes) {
    mark_unused(block + 1, block->size_class_bytes - sizeof(Block));
    mark_used(numbers_of(block), bytes);
}

// Fresh from the system, or null.
Block* map_block(size_t size) {
    const size_t alignment = size >= huge_page ? huge_page : 0;
    void* const mapped =
        mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    if (alignment == 0) return static_cast<Block*>(mapped);
    char* const begin = static_cast<char*>(mapped);
    const size_t before = (alignment - std::bit_cast<uintptr_t>(begin) % alignment) % alignment;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + size, alignment - before);
    madvise(begin + before, size, MADV_HUGEPAGE);  // a wish: without huge pages it works too
    return reinterpret_cast<Block*>(begin + before);
}

class HostMemory final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        if (bytes == 0) return {nullptr, nullptr, &free_numbers, c10::Device(c10::kCPU)};
        void* const numbers = numbers_of(take(bytes));
        return {numbers, numbers, &free_numbers, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_numbers; }
    void copy_data(void* into, const void* from, size_t bytes) const override {
        std::memcpy(into, from, bytes);
    }

    HostMemoryUse use() {
        const std::lock_guard lock(mutex_);
        return use_;
    }
    void restart_peak() {
        const std::lock_guard lock(mutex_);
        use_.peak = use_.live;
    }

    void count(int64_t bytes) {
        const std::lock_guard lock(mutex_);
        use_.live += bytes;
        use_.peak = std::max(use_.peak, use_.live);
    }

    // Tensors may be freed until the very end of the process, so it is never destroyed.
    static HostMemory& instance() {
        static HostMemory* const memory = new HostMemory;
        return *memory;
    }

private:
    static void free_numbers(void* numbers) {
        if (numbers != nullptr) instance().give_back(block_of(numbers));
    }

    Block* take(size_t bytes) {
        const SizeClass size_class(bytes + header);
        const std::lock_guard lock(mutex_);
        Block*& list = free_[size_class.index];
        Block* block = list;
        if (block != nullptr) {
            list = block->next;
            if (size_class.size >= large) kept_ -= size_class.size;
        } else if (size_class.size >= large) {
            block = take_large(size_class.size);
        } else {
            block = static_cast<Block*>(std::aligned_alloc(header, whole_lines(size_class.size)));
        }
        if (block == nullptr) throw std::bad_alloc();
        *block = {bytes, size_class.size, nullptr};
        mark(block, bytes);
        if (size_class.size >= large) in_use_ += size_class.size;
        most_in_use_ = std::max(most_in_use_, in_use_);
        use_.live += static_cast<int64_t>(bytes);
        use_.peak = std::max(use_.peak, use_.live);
        return block;
    }

    Block* take_large(size_t size) {
        const size_t allowed = std::max(most_in_use_, in_use_ + size) + slack;
        release_until_kept(allowed - in_use_ - size);
        Block* block = map_block(size);
        if (block == nullptr) {  // the kept blocks may be the memory that is missing
            release_until_kept(0);
            block = map_block(size);
        }
        return block;
    }

    // Largest first.
    void release_until_kept(size_t most) {
        for (size_t i = free_.size(); i-- > 0 && kept_ > most;) {
            while (free_[i] != nullptr && kept_ > most) {
                Block* const block = free_[i];
                if (block->size_class_bytes < large) return;
                free_[i] = block->next;
                kept_ -= block->size_class_bytes;
                mark_used(block, block->size_class_bytes);
                munmap(block, block->size_class_bytes);
            }
        }
    }

    void give_back(Block* block) {
        const std::lock_guard lock(mutex_);
        use_.live -= static_cast<int64_t>(block->asked_for);
        const SizeClass size_class(block->size_class_bytes);
        mark(block, 0);
        block->next = free_[size_class.index];
        free_[size_class.index] = block;
        if (size_class.size >= large) {
            in_use_ -= size_class.size;
            kept_ += size_class.size;
        }
    }

    std::mutex mutex_;
    std::array<Block*, SizeClass::count> free_{};
    size_t in_use_ = 0;  // of large blocks, like the next two
    size_t most_in_use_ = 0;
    size_t kept_ = 0;
    HostMemoryUse use_;
};

// Gives out nothing, and counts it.
class ImaginaryMemory final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        HostMemory::instance().count(static_cast<int64_t>(bytes));
        return {nullptr, new size_t(bytes), &give_up, c10::Device(c10::kMeta)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void*, const void*, size_t) const override {}

private:
    static void give_up(void* context) {
        const auto* const bytes = static_cast<size_t*>(context);
        HostMemory::instance().count(-static_cast<int64_t>(*bytes));
        delete bytes;
    }
};

}  // namespace

void count_imaginary_memory() {
    static ImaginaryMemory memory;
    c10::SetAllocator(c10::kMeta, &memory);
}
void keep_host_memory() { c10::SetCPUAllocator(&HostMemory::instance()); }
HostMemoryUse host_memory_use() { return HostMemory::instance().use(); }
void restart_host_memory_peak() { HostMemory::instance().restart_peak(); }

}  // namespace ringshard::device
