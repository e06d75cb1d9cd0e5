#include "ringshard/hub/passed_hash.hpp"

#include <algorithm>

#include "ringshard/base/hash.hpp"
#include "ringshard/base/text.hpp"

namespace ringshard::hub {

namespace {

// Returns a text with the hash of each stretch of bytes of a tensor.
Expected<std::string> hash_of_bytes(const StoredModel& stored, const StoredTensor& tensor) {
    constexpr size_t at_once = size_t{16} << 20;
    std::string hashes;
    std::vector<std::byte> piece;
    for (size_t done = 0; done < tensor.length; done += piece.size()) {
        piece.resize(std::min(at_once, tensor.length - done));
        if (auto failure = stored.read_bytes(tensor, static_cast<int64_t>(done), piece))
            return *failure;
        hashes += hash_of({reinterpret_cast<const char*>(piece.data()), piece.size()});
    }
    return hashes;
}

}  // namespace

comm::Agreed<std::string> hash_of_passed(const WrappedFiles& wrapped, const comm::Group& group) {
    const std::map<std::string, StoredTensor>& others = wrapped.stored().others();
    std::string mine;  // a line of each tensor of this rank
    std::optional<Failure> failure;
    int64_t number = 0;
    for (const auto& [name, tensor] : others) {
        if (number++ % group.size() != group.rank() || failure) continue;
        const auto hashes = hash_of_bytes(wrapped.stored(), tensor);
        if (hashes)
            mine += format_text("{} {}\n", name, hash_of(hashes.value()));
        else
            failure = hashes.failure();
    }
    if (const auto agreed = comm::first_failure(group, failure)) return *agreed;
    std::vector<std::string> lines;
    for (const std::string& of_rank : group.gather_to_root(mine))
        for (const std::string& line : split(of_rank, '\n')) lines.push_back(line);
    std::ranges::sort(lines);
    std::erase(lines, "");
    return group.broadcast(group.is_root() ? hash_of(join(lines, "\n")) : "");
}

}  // namespace ringshard::hub
