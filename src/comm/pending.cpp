#include "ringshard/comm/pending.hpp"

#include <exception>

namespace ringshard::comm {

Pending::Pending(std::unique_ptr<Completion> completion)
    : completion_(std::move(completion)), exceptions_at_construction_(std::uncaught_exceptions()) {}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        wait();
        completion_ = std::move(other.completion_);
        exceptions_at_construction_ = other.exceptions_at_construction_;
    }
    return *this;
}

Pending::~Pending() {
    if (std::uncaught_exceptions() > exceptions_at_construction_)
        static_cast<void>(completion_.release());
    else
        wait();
}

void Pending::wait() {
    if (completion_ == nullptr) return;
    completion_->wait();
    completion_.reset();
}

}  // namespace ringshard::comm
