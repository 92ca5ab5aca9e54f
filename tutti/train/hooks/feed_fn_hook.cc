#include "tutti/train/hooks/feed_fn_hook.h"

namespace tutti {

std::optional<RunArgs> FeedFnHook::before_run(RunContext&) { return RunArgs{.feeds = feed_fn_()}; }

}  // namespace tutti
