#include "datagram_channel.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"
#include "watchers.hpp"

namespace ringshard::watch {

namespace {

// Returns the IPv4 addresses of this host, in network order.
std::vector<uint32_t> local_addresses() {
    std::vector<uint32_t> found;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return found;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
        if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
        sockaddr_in address{};
        std::memcpy(&address, entry->ifa_addr, sizeof(address));
        found.push_back(address.sin_addr.s_addr);
    }
    freeifaddrs(list);
    return found;
}

uint16_t port_of(int socket) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    return address.sin_port;
}

std::string host_on(const std::string& endpoint) { return endpoint.substr(0, endpoint.find('\t')); }

// Returns a text for each rank: a line with the watchers, and a line with rank and endpoint for
// every rank to which it may send. Returns nothing if there are no endpoints, as on ranks other
// than 0.
std::vector<std::string> address_books(const std::vector<std::string>& endpoints) {
    std::vector<std::string> hosts;
    std::map<std::string, std::string> of_host;  // lines
    std::string of_all;
    for (size_t rank = 0; rank < endpoints.size(); ++rank) {
        hosts.push_back(host_on(endpoints[rank]));
        const std::string line = format_text("\n{}\t{}", rank, endpoints[rank]);
        of_host[hosts.back()] += line;
        of_all += line;
    }
    const std::vector<size_t> watchers = choose_watchers(hosts);
    std::vector<std::string> numbers;
    for (const size_t watcher : watchers) numbers.push_back(concat(watcher));
    const std::string head = join(numbers, "\t");
    std::vector<std::string> books;
    for (size_t rank = 0; rank < endpoints.size(); ++rank) {
        books.push_back(head + of_host[hosts[rank]]);
        for (const size_t watcher : watchers)
            if (hosts[watcher] != hosts[rank])
                books.back() += format_text("\n{}\t{}", watcher, endpoints[watcher]);
    }
    for (const size_t watcher : watchers) books[watcher] = head + of_all;
    return books;
}

std::string random_session_id() {
    std::random_device random;
    return format_text("ringshard {}{}\n", random(), random());
}

}  // namespace

// If the host has no sockets, send() and receive() do nothing, and this rank hears no heartbeats.
DatagramChannel::DatagramChannel(const comm::Group& world)
    : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      wake_event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      own_rank_(concat(world.rank())),
      session_id_(world.broadcast(world.is_root() ? random_session_id() : "")) {
    const int wide = 1 << 22;  // bytes: one message from each of a few thousand ranks
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &wide, sizeof(wide));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    bind(socket_, reinterpret_cast<sockaddr*>(&any), sizeof(any));

    std::string endpoint = format_text("{}\t{}", comm::host_name(), port_of(socket_));
    for (const uint32_t address : local_addresses()) endpoint += format_text("\t{}", address);
    const std::vector<std::string> endpoints = world.gather_to_root(endpoint);
    const std::string book = world.scatter(address_books(endpoints));
    const std::vector<std::string> lines = split(book, '\n');
    for (const std::string& watcher : split(lines.front(), '\t'))
        watchers_.push_back(static_cast<size_t>(read_whole_number(watcher).value_or(0)));
    for (size_t i = 1; i < lines.size(); ++i) {
        const size_t end = lines[i].find('\t');
        add_endpoint(static_cast<size_t>(read_whole_number(lines[i].substr(0, end)).value_or(0)),
                     lines[i].substr(end + 1));
    }
    const auto me = static_cast<size_t>(world.rank());
    if (std::ranges::find(watchers_, me) != watchers_.end())
        for (const auto& [rank, host] : known_) hosts_.push_back(host);
}

void DatagramChannel::add_endpoint(size_t rank, const std::string& endpoint) {
    const std::vector<std::string> fields = split(endpoint, '\t');
    const auto port = static_cast<uint16_t>(read_whole_number(fields[1]).value_or(0));
    std::vector<Address>& addresses = addresses_[rank];
    // On the same host use the loopback address: the network may be down.
    if (fields[0] == comm::host_name()) addresses.push_back({htonl(INADDR_LOOPBACK), port});
    for (size_t i = 2; i < fields.size(); ++i)
        addresses.push_back(
            {static_cast<uint32_t>(read_whole_number(fields[i]).value_or(0)), port});
    known_[rank] = fields[0];
}

DatagramChannel::~DatagramChannel() {
    close(socket_);
    close(wake_event_);
}

void DatagramChannel::send(size_t to, std::string_view message) const {
    const std::string datagram = format_text("{}{}\n{}", session_id_, to, message);
    for (const Address& address : addresses_.at(to)) {
        sockaddr_in destination{};
        destination.sin_family = AF_INET;
        destination.sin_port = address.port;
        destination.sin_addr.s_addr = address.host;
        sendto(socket_, datagram.data(), datagram.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&destination), sizeof(destination));
        // On one host the first address is enough; between hosts any of them may be blocked.
        if (address.host == htonl(INADDR_LOOPBACK)) return;
    }
}

std::optional<std::string> DatagramChannel::receive() const {
    constexpr size_t longest = size_t{1} << 16;
    std::array<char, longest> buffer;
    for (;;) {
        const ssize_t size = recv(socket_, buffer.data(), buffer.size(), 0);
        if (size < 0) return std::nullopt;
        std::string_view message(buffer.data(), static_cast<size_t>(size));
        if (!message.starts_with(session_id_)) continue;
        message.remove_prefix(session_id_.size());
        const size_t end = message.find('\n');
        // Several hosts may have the same address, so a message for another rank can arrive here.
        if (end == std::string_view::npos || message.substr(0, end) != own_rank_) continue;
        return std::string(message.substr(end + 1));
    }
}

void DatagramChannel::wait(double seconds) const {
    std::array<pollfd, 2> files{pollfd{socket_, POLLIN, 0}, pollfd{wake_event_, POLLIN, 0}};
    poll(files.data(), files.size(), static_cast<int>(std::ceil(seconds * 1000)));
}

void DatagramChannel::wake() const {
    const uint64_t one = 1;
    if (write(wake_event_, &one, sizeof(one)) < 0) return;  // a wake-up is pending already
}

}  // namespace ringshard::watch
