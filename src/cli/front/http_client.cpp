#include "http_client.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "ringshard/base/text.hpp"

namespace ringshard::cli {

namespace {

constexpr time_t most_seconds = 120;  // without a byte: a server may load kernels at first
constexpr size_t most_bytes = size_t{64} << 20;

Failure no_answer(const HttpServer& server, const std::string& why) {
    return {ExitCode::missing_input,
            format_text("url = {}: {}; start the server there before, or name the address on which "
                        "it listens",
                        server.url(), why)};
}

Failure no_http(const HttpServer& server) {
    return {ExitCode::bad_data,
            format_text("url = {}: what answers there does not speak HTTP/1.1; name the address of "
                        "a server of vLLM, SGLang or llama.cpp",
                        server.url())};
}

class Socket {
public:
    Socket() = default;
    ~Socket() {
        if (number_ >= 0) close(number_);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    // Connects to the first of the host's addresses that takes it.
    std::optional<std::string> connect_to(const HttpServer& server) {
        addrinfo wanted{};
        wanted.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        if (const int error =
                getaddrinfo(server.host.c_str(), server.port.c_str(), &wanted, &found);
            error != 0)
            return gai_strerror(error);
        const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
        int error = 0;
        for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
            number_ = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
            const timeval limit{most_seconds, 0};
            if (number_ >= 0 &&
                setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
                setsockopt(number_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
                connect(number_, at->ai_addr, at->ai_addrlen) == 0)
                return std::nullopt;
            error = errno;
            if (number_ >= 0) close(number_);
            number_ = -1;
        }
        return std::generic_category().message(error);
    }

    std::optional<std::string> send_all(std::string_view bytes) const {
        while (!bytes.empty()) {
            const ssize_t sent = send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR) continue;
            if (sent <= 0) return std::generic_category().message(errno);
            bytes.remove_prefix(static_cast<size_t>(sent));
        }
        return std::nullopt;
    }

    // Reads to the end of the connection.
    std::optional<std::string> receive_all(std::string& into) const {
        std::string buffer(size_t{1} << 16, '\0');
        while (into.size() < most_bytes) {
            const ssize_t got = recv(number_, buffer.data(), buffer.size(), 0);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return format_text("no answer within {} seconds", most_seconds);
            if (got < 0) return std::generic_category().message(errno);
            if (got == 0) return std::nullopt;
            into.append(buffer, 0, static_cast<size_t>(got));
        }
        return std::string("the answer has no end");
    }

private:
    int number_ = -1;
};

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// Joins the parts of a body in chunks; nothing if they are no chunks.
std::optional<std::string> join_chunks(std::string_view chunks) {
    std::string body;
    for (;;) {
        size_t size = 0;
        const auto [end, error] =
            std::from_chars(chunks.data(), chunks.data() + chunks.size(), size, 16);
        const size_t line = chunks.find("\r\n");
        if (error != std::errc() || line == std::string_view::npos) return std::nullopt;
        chunks.remove_prefix(line + 2);
        if (size == 0) return body;
        if (chunks.size() < size + 2) return std::nullopt;
        body += chunks.substr(0, size);
        chunks.remove_prefix(size + 2);
    }
}

std::optional<HttpAnswer> read_answer(const std::string& bytes) {
    const size_t end = bytes.find("\r\n\r\n");
    const size_t space = bytes.find(' ');
    if (!bytes.starts_with("HTTP/1.") || end == std::string::npos || space > end) return {};
    HttpAnswer answer{.status = 0, .body = bytes.substr(end + 4)};
    std::from_chars(bytes.data() + space + 1, bytes.data() + end, answer.status);
    const std::string head = lower(bytes.substr(0, end));
    if (head.find("transfer-encoding: chunked") == std::string::npos) return answer;
    auto joined = join_chunks(answer.body);
    if (!joined) return std::nullopt;
    answer.body = std::move(*joined);
    return answer;
}

}  // namespace

Expected<HttpServer> HttpServer::parse(const std::string& url) {
    constexpr std::string_view scheme = "http://";
    const auto refuse = [&](const char* why) {
        return Failure{ExitCode::settings, format_text("url = {}: {}", url, why)};
    };
    if (url.starts_with("https://"))
        return refuse(
            "https is not served; name the server's own port with http://, which ssh -L "
            "brings to this host");
    if (!url.starts_with(scheme))
        return refuse("must begin with http://, as http://localhost:8000");
    std::string rest = url.substr(scheme.size());
    HttpServer server{.host = {}, .port = "80", .prefix = {}};
    if (const size_t slash = rest.find('/'); slash != std::string::npos) {
        server.prefix = rest.substr(slash);
        rest.resize(slash);
    }
    while (server.prefix.ends_with('/')) server.prefix.pop_back();
    const size_t bracket = rest.find(']');  // of an address of IPv6
    const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
    if (colon != std::string::npos) server.port = rest.substr(colon + 1);
    server.host = rest.substr(0, colon);
    if (bracket != std::string::npos && server.host.starts_with('['))
        server.host = server.host.substr(1, bracket - 1);
    const bool has_port = !server.port.empty() && std::ranges::all_of(server.port, [](char c) {
        return c >= '0' && c <= '9';
    });
    if (server.host.empty() || !has_port)
        return refuse("must name a host and a port, as http://localhost:8000");
    return server;
}

std::string HttpServer::url() const {
    const bool is_v6 = host.find(':') != std::string::npos;
    return format_text("http://{}:{}{}", is_v6 ? "[" + host + "]" : host, port, prefix);
}

Expected<HttpAnswer> ask(const HttpServer& server, const std::string& path,
                         const std::string& body) {
    Socket socket;
    if (const auto why = socket.connect_to(server)) return no_answer(server, *why);
    std::string request = format_text(
        "{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nAccept: application/json\r\n"
        "Connection: close\r\n",
        body.empty() ? "GET" : "POST", server.prefix, path, server.host, server.port);
    if (!body.empty())
        request +=
            format_text("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
    request += "\r\n" + body;
    std::string bytes;
    auto why = socket.send_all(request);
    if (!why) why = socket.receive_all(bytes);
    if (why) return no_answer(server, *why);
    auto answer = read_answer(bytes);
    if (!answer) return no_http(server);
    return std::move(*answer);
}

}  // namespace ringshard::cli
