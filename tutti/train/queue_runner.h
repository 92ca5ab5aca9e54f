// Threads that keep a queue full.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/graph/graph.h"

namespace tutti {

class Coordinator;
class Session;

// Which nodes fill a queue and what closes it. A value of names: it may be kept while the graph lives, and longer.
struct QueueRunner {
  QueueRunner() = default;
  // `queue`: the handle that a queue op gives; `enqueue`: one thread for each. Adds the nodes that close the queue.
  // kInvalidArgument when there is nothing to run or `queue` is no queue's handle.
  QueueRunner(Output queue, const std::vector<Node*>& enqueue);

  std::string name;  // of the queue
  std::vector<std::string> enqueue;
  std::string close;                                     // run when the last thread sees the end of the input
  std::string cancel;                                    // run when the coordinator stops: ends what waits in the queue
  std::vector<Code> closed_codes = {Code::kOutOfRange};  // with these an enqueue says that the input has ended

  // Starts the threads, named "QueueRunnerThread-NAME-OP", as `coordinator`'s. Each runs its node until a stop, or
  // until the input ends; other errors stop the coordinator. At a stop the queue is cancelled, and a second later what
  // still runs. Both outlive the threads.
  void start(Session& session, Coordinator& coordinator) const;
};

// Notes a runner in the graph, in the collection "queue_runners": monitored sessions start those that they find. It
// lies in a NoOp whose attributes name its nodes, so that it travels with the graph.
void add_queue_runner(Graph& graph, const QueueRunner& runner);
std::vector<QueueRunner> queue_runners(const Graph& graph);
// Starts all of the graph's.
void start_queue_runners(const Graph& graph, Session& session, Coordinator& coordinator);

}  // namespace tutti
