// What the tests of training sessions share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tutti/core/mutex.h"
#include "tutti/ops/array.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/train/environment.h"
#include "tutti/train/global_step.h"
#include "tutti/train/hooks.h"

namespace tutti::test {

// Keeps the lines. Thread-safe.
class Lines {
 public:
  LogFunction sink() {
    return [this](const std::string& line) {
      MutexLock lock(mu_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> all() const {
    MutexLock lock(mu_);
    return lines_;
  }
  int count(const std::string& text) const {
    int found = 0;
    for (const std::string& line : all()) found += line.find(text) != std::string::npos ? 1 : 0;
    return found;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> lines_ TUTTI_GUARDED_BY(mu_);
};

// Time that only the test moves, and lines that it reads.
struct TestEnvironment {
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  Lines lines;
  Environment environment() {
    Environment made;
    made.clock = clock;
    made.log = lines.sink();
    return made;
  }
};

// A job that counts: each step adds one to the global step and 0.5 to w, which starts at 10.
struct CountingJob {
  CountingJob() : graph(builtin_ops()) {
    step.emplace(get_or_create_global_step(graph));
    w.emplace(variable(graph, Tensor::scalar(10.0f), "w"));
    Node* update = w->assign_add(constant(graph, Tensor::scalar(0.5f)));
    const auto after = graph.control_dependencies({update});
    train = step->assign_add(constant(graph, Tensor::scalar<std::int64_t>(1)), "train");
  }
  Graph graph;
  std::optional<Var> step;
  std::optional<Var> w;
  Node* train = nullptr;
};

// Notes what it is told, as "name.event" and, for steps, the fetched global step.
class RecordingHook : public SessionRunHook {
 public:
  RecordingHook(std::string name, std::vector<std::string>& events) : name_(std::move(name)), events_(&events) {}
  void begin(HookContext&) override { note("begin"); }
  void after_create_session(Session&, Coordinator&) override { note("after_create_session"); }
  std::optional<RunArgs> before_run(RunContext&) override {
    note("before_run");
    return std::nullopt;
  }
  void after_run(RunContext&, const RunValues&) override { note("after_run"); }
  void end(Session&) override { note("end"); }

 private:
  void note(const std::string& event) { events_->push_back(name_ + "." + event); }
  const std::string name_;
  std::vector<std::string>* events_;
};

// The status of what `body` throws; OK when it does not.
template <typename Body>
Status thrown_by(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

}  // namespace tutti::test
