// The serving end of "/tutti.TaskService/...": who we are, that peers live, and which sessions still have a client.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/session_leases.h"
#include "tutti/distributed/task_log.h"
#include "tutti/transport/channel.h"

namespace tutti {

struct TaskServiceOptions {
  HelloGate::Options hello;
  SessionLeaseOptions leases;
  Clock* clock = nullptr;  // outlives the service
  // Tasks prove their names to the transports: one that did not is not believed.
  bool certificates = false;
  // With which a task, that has proved to be it, is believed so over shared memory; null: no ticket is wanted there.
  std::function<std::string(const std::string& task)> shm_ticket;
  // A task of the cluster said that it lives.
  std::function<void(const std::string& task, std::uint64_t incarnation)> heard;
  // A call by which a client leases a session is held (true), or was (false), in pairs.
  std::function<void(const std::string& session_handle, bool held)> leased;
  // The client that leased a session is gone, or has closed it.
  std::function<void(const std::string& session_handle)> abandon;
  TaskLog log;  // of who was refused, once each; null: nothing is said
};

// Answers our own service and hands all other calls to `others`, which must outlive it. Thread-safe.
class TaskService : public CallHandler {
 public:
  TaskService(TaskServiceOptions options, CallHandler& others);
  ~TaskService() override;  // as stop()

  void handle(IncomingCall call, Reply reply) override;
  // Answers the calls that are held with kUnavailable and takes no more of them. Idempotent.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
