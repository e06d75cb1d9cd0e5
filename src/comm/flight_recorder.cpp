#include "ringshard/comm/flight_recorder.hpp"

#include <algorithm>
#include <exception>

namespace ringshard::comm {

int64_t GroupLog::begin(const char* what, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const int64_t number = ++about_.begun;
    last_[static_cast<size_t>(number) % kept] = {number, what, bytes, flight_recorder_->now()};
    return number;
}

void GroupLog::end(int64_t number) {
    const std::lock_guard lock(mutex_);
    about_.ended = number;
    OperationRecord& entry = last_[static_cast<size_t>(number) % kept];
    if (entry.number == number) entry.ended = flight_recorder_->now();
}

GroupLog::Waiting::Waiting(GroupLog& log, int64_t number) : log_(log) {
    const std::lock_guard lock(log_.mutex_);
    log_.about_.awaited = number;
    log_.about_.is_main_waiting = log_.flight_recorder_->is_main_thread();
}

GroupLog::Waiting::~Waiting() {
    if (log_.flight_recorder_->is_main_thread()) log_.flight_recorder_->add_wait(timer_.seconds());
    const std::lock_guard lock(log_.mutex_);
    log_.about_.awaited = 0;
    log_.about_.is_main_waiting = false;
}

GroupLog::Operation::Operation(GroupLog& log, const char* what, int64_t bytes)
    : log_(log),
      number_(log.begin(what, bytes)),
      exceptions_at_construction_(std::uncaught_exceptions()),
      waiting_(log, number_) {}

GroupLog::Operation::~Operation() {
    if (std::uncaught_exceptions() <= exceptions_at_construction_) log_.end(number_);
}

void GroupLog::set_backend(std::function<void()> refresh, std::function<void()> abort) {
    const std::lock_guard lock(backend_mutex_);
    refresh_ = std::move(refresh);
    abort_ = std::move(abort);
}

GroupLogState GroupLog::state() const {
    {
        const std::lock_guard lock(backend_mutex_);
        if (refresh_) refresh_();
    }
    const std::lock_guard lock(mutex_);
    GroupLogState state = about_;
    const auto first = std::max<int64_t>(1, about_.begun - static_cast<int64_t>(kept) + 1);
    for (int64_t number = first; number <= about_.begun; ++number)
        state.last.push_back(last_[static_cast<size_t>(number) % kept]);
    return state;
}

void GroupLog::abort() const {
    const std::lock_guard lock(backend_mutex_);
    if (abort_) abort_();
}

std::shared_ptr<GroupLog> FlightRecorder::open_log(std::string name, int64_t leader) {
    const std::lock_guard lock(mutex_);
    const std::pair key(name, leader);
    const auto copy = std::ranges::count(opened_, key);
    opened_.push_back(key);
    std::erase_if(logs_, [](const auto& log) { return log.expired(); });
    auto log = std::make_shared<GroupLog>(
        shared_from_this(), GroupLogState{.name = std::move(name), .leader = leader, .copy = copy});
    logs_.push_back(log);
    return log;
}

std::vector<std::shared_ptr<GroupLog>> FlightRecorder::living_logs() const {
    std::vector<std::shared_ptr<GroupLog>> living;
    const std::lock_guard lock(mutex_);
    for (const auto& log : logs_)
        if (auto alive = log.lock()) living.push_back(std::move(alive));
    return living;
}

std::vector<GroupLogState> FlightRecorder::groups() const {
    std::vector<GroupLogState> states;
    for (const auto& log : living_logs()) states.push_back(log->state());
    return states;
}

void FlightRecorder::abort_backends() const {
    for (const auto& log : living_logs()) log->abort();
}

}  // namespace ringshard::comm
