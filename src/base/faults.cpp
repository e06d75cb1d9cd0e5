#include "ringshard/base/faults.hpp"

#include <unistd.h>

#include <csignal>

#include "ringshard/base/text.hpp"

namespace ringshard {

Expected<Faults> Faults::read(const Environment& environment, int rank) {
    Faults faults;
    const auto variable = environment.find("RINGSHARD_FAULT");
    if (!variable || variable->empty()) return faults;
    const Failure malformed{ExitCode::settings,
                            concat("RINGSHARD_FAULT = ", *variable,
                                   ": is written as point:nth:kill, :throw, :segv or :hang, and "
                                   "@rank if one alone shall fail")};
    std::string rest = *variable;
    if (const size_t at = rest.find('@'); at != std::string::npos) {
        if (rest.substr(at + 1) != std::to_string(rank)) return faults;
        rest.resize(at);
    }
    const size_t last = rest.rfind(':');
    const size_t middle =
        last == std::string::npos || last == 0 ? std::string::npos : rest.rfind(':', last - 1);
    if (middle == std::string::npos) return malformed;
    const int64_t nth = read_whole_number(rest.substr(middle + 1, last - middle - 1)).value_or(0);
    const std::string action = rest.substr(last + 1);
    const bool is_known =
        action == "kill" || action == "throw" || action == "segv" || action == "hang";
    if (nth < 1 || !is_known) return malformed;
    faults.wish_ = Wish{rest.substr(0, middle), nth, action};
    return faults;
}

void Faults::reach(std::string_view point) {
    if (!wish_ || wish_->point != point) return;
    if (++times_[wish_->point] != wish_->nth) return;
    if (wish_->action == "throw") throw Error(ExitCode::internal, "RINGSHARD_FAULT asked for this");
    while (wish_->action == "hang") pause();  // every signal that is caught ends one
    std::raise(wish_->action == "segv" ? SIGSEGV : SIGKILL);
}

}  // namespace ringshard
