#include "tutti/runtime/held_work.h"

#include <utility>

namespace tutti {
namespace {

// About what a wake-up of the reader costs, which is what holding saves.
constexpr std::chrono::microseconds kLongest{30};

thread_local HeldWork* current = nullptr;

}  // namespace

HeldWork::HeldWork() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

HeldWork::~HeldWork() {
  if (!outermost_) return;
  end();
  current = nullptr;
}

bool HeldWork::hold(std::function<void()> work) {
  if (current == nullptr) return false;
  const auto now = std::chrono::steady_clock::now();
  if (current->work_.empty()) current->since_ = now;
  current->work_.push_back(std::move(work));
  if (now - current->since_ > kLongest) current->run();
  return true;
}

bool HeldWork::hold_to_end(std::function<void()> work) {
  if (current == nullptr) return false;
  current->at_end_.push_back(std::move(work));
  return true;
}

bool HeldWork::waits() { return current != nullptr && !current->work_.empty(); }

void HeldWork::run_now() {
  if (current != nullptr) current->run();
}

void HeldWork::run_all() {
  if (current != nullptr) current->end();
}

void HeldWork::end() {
  run();
  while (!at_end_.empty()) {
    std::vector<std::function<void()>> work;
    work.swap(at_end_);
    for (const auto& one : work) one();
    run();
  }
}

void HeldWork::run() {
  while (!work_.empty()) {
    std::vector<std::function<void()>> work;
    work.swap(work_);
    for (const auto& one : work) one();
  }
}

}  // namespace tutti
