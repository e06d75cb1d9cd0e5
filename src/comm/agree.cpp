#include "ringshard/comm/agree.hpp"

#include <unistd.h>

#include <array>

#include "ringshard/base/text.hpp"

namespace ringshard::comm {

std::string host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::optional<AgreedFailure> first_failure(const Group& group, const std::optional<Failure>& mine) {
    const int64_t first = group.minimum(mine ? group.rank() : group.size());
    if (first == group.size()) return std::nullopt;
    const int root = static_cast<int>(first);
    const int code = mine && group.rank() == root ? number(mine->code) : 0;
    const std::string whose =
        group.size() > 1 ? format_text("[rank {} on {}] ", root, host_name()) : "";
    const auto agreed_code = static_cast<ExitCode>(group.maximum(code));
    return AgreedFailure({agreed_code, group.broadcast(mine ? whose + mine->message : "", root)});
}

Agreed<std::string> of_root(const Group& group,
                            const std::function<Expected<std::string>()>& make) {
    const auto text = agreed(group, group.is_root() ? make() : std::string());
    if (!text) return text;
    return group.broadcast(text.value());
}

AgreedFailure found_by_all(Failure failure) { return AgreedFailure(std::move(failure)); }

}  // namespace ringshard::comm
