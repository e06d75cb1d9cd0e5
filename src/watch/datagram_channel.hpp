#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringshard/comm/group.hpp"

namespace ringshard::watch {

// Sends short messages between ranks outside MPI, by UDP over IPv4. The network may lose a message;
// send() and receive() do not block.
class DatagramChannel {
public:
    // Collective over the world.
    explicit DatagramChannel(const comm::Group& world);
    ~DatagramChannel();
    DatagramChannel(const DatagramChannel&) = delete;
    DatagramChannel& operator=(const DatagramChannel&) = delete;

    // Returns the watchers, in the order in which they act.
    const std::vector<size_t>& watchers() const { return watchers_; }
    // Returns the hosts of all ranks, by rank; empty on a rank that is not a watcher.
    const std::vector<std::string>& hosts() const { return hosts_; }
    // Returns the ranks to which this rank can send, with their hosts: the watchers and the ranks
    // of its own host; on a watcher, all ranks.
    const std::map<size_t, std::string>& known() const { return known_; }

    // Requires that `to` is in known().
    void send(size_t to, std::string_view message) const;
    // Returns the next message of this job that has arrived; nothing if there is no message.
    std::optional<std::string> receive() const;
    // Waits until a message arrives, wake() is called, or the time has passed.
    void wait(double seconds) const;
    void wake() const;

private:
    struct Address {
        uint32_t host;  // network byte order, as is port
        uint16_t port;
    };
    void add_endpoint(size_t rank, const std::string& endpoint);

    int socket_ = -1;
    int wake_event_ = -1;
    std::string own_rank_;
    std::string session_id_;  // prefix of all messages of this job
    std::vector<size_t> watchers_;
    std::vector<std::string> hosts_;
    std::map<size_t, std::string> known_;
    std::map<size_t, std::vector<Address>> addresses_;  // of the ranks in known()
};

}  // namespace ringshard::watch
