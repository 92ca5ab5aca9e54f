// Threads that belong together: any of them can ask all to stop, and the first error reaches who waits for them.
#pragma once

#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/core/status.h"

namespace tutti {

// The exception that is being handled, as a status: an Error's own, else kUnknown with what it says.
// REQUIRES: called in a catch block.
Status current_error();

struct JoinOptions {
  // For threads to end once a stop was requested.
  Duration stop_grace_period = std::chrono::seconds(120);
  // Threads that are still running then are no error.
  bool ignore_live_threads = false;
};

// Thread-safe. Work looks like this:
//
//   coordinator.start_thread("reader", [&] {
//     while (!coordinator.should_stop()) ...        an Error that leaves this stops the others
//   });
//   coordinator.join();                             throws that Error
class Coordinator {
  struct Member;

 public:
  // A stop with one of these codes is no error: inputs end with kOutOfRange. `clock` outlives this.
  explicit Coordinator(Clock& clock, std::vector<Code> clean_stop_codes = {Code::kOutOfRange});
  // Requests a stop and waits for the threads that it started: what they wait for must have ended.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Asks all threads to stop. Of several errors the first is kept, for join; what comes after the stop is not the
  // cause of it. After join has returned there is nobody to tell: throws `error`.
  void request_stop() { request_stop(Status()); }
  void request_stop(Status error);
  bool should_stop() const;
  // Waits for a request; false when `timeout` passed without one. Without a timeout: until there is one.
  bool wait_for_stop(std::optional<Duration> timeout = std::nullopt);
  // As new, for another round.
  void clear_stop();
  // The error that request_stop got first; OK when there was none.
  Status requested_error() const;
  bool joined() const;
  Clock& clock() const { return clock_; }

  // Runs `body`; what it throws becomes a request to stop.
  void stop_on_exception(const std::function<void()>& body);

  // A thread of the coordinator's own that runs stop_on_exception(body). Throws kResourceExhausted when the system
  // gives no thread.
  void start_thread(const std::string& name, std::function<void()> body);
  // Says that another's thread runs, until the registration goes.
  class Registration {
   public:
    ~Registration();
    Registration(Registration&&) noexcept;
    Registration& operator=(Registration&&) = delete;

   private:
    friend class Coordinator;
    Registration(Coordinator& coordinator, std::list<Member>::iterator member);
    Coordinator* coordinator_;  // null: moved away
    std::list<Member>::iterator member_;
  };
  [[nodiscard]] Registration register_thread(const std::string& name);
  // Those that run now.
  std::vector<std::string> running() const;

  // Waits for all threads; when a stop was requested, no longer than the grace period from then on. Throws the error
  // that was kept; else, when threads are still running, kDeadlineExceeded with their names.
  void join(const JoinOptions& options = {});

 private:
  struct Member {
    std::string name;
    std::thread thread;  // empty: another's
    bool running = true;
  };

  std::list<Member>::iterator add_member(const std::string& name);
  void run_member(std::list<Member>::iterator member, const std::string& name, const std::function<void()>& body);
  void end_member(std::list<Member>::iterator member);
  bool any_running() const TUTTI_REQUIRES(mu_);
  std::vector<std::string> running_names() const TUTTI_REQUIRES(mu_);
  void wait_for_members(Duration grace);

  Clock& clock_;
  const std::vector<Code> clean_stop_codes_;
  mutable Mutex mu_;
  CondVar changed_;
  bool stop_ TUTTI_GUARDED_BY(mu_) = false;
  bool joined_ TUTTI_GUARDED_BY(mu_) = false;
  Status error_ TUTTI_GUARDED_BY(mu_);
  std::list<Member> members_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
