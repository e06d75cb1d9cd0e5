#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// Short letters between ranks, outside MPI: UDP over IPv4. A letter may be lost; none blocks.
class Post {
public:
    // Collective over the world.
    explicit Post(const comm::Group& world);
    ~Post();
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;

    const std::vector<std::string>& hosts() const { return hosts_; }  // by rank

    void send(size_t to, std::string_view letter) const;
    // The next letter of this job that has arrived.
    std::optional<std::string> receive() const;
    // Until a letter is there, somebody calls wake(), or so much time has passed.
    void wait(double seconds) const;
    void wake() const;

private:
    struct Address {
        uint32_t host;  // both in network order
        uint16_t port;
    };
    int socket_ = -1;
    int wakes_ = -1;
    std::string own_rank_;
    std::string seal_;  // what letters of this job begin with
    std::vector<std::string> hosts_;
    std::vector<std::vector<Address>> addresses_;  // by rank
};

}  // namespace ringshard::watch
