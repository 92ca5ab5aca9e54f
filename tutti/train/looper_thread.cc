#include "tutti/train/looper_thread.h"

#include <algorithm>
#include <utility>

#include "tutti/train/coordinator.h"

namespace tutti {
namespace {

void loop(Coordinator& coordinator, Clock& clock, const std::function<void()>& target,
          const std::optional<Duration>& interval) {
  if (!interval) {
    while (!coordinator.should_stop()) target();
    return;
  }
  TimePoint next = clock.now();
  while (!coordinator.wait_for_stop(std::max(next - clock.now(), Duration::zero()))) {
    next += *interval;
    target();
  }
}

}  // namespace

void start_looper(Coordinator& coordinator, Clock& clock, std::function<void()> target, LooperOptions options) {
  const std::string name = options.name;
  coordinator.start_thread(name, [&coordinator, &clock, target = std::move(target), options = std::move(options)] {
    if (options.start) options.start();
    loop(coordinator, clock, target, options.interval);
    if (options.stop) options.stop();
  });
}

}  // namespace tutti
