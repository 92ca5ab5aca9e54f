#include "tutti/transport/shm/shm_transport.h"

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/connection.h"
#include "tutti/transport/shm/internal/listener.h"

namespace tutti {
namespace {

class ShmChannel : public Channel {
 public:
  explicit ShmChannel(std::shared_ptr<shm::Connection> connection) : connection_(std::move(connection)) {}
  ~ShmChannel() override { connection_->close(cancelled("the channel was destroyed")); }

  void call(std::string_view method, Payload request, const CallOptions& options, Done done) override {
    // `done` may destroy the channel.
    const std::shared_ptr<shm::Connection> connection = connection_;
    connection->call(method, request, options, std::move(done));
  }
  std::string describe() const override { return connection_->description(); }

 private:
  const std::shared_ptr<shm::Connection> connection_;
};

// All cores may work while one thread listens.
int default_threads() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency()) + 1); }

}  // namespace

class ShmTransport::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(const ShmOptions& options, CallHandler* handler);
  ~Impl() { stop(); }

  const std::string& name() const { return name_; }
  Allocator& shared_allocator() { return *services_.pool; }
  void help(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience) {
    services_.loop->help(waiter, done, patience);
  }
  std::string ticket(const std::string& task) const {
    return identity_.ticket_key.empty() ? "" : shm::make_ticket(identity_.ticket_key, task);
  }
  Result<std::shared_ptr<Channel>> connect(const std::string& name, std::function<void(Status)> on_lost,
                                           const ShmTicket& ticket);
  void stop();

 private:
  // Those that are open. Shared with them, since a channel may outlive the transport.
  class Connections {
   public:
    // False: no more are taken.
    bool add(const std::shared_ptr<shm::Connection>& connection);
    void remove(shm::Connection* connection);
    std::vector<std::shared_ptr<shm::Connection>> all();
    std::uint64_t next_number() { return ++last_number_; }
    void take_no_more();

   private:
    std::atomic<std::uint64_t> last_number_{0};
    Mutex mu_;
    bool closed_ TUTTI_GUARDED_BY(mu_) = false;
    std::unordered_map<shm::Connection*, std::weak_ptr<shm::Connection>> open_ TUTTI_GUARDED_BY(mu_);
  };

  explicit Impl(shm::Identity identity) : identity_(std::move(identity)) {}
  Status start(const ShmOptions& options, CallHandler* handler);
  static Result<std::shared_ptr<shm::Connection>> open(shm::Joined joined, const shm::ConnectionServices& services,
                                                       const std::shared_ptr<Connections>& connections,
                                                       std::function<void(Status)> on_lost);

  const shm::Identity identity_;
  UniqueFd stopping_;  // readable from stop() on
  std::string name_;
  shm::ConnectionServices services_;
  std::shared_ptr<Connections> connections_ = std::make_shared<Connections>();
  std::shared_ptr<shm::Listener> listener_;
};

bool ShmTransport::Impl::Connections::add(const std::shared_ptr<shm::Connection>& connection) {
  MutexLock lock(mu_);
  if (closed_) return false;
  open_.insert_or_assign(connection.get(), connection);
  return true;
}

void ShmTransport::Impl::Connections::remove(shm::Connection* connection) {
  MutexLock lock(mu_);
  open_.erase(connection);
}

std::vector<std::shared_ptr<shm::Connection>> ShmTransport::Impl::Connections::all() {
  std::vector<std::shared_ptr<shm::Connection>> found;
  MutexLock lock(mu_);
  for (const auto& [key, weak] : open_) {
    if (auto connection = weak.lock()) found.push_back(std::move(connection));
  }
  return found;
}

void ShmTransport::Impl::Connections::take_no_more() {
  MutexLock lock(mu_);
  closed_ = true;
}

Result<std::unique_ptr<ShmTransport::Impl>> ShmTransport::Impl::create(const ShmOptions& options,
                                                                       CallHandler* handler) {
  if (options.clock == nullptr) return invalid_argument("shared memory: no clock");
  if (options.task.size() > shm::kMaxTaskBytes) {
    return invalid_argument("shared memory: a task's name of ", options.task.size(), " bytes");
  }
  shm::Identity identity{.task = options.task, .secret = options.secret, .ticket_key = {}};
  if (options.tickets) {
    TUTTI_ASSIGN_OR_RETURN(identity.ticket_key, shm::random_key());
  }
  std::unique_ptr<Impl> impl(new Impl(std::move(identity)));
  TUTTI_RETURN_IF_ERROR(impl->start(options, handler).with_context(str_cat("shared memory of ", options.task)));
  return impl;
}

Status ShmTransport::Impl::start(const ShmOptions& options, CallHandler* handler) {
  stopping_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopping_) return resource_exhausted(shm::errno_text("eventfd"));
  const int threads = options.threads > 0 ? options.threads : default_threads();
  TUTTI_ASSIGN_OR_RETURN(services_.loop, shm::EventLoop::create({.threads = threads, .polls = options.polls}));
  services_.pool = std::make_shared<shm::SegmentPool>(options.segment_bytes);
  services_.message_memory = make_pool_allocator();
  services_.clock = options.clock;
  services_.handler = handler;
  services_.quick = options.quick;
  services_.message_bytes = std::min<std::uint64_t>(options.message_bytes, shm::kMaxInlineBytes);
  services_.connection_bytes = options.connection_bytes;
  services_.pool->set_dropped([connections = connections_](const std::vector<std::uint64_t>& ids) {
    for (const auto& connection : connections->all()) connection->forget_segments(ids);
  });
  if (handler == nullptr) return {};

  const std::size_t ring_bytes = std::bit_ceil(std::clamp(options.ring_bytes, shm::kMinRingBytes, shm::kMaxRingBytes));
  TUTTI_ASSIGN_OR_RETURN(name_, shm::random_name());
  TUTTI_ASSIGN_OR_RETURN(listener_,
                         shm::Listener::open(name_, identity_, ring_bytes, services_.loop, *options.clock,
                                             [services = services_, connections = connections_](shm::Joined joined) {
                                               // An error has closed the socket, which the peer sees.
                                               (void)open(std::move(joined), services, connections, nullptr);
                                             }));
  return {};
}

Result<std::shared_ptr<shm::Connection>> ShmTransport::Impl::open(shm::Joined joined,
                                                                  const shm::ConnectionServices& services,
                                                                  const std::shared_ptr<Connections>& connections,
                                                                  std::function<void(Status)> on_lost) {
  TUTTI_ASSIGN_OR_RETURN(
      auto connection,
      shm::Connection::open(std::move(joined), services, connections->next_number(), std::move(on_lost),
                            [connections](shm::Connection* closed) { connections->remove(closed); }));
  const Status stopped = cancelled("the transport was stopped");
  if (!connections->add(connection)) {
    connection->close(stopped);
    return stopped;
  }
  // It may have been lost, and removed, before it was added.
  if (!connection->is_open()) connections->remove(connection.get());
  return connection;
}

Result<std::shared_ptr<Channel>> ShmTransport::Impl::connect(const std::string& name,
                                                             std::function<void(Status)> on_lost,
                                                             const ShmTicket& ticket) {
  shm::Identity as = identity_;
  if (!ticket.ticket.empty()) as.task = ticket.task;
  as.secret = shm::with_ticket(as.secret, ticket.ticket);
  TUTTI_ASSIGN_OR_RETURN(shm::Joined joined, shm::join(name, as, stopping_.get()));
  TUTTI_ASSIGN_OR_RETURN(auto connection, open(std::move(joined), services_, connections_, std::move(on_lost)));
  return std::shared_ptr<Channel>(std::make_shared<ShmChannel>(std::move(connection)));
}

void ShmTransport::Impl::stop() {
  const std::uint64_t one = 1;
  if (stopping_) (void)!::write(stopping_.get(), &one, sizeof one);
  connections_->take_no_more();
  if (listener_) listener_->close();
  if (services_.pool) services_.pool->set_dropped(nullptr);
  for (const auto& connection : connections_->all()) connection->close(cancelled("the transport was stopped"));
  if (services_.loop) services_.loop->stop();
}

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(const ShmOptions& options, CallHandler* handler) {
  TUTTI_ASSIGN_OR_RETURN(auto impl, Impl::create(options, handler));
  return std::unique_ptr<ShmTransport>(new ShmTransport(std::move(impl)));
}

ShmTransport::ShmTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShmTransport::~ShmTransport() { stop(); }

const std::string& ShmTransport::name() const { return impl_->name(); }
std::string ShmTransport::ticket(const std::string& task) const { return impl_->ticket(task); }
Allocator& ShmTransport::shared_allocator() { return impl_->shared_allocator(); }
void ShmTransport::help(const void* waiter, const std::atomic<bool>& done, std::chrono::nanoseconds patience) {
  impl_->help(waiter, done, patience);
}
void ShmTransport::stop() { impl_->stop(); }

Result<std::shared_ptr<Channel>> ShmTransport::connect(const std::string& name, std::function<void(Status)> on_lost,
                                                       const ShmTicket& ticket) {
  return impl_->connect(name, std::move(on_lost), ticket);
}

std::string ShmTransport::host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // Names of abstract sockets are those of the network namespace.
  struct stat network {};
  if (::stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return str_cat(boot, "/", network.st_ino, "/", ::geteuid());
}

}  // namespace tutti
