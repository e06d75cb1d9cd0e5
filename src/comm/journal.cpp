#include "ringshard/comm/journal.hpp"

#include <algorithm>
#include <exception>

namespace ringshard::comm {

int64_t JournalPage::begin(const char* what, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const int64_t number = ++about_.begun;
    last_[static_cast<size_t>(number) % kept] = {number, what, bytes, journal_->now()};
    return number;
}

void JournalPage::end(int64_t number) {
    const std::lock_guard lock(mutex_);
    about_.ended = number;
    JournalEntry& entry = last_[static_cast<size_t>(number) % kept];
    if (entry.number == number) entry.ended = journal_->now();
}

JournalPage::Waiting::Waiting(JournalPage& page, int64_t number) : page_(page) {
    const std::lock_guard lock(page_.mutex_);
    page_.about_.awaited = number;
    page_.about_.is_main_waiting = page_.journal_->is_main_thread();
}

JournalPage::Waiting::~Waiting() {
    if (page_.journal_->is_main_thread()) page_.journal_->add_wait(timer_.seconds());
    const std::lock_guard lock(page_.mutex_);
    page_.about_.awaited = 0;
    page_.about_.is_main_waiting = false;
}

JournalPage::Operation::Operation(JournalPage& page, const char* what, int64_t bytes)
    : page_(page),
      number_(page.begin(what, bytes)),
      exceptions_at_birth_(std::uncaught_exceptions()),
      waiting_(page, number_) {}

JournalPage::Operation::~Operation() {
    if (std::uncaught_exceptions() <= exceptions_at_birth_) page_.end(number_);
}

void JournalPage::set_backend(std::function<void()> refresh, std::function<void()> abort) {
    const std::lock_guard lock(backend_mutex_);
    refresh_ = std::move(refresh);
    abort_ = std::move(abort);
}

PageState JournalPage::state() const {
    {
        const std::lock_guard lock(backend_mutex_);
        if (refresh_) refresh_();
    }
    const std::lock_guard lock(mutex_);
    PageState state = about_;
    const auto first = std::max<int64_t>(1, about_.begun - static_cast<int64_t>(kept) + 1);
    for (int64_t number = first; number <= about_.begun; ++number)
        state.last.push_back(last_[static_cast<size_t>(number) % kept]);
    return state;
}

void JournalPage::abort() const {
    const std::lock_guard lock(backend_mutex_);
    if (abort_) abort_();
}

std::shared_ptr<JournalPage> Journal::open_page(std::string name, int64_t leader) {
    const std::lock_guard lock(mutex_);
    const std::pair key(name, leader);
    const auto copy = std::ranges::count(opened_, key);
    opened_.push_back(key);
    std::erase_if(pages_, [](const auto& page) { return page.expired(); });
    auto page = std::make_shared<JournalPage>(
        shared_from_this(), PageState{.name = std::move(name), .leader = leader, .copy = copy});
    pages_.push_back(page);
    return page;
}

std::vector<std::shared_ptr<JournalPage>> Journal::living_pages() const {
    std::vector<std::shared_ptr<JournalPage>> living;
    const std::lock_guard lock(mutex_);
    for (const auto& page : pages_)
        if (auto alive = page.lock()) living.push_back(std::move(alive));
    return living;
}

std::vector<PageState> Journal::pages() const {
    std::vector<PageState> states;
    for (const auto& page : living_pages()) states.push_back(page->state());
    return states;
}

void Journal::abort_backends() const {
    for (const auto& page : living_pages()) page->abort();
}

}  // namespace ringshard::comm
