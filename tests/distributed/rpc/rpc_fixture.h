// Servers and calls for the tests of distributed/rpc.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/distributed/rpc/grpc_transport.h"

namespace tutti::test {

// Long enough for any machine; only a failing test waits for so long.
inline constexpr std::chrono::seconds kPatience{60};

class FunctionHandler : public CallHandler {
 public:
  using Function = std::function<void(IncomingCall call, Reply reply)>;
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  void handle(IncomingCall call, Reply reply) override { function_(std::move(call), std::move(reply)); }

 private:
  const Function function_;
};

inline FunctionHandler echo_handler() {
  return FunctionHandler([](IncomingCall call, CallHandler::Reply reply) { reply({}, std::move(call.request)); });
}

// Keeps calls until they are to be answered.
class WaitingHandler : public CallHandler {
 public:
  void handle(IncomingCall, Reply reply) override {
    MutexLock lock(mu_);
    replies_.push_back(std::move(reply));
    changed_.notify_all();
  }
  bool wait_for_calls(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mu_);
    while (replies_.size() < count) {
      if (!changed_.wait_until(mu_, deadline)) return false;
    }
    return true;
  }
  std::size_t num_calls() {
    MutexLock lock(mu_);
    return replies_.size();
  }
  void answer_all(const Status& status = {}) {
    std::vector<Reply> replies;
    {
      MutexLock lock(mu_);
      replies.swap(replies_);
    }
    for (const Reply& reply : replies) reply(status, Payload("late"));
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::vector<Reply> replies_ TUTTI_GUARDED_BY(mu_);
};

// Waits until it is told that nobody wants the answer, and then says why.
inline FunctionHandler cancellable_handler(std::function<void()> begun = {}, std::function<void()> told = {}) {
  return FunctionHandler(
      [begun = std::move(begun), told = std::move(told)](const IncomingCall& call, const CallHandler::Reply& reply) {
        if (begun) begun();
        Cancellation* cancellation = call.cancellation;
        const auto token = cancellation->register_callback([cancellation, told, reply] {
          if (told) told();
          reply(cancellation->status(), {});
        });
        if (token == 0) {
          if (told) told();
          reply(cancellation->status(), {});
        }
      });
}

struct Answer {
  Status status;
  Payload payload;
};

// A call under way.
class PendingAnswer {
 public:
  PendingAnswer() : promise_(std::make_shared<std::promise<Answer>>()), future_(promise_->get_future()) {}
  Channel::Done done() {
    return [promise = promise_](Status status, Payload payload) {
      promise->set_value({std::move(status), std::move(payload)});  // a second one throws
    };
  }
  Answer wait() {
    if (future_.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "the call did not end";
      return {internal_error("the call did not end"), {}};
    }
    return future_.get();
  }
  bool ended() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

 private:
  std::shared_ptr<std::promise<Answer>> promise_;
  std::future<Answer> future_;
};

inline PendingAnswer begin_call(Channel& channel, Payload request, const CallOptions& options = {},
                                std::string_view method = "/test.Service/Method") {
  PendingAnswer answer;
  channel.call(method, std::move(request), options, answer.done());
  return answer;
}

inline Answer call(Channel& channel, Payload request, const CallOptions& options = {},
                   std::string_view method = "/test.Service/Method") {
  return begin_call(channel, std::move(request), options, method).wait();
}

inline GrpcServerOptions local_options(int port = 0) {
  GrpcServerOptions options;
  options.address = str_cat("127.0.0.1:", port);
  return options;
}

inline std::unique_ptr<GrpcServer> start_server(CallHandler& handler,
                                                const GrpcServerOptions& options = local_options()) {
  auto server = GrpcServer::start(options, handler);
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return server.ok() ? *std::move(server) : nullptr;
}

inline std::string address_of(const GrpcServer& server) { return str_cat("127.0.0.1:", server.port()); }

}  // namespace tutti::test
