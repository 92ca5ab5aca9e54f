// What a training session needs besides the model: how to begin, how to see that it has begun, what to save.
#pragma once

#include <functional>
#include <memory>

#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"

namespace tutti {

class Saver;
struct Environment;

// The pieces, given by the user or made by finalize. To change some of another's, copy it.
struct Scaffold {
  // Run when there is no checkpoint. Default: the initial values of all global variables.
  Node* init_op = nullptr;
  Feeds init_feed_dict = {};
  // Called after init_op, when there is no checkpoint.
  std::function<void(const Scaffold&, Session&)> init_fn = nullptr;
  // Names of what is not initialised; none: the model is ready. Default: of global and local variables.
  Output ready_op = {};
  // The same of what local_init_op relies on. Default: of global variables.
  Output ready_for_local_init_op = {};
  // Run for each session. Default: the initial values of local variables, and the tables'.
  Node* local_init_op = nullptr;
  Feeds local_init_feed_dict = {};
  // A serialised Summary. Default: all of the collection "summaries"; empty when there are none.
  Output summary_op = {};
  // Default: saves all variables, each task its own.
  std::shared_ptr<Saver> saver = nullptr;
  // Whether that one writes while training goes on (SaverOptions::save_in_background).
  bool save_in_background = true;

  // Makes what is missing, or takes it from the graph's collection of that name ("init_op", "ready_op", ...), where
  // what is made goes too. Throws kInvalidArgument when a collection has several. Again: no effect.
  void finalize(Graph& graph);
  // The same; the saver that it makes uses these files and this clock.
  void finalize(Graph& graph, const Environment& environment);
};

}  // namespace tutti
