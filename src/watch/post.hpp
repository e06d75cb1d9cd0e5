#pragma once

#include <cstdint>
#include <map>
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

    // Ranks that watch over all, in the order in which they act.
    const std::vector<size_t>& watchers() const { return watchers_; }
    // Hosts by rank, of all ranks: on watchers alone.
    const std::vector<std::string>& hosts() const { return hosts_; }
    // Ranks that this one can write to, and their hosts: the watchers and the ranks of its own
    // host, and on a watcher all ranks.
    const std::map<size_t, std::string>& known() const { return known_; }

    // `to` is known.
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
    void learn(size_t rank, const std::string& card);

    int socket_ = -1;
    int wakes_ = -1;
    std::string own_rank_;
    std::string seal_;  // what letters of this job begin with
    std::vector<size_t> watchers_;
    std::vector<std::string> hosts_;
    std::map<size_t, std::string> known_;
    std::map<size_t, std::vector<Address>> addresses_;  // of those that are known
};

}  // namespace ringshard::watch
