#pragma once

#include <memory>

#include "tutti/graph/graph.h"
#include "tutti/train/environment.h"
#include "tutti/train/saver.h"

namespace tutti::internal {

// A saver that uses the environment's files and its clock, which it keeps alive.
inline std::shared_ptr<Saver> saver_in(const Environment& environment, Graph& graph, SaverOptions options) {
  struct Timed {
    std::shared_ptr<Clock> clock;
    Saver saver;
  };
  options.files = environment.files;
  options.clock = environment.clock.get();
  std::shared_ptr<Timed> made(new Timed{environment.clock, Saver(graph, std::move(options))});
  return {made, &made->saver};
}

}  // namespace tutti::internal
