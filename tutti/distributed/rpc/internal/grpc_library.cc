#include "tutti/distributed/rpc/internal/grpc_library.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"

namespace tutti::rpc_internal {
namespace {

constexpr std::chrono::minutes kQuiet{1};

// As many places as gRPC has log lines: bounded. Never destroyed, since gRPC's threads run until the process ends.
class QuietLog {
 public:
  static QuietLog& instance() {
    static auto* log = new QuietLog;
    return *log;
  }

  void write(const gpr_log_func_args& line) {
    int kept_back = 0;
    {
      MutexLock lock(mu_);
      const auto now = std::chrono::steady_clock::now();
      Place& place = places_[{line.file, line.line}];
      if (place.written && now - place.last < kQuiet) {
        ++place.kept_back;
        return;
      }
      kept_back = std::exchange(place.kept_back, 0);
      place.written = true;
      place.last = now;
    }
    const std::string more = kept_back > 0 ? str_cat(" (and ", kept_back, " more in between)") : std::string();
    std::fprintf(stderr, "gRPC: %s%s\n", printable(line.message, 1000).c_str(), more.c_str());
  }

 private:
  struct Place {
    bool written = false;
    std::chrono::steady_clock::time_point last;
    int kept_back = 0;
  };
  Mutex mu_;
  std::map<std::pair<std::string_view, int>, Place> places_ TUTTI_GUARDED_BY(mu_);  // files: gRPC's literals
};

void write_quietly(gpr_log_func_args* line) { QuietLog::instance().write(*line); }

}  // namespace

void keep_grpc() {
  static const bool kept = [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(write_quietly);
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace tutti::rpc_internal
