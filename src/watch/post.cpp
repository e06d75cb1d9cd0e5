#include "post.hpp"

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

std::string host_on(const std::string& card) { return card.substr(0, card.find('\t')); }

// What each rank gets to know, from the cards of all: a line with the watchers, and a line with
// rank and card for every rank that it may write to. Empty where there are no cards, off rank 0.
std::vector<std::string> directories(const std::vector<std::string>& cards) {
    std::vector<std::string> hosts;
    std::map<std::string, std::string> of_host;  // lines
    std::string of_all;
    for (size_t rank = 0; rank < cards.size(); ++rank) {
        hosts.push_back(host_on(cards[rank]));
        const std::string line = concat('\n', rank, '\t', cards[rank]);
        of_host[hosts.back()] += line;
        of_all += line;
    }
    const std::vector<size_t> watchers = choose_watchers(hosts);
    std::vector<std::string> numbers;
    for (const size_t watcher : watchers) numbers.push_back(concat(watcher));
    const std::string head = join(numbers, "\t");
    std::vector<std::string> letters;
    for (size_t rank = 0; rank < cards.size(); ++rank) {
        letters.push_back(head + of_host[hosts[rank]]);
        for (const size_t watcher : watchers)
            if (hosts[watcher] != hosts[rank])
                letters.back() += concat('\n', watcher, '\t', cards[watcher]);
    }
    for (const size_t watcher : watchers) letters[watcher] = head + of_all;
    return letters;
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
    const std::vector<std::string> cards = world.gather_to_root(card);
    const std::string letter = world.scatter(directories(cards));
    const std::vector<std::string> lines = split(letter, '\n');
    for (const std::string& watcher : split(lines.front(), '\t'))
        watchers_.push_back(static_cast<size_t>(read_whole_number(watcher).value_or(0)));
    for (size_t i = 1; i < lines.size(); ++i) {
        const size_t end = lines[i].find('\t');
        learn(static_cast<size_t>(read_whole_number(lines[i].substr(0, end)).value_or(0)),
              lines[i].substr(end + 1));
    }
    const auto me = static_cast<size_t>(world.rank());
    if (std::ranges::find(watchers_, me) != watchers_.end())
        for (const auto& [rank, host] : known_) hosts_.push_back(host);
}

void Post::learn(size_t rank, const std::string& card) {
    const std::vector<std::string> fields = split(card, '\t');
    const auto port = static_cast<uint16_t>(read_whole_number(fields[1]).value_or(0));
    std::vector<Address>& places = addresses_[rank];
    // On the same host the way through the network, which may be down, is not needed.
    if (fields[0] == comm::host_name()) places.push_back({htonl(INADDR_LOOPBACK), port});
    for (size_t i = 2; i < fields.size(); ++i)
        places.push_back({static_cast<uint32_t>(read_whole_number(fields[i]).value_or(0)), port});
    known_[rank] = fields[0];
}

Post::~Post() {
    close(socket_);
    close(wakes_);
}

void Post::send(size_t to, std::string_view letter) const {
    const std::string sealed = concat(seal_, to, '\n', letter);
    for (const Address& address : addresses_.at(to)) {
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
