#include "post.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "ringshard/base/text.hpp"
#include "ringshard/comm/agree.hpp"

namespace ringshard::watch {

namespace {

// Where others may reach this host, in network order.
std::vector<uint32_t> own_addresses() {
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

std::string random_seal() {
    std::random_device random;
    return concat("ringshard ", random(), random(), '\n');
}

}  // namespace

// Where there can be no socket nothing is ever received, and nobody is heard.
Post::Post(const comm::Group& world)
    : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      wakes_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      own_rank_(concat(world.rank())),
      seal_(world.broadcast(world.is_root() ? random_seal() : "")) {
    const int wide = 1 << 22;  // bytes: one letter of each of some thousand ranks
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &wide, sizeof(wide));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    bind(socket_, reinterpret_cast<sockaddr*>(&any), sizeof(any));

    std::string card = concat(comm::host_name(), '\t', port_of(socket_));
    for (const uint32_t address : own_addresses()) card += concat('\t', address);
    for (const std::string& theirs : world.gather(card)) {
        const std::vector<std::string> fields = split(theirs, '\t');
        const auto port = static_cast<uint16_t>(read_whole_number(fields[1]).value_or(0));
        std::vector<Address>& places = addresses_.emplace_back();
        // On the same host the way through the network, which may be down, is not needed.
        if (fields[0] == comm::host_name()) places.push_back({htonl(INADDR_LOOPBACK), port});
        for (size_t i = 2; i < fields.size(); ++i)
            places.push_back(
                {static_cast<uint32_t>(read_whole_number(fields[i]).value_or(0)), port});
        hosts_.push_back(fields[0]);
    }
}

Post::~Post() {
    close(socket_);
    close(wakes_);
}

void Post::send(size_t to, std::string_view letter) const {
    const std::string sealed = concat(seal_, to, '\n', letter);
    for (const Address& address : addresses_[to]) {
        sockaddr_in place{};
        place.sin_family = AF_INET;
        place.sin_port = address.port;
        place.sin_addr.s_addr = address.host;
        sendto(socket_, sealed.data(), sealed.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&place), sizeof(place));
        // On one host the first way is enough; between hosts nobody knows which is open.
        if (address.host == htonl(INADDR_LOOPBACK)) return;
    }
}

std::optional<std::string> Post::receive() const {
    constexpr size_t longest = size_t{1} << 16;
    std::array<char, longest> buffer;
    for (;;) {
        const ssize_t size = recv(socket_, buffer.data(), buffer.size(), 0);
        if (size < 0) return std::nullopt;
        std::string_view letter(buffer.data(), static_cast<size_t>(size));
        if (!letter.starts_with(seal_)) continue;
        letter.remove_prefix(seal_.size());
        const size_t end = letter.find('\n');
        // An address may belong to several hosts, and lead back to this one.
        if (end == std::string_view::npos || letter.substr(0, end) != own_rank_) continue;
        return std::string(letter.substr(end + 1));
    }
}

void Post::wait(double seconds) const {
    std::array<pollfd, 2> files{pollfd{socket_, POLLIN, 0}, pollfd{wakes_, POLLIN, 0}};
    poll(files.data(), files.size(), static_cast<int>(std::ceil(seconds * 1000)));
}

void Post::wake() const {
    const uint64_t one = 1;
    if (write(wakes_, &one, sizeof(one)) < 0) return;  // it is awake already
}

}  // namespace ringshard::watch
