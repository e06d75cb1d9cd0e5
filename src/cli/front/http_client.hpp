#pragma once

#include <string>

#include "ringshard/base/expected.hpp"

namespace ringshard::cli {

// The address of a server: http://HOST[:PORT][/PREFIX].
struct HttpServer {
    std::string host;
    std::string port;
    std::string prefix;  // of every path; no slash at its end

    static Expected<HttpServer> parse(const std::string& url);
    std::string url() const;
};

struct HttpAnswer {
    int status = 0;
    std::string body;
};

// Sends a request in HTTP/1.1 and waits for the answer. `body`: JSON; empty: GET, else POST. Fails
// if nothing answers there, or it is no HTTP.
Expected<HttpAnswer> ask(const HttpServer& server, const std::string& path,
                         const std::string& body = {});

}  // namespace ringshard::cli
