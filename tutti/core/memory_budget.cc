#include "tutti/core/memory_budget.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

// A number in a file of the system; nothing where there is no file, or "max".
std::optional<std::size_t> read_number(const std::string& path) {
  std::ifstream in(path);
  std::size_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The path of this process in the hierarchy of control groups that has this controller ("": version 2's).
std::string group_of_process(std::string_view controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    // "4:memory:/path", or "0::/path" in version 2
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::vector<std::string_view> names =
        str_split(std::string_view(line).substr(first + 1, second - first - 1), ',');
    if (std::find(names.begin(), names.end(), controller) != names.end()) return line.substr(second + 1);
  }
  return "";
}

// The least limit of the group and of those around it.
std::size_t least_limit(const std::string& root, std::string group, const std::string& file) {
  std::size_t least = SIZE_MAX;
  while (true) {
    if (const auto limit = read_number(str_cat(root, group, "/", file))) least = std::min(least, *limit);
    if (group.empty() || group == "/") return least;
    group.resize(group.rfind('/'));
  }
}

// What the process has touched of memory that is its own and no file's, as the system counts it.
std::size_t resident_bytes() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128];
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  char* at = text;
  std::strtoull(at, &at, 10);  // mapped
  const unsigned long long resident = std::strtoull(at, &at, 10);
  const unsigned long long shared = std::strtoull(at, &at, 10);
  static const long page = ::sysconf(_SC_PAGESIZE);
  return static_cast<std::size_t>(resident - std::min(shared, resident)) * static_cast<std::size_t>(page);
}

}  // namespace

std::size_t available_memory() {
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  const auto machine = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t version_2 = least_limit("/sys/fs/cgroup", group_of_process(""), "memory.max");
  const std::size_t version_1 =
      least_limit("/sys/fs/cgroup/memory", group_of_process("memory"), "memory.limit_in_bytes");
  return std::min({machine, version_2, version_1});
}

struct MemoryBudget::Reclaim {
  explicit Reclaim(std::function<void()> f) : reclaim(std::move(f)) {}
  const std::function<void()> reclaim;
};

MemoryBudget::Registration MemoryBudget::add_reclaim(std::function<void()> reclaim) {
  auto added = std::make_shared<Reclaim>(std::move(reclaim));
  MutexLock lock(mu_);
  std::erase_if(reclaims_, [](const auto& known) { return known.expired(); });
  reclaims_.push_back(added);
  return added;
}

bool MemoryBudget::fits(std::size_t bytes) const {
  const std::size_t used = std::max(held_bytes(), resident_bytes());
  return used <= limit_bytes_ && bytes <= limit_bytes_ - used;
}

bool MemoryBudget::has_room(std::size_t bytes) {
  if (fits(bytes)) return true;
  if (bytes > limit_bytes_) return false;
  std::vector<std::shared_ptr<Reclaim>> reclaims;
  {
    MutexLock lock(mu_);
    for (const auto& known : reclaims_) {
      if (auto reclaim = known.lock()) reclaims.push_back(std::move(reclaim));
    }
  }
  for (const auto& reclaim : reclaims) reclaim->reclaim();
  ::malloc_trim(0);
  return fits(bytes);
}

MemoryAccount::MemoryAccount(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {
  budget_->accounts_.fetch_add(1, std::memory_order_relaxed);
}

MemoryAccount::~MemoryAccount() { budget_->accounts_.fetch_sub(1, std::memory_order_relaxed); }

bool MemoryAccount::take(std::size_t bytes) {
  // Before it is known whether there is room: two that ask at once must not both find it.
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t before = budget_->held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes <= budget_->limit_bytes_ && before <= budget_->limit_bytes_ - bytes && MemoryScope::allows(bytes)) {
    return true;
  }
  give_back(bytes);
  if (!budget_->has_room(bytes)) return false;
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  budget_->held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void MemoryAccount::give_back(std::size_t bytes) {
  held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  budget_->held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::string MemoryAccount::shortage(std::size_t bytes) const {
  const std::size_t own = held_bytes();
  const std::size_t all = std::max(budget_->held_bytes(), own);
  const std::size_t process = std::max(resident_bytes(), all);
  const int others = std::max(budget_->accounts_.load(std::memory_order_relaxed) - 1, 0);
  return str_cat(bytes, " bytes asked for; of ", budget_->limit_bytes(), " that the task may use (--memory-limit) ",
                 own, " are held by tensors of this session, ", all - own, " by tensors of ", others, " others, ",
                 process - all, " by everything else");
}

constinit thread_local MemoryAccount* MemoryScope::current_ = nullptr;
constinit thread_local std::size_t MemoryScope::unseen_bytes_ = 0;

bool MemoryScope::look(std::size_t bytes) {
  MemoryAccount* const account = std::exchange(current_, nullptr);  // looking takes memory, too
  const bool room = account->budget().has_room(bytes);
  current_ = account;
  if (room) unseen_bytes_ = 0;
  return room;
}

std::string MemoryScope::shortage(std::size_t bytes) {
  if (current_ == nullptr) return "";
  const MemoryScope unchecked(nullptr);
  return str_cat(": ", unchecked.before_->shortage(bytes));
}

}  // namespace tutti

#if !defined(TUTTI_SANITIZED_)

// Weak: a program that brings its own keeps it.
__attribute__((weak)) void* operator new(std::size_t bytes) {
  if (!tutti::MemoryScope::allows(bytes)) throw tutti::OverBudget(*tutti::MemoryScope::current(), bytes);
  while (true) {
    if (void* memory = std::malloc(std::max<std::size_t>(bytes, 1))) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}
__attribute__((weak)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((weak)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
