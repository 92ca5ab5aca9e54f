// Calls made from a test and waited for, and a handler that does what its callers ask.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/allocator.h"
#include "tutti/core/mutex.h"
#include "tutti/transport/channel.h"

namespace tutti::test {

struct Answer {
  Status status;
  Payload payload;
};

inline std::future<Answer> start_call(Channel& channel, std::string_view method, Payload request = {},
                                      const CallOptions& options = {}) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  channel.call(method, std::move(request), options, [promise](Status status, Payload payload) {
    promise->set_value({std::move(status), std::move(payload)});
  });
  return future;
}

inline Answer call(Channel& channel, std::string_view method, Payload request = {}, const CallOptions& options = {}) {
  return start_call(channel, method, std::move(request), options).get();
}

inline void append_buffer(Payload& payload, const BufferPtr& buffer) {
  payload.append({static_cast<const std::byte*>(buffer->data()), buffer->bytes()}, buffer);
}

// Throws when it has not come true within a minute.
inline void wait_until(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) throw_error(deadline_exceeded("waited for a minute, in vain"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline int count_entries(const char* directory) {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<int>(std::distance(Entries(directory), Entries()));
}

// Shared memory of Tutti's that this process has mapped.
inline int count_mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:tutti") != std::string::npos;
  return count;
}

// /echo    the request
// /wait    replies when cancelled, with the cause
// /hold    keeps the request, replies nothing
// /held    what was kept first
// /drop    drops what was kept
// /make    a buffer of as many bytes as the request says, from the allocator
// /who     the caller's task
// /usage   "threads descriptors mappings" of this process
class TestHandler : public CallHandler {
 public:
  std::atomic<Allocator*> allocator{&heap_allocator()};  // set once the transport is there
  std::atomic<int> waiting{0};
  std::atomic<int> calls{0};

  void handle(IncomingCall call, Reply reply) override {
    ++calls;
    if (call.method == "/echo") return reply({}, std::move(call.request));
    if (call.method == "/wait") return wait(call, std::move(reply));
    if (call.method == "/hold") return hold(std::move(call.request), reply);
    if (call.method == "/held") return reply({}, held());
    if (call.method == "/drop") return drop(reply);
    if (call.method == "/make") return make(std::stoull(call.request.flatten()), reply);
    if (call.method == "/who") return reply({}, Payload(call.peer_task));
    if (call.method == "/usage") return usage(reply);
    reply(unimplemented("no method ", call.method), {});
  }

 private:
  void wait(IncomingCall& call, Reply reply) {
    auto once = std::make_shared<Reply>(std::move(reply));
    Cancellation* cancellation = call.cancellation;
    ++waiting;
    const auto end = [this, once, cancellation] {
      --waiting;
      (*once)(cancellation->status(), {});
    };
    if (cancellation->register_callback(end) == 0) end();
  }
  void hold(Payload request, const Reply& reply) {
    {
      MutexLock lock(mu_);
      held_.push_back(std::move(request));
    }
    reply({}, {});
  }
  Payload held() {
    MutexLock lock(mu_);
    return held_.empty() ? Payload() : held_.front();
  }
  void drop(const Reply& reply) {
    std::vector<Payload> held;
    {
      MutexLock lock(mu_);
      held.swap(held_);
    }
    held.clear();
    reply({}, {});
  }
  void make(std::size_t bytes, const Reply& reply) {
    const BufferPtr buffer = allocator.load()->allocate(bytes);
    std::memset(buffer->data(), 'm', bytes);
    Payload payload;
    append_buffer(payload, buffer);
    reply({}, std::move(payload));
  }
  void usage(const Reply& reply) {
    reply({}, Payload(str_cat(count_entries("/proc/self/task"), " ", count_entries("/proc/self/fd"), " ",
                              count_mappings())));
  }

  Mutex mu_;
  std::vector<Payload> held_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::test
