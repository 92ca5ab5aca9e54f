// Strangers that want a server's memory, its time or its files before anybody knows them: others are served meanwhile,
// and memory stays bounded.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/distributed/rpc/raw_connection.h"
#include "tests/distributed/rpc/temporary_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/internal/methods.h"
#include "tutti/distributed/rpc/grpc_transport.h"

namespace tutti::cluster_flood_test {

using namespace std::chrono_literals;
using test::FrameType;
using test::http2_frame;
using test::http2_headers;
using test::http2_hello;
using test::RawConnection;

constexpr std::int64_t kMiB = 1 << 20;
constexpr const char* kToken = "a secret of this cluster, 16 bytes or more";

// One task in a process that may open only so many files.
class SmallServer {
 public:
  SmallServer(int files, const std::vector<std::string>& flags)
      : process_(command(files, flags)), port_(port_in(process_.wait_for_line("listening on"))) {}
  int port() const { return port_; }
  pid_t id() const { return process_.id(); }

  // By a client that has not called before.
  Status call(const SecurityOptions& security, std::chrono::seconds limit) const {
    GrpcClient client({.security = security});
    CallOptions options;
    options.deadline = std::chrono::steady_clock::now() + limit;
    options.wait_for_ready = true;
    std::promise<Status> ended;
    const auto channel = client.channel(str_cat("127.0.0.1:", port_));
    channel->call(methods::kGetStatus, {}, options,
                  [&ended](Status status, const Payload&) { ended.set_value(std::move(status)); });
    return ended.get_future().get();
  }

 private:
  static std::vector<std::string> command(int files, const std::vector<std::string>& flags) {
    std::vector<std::string> all{"/bin/sh", "-c", str_cat("ulimit -n ", files, "; exec \"$@\""), "sh"};
    std::vector<std::string> server = {"--cluster", R"({"local": ["127.0.0.1:0"]})", "--threads=2"};
    server.insert(server.end(), flags.begin(), flags.end());
    for (std::string& part : server_command(server)) all.push_back(std::move(part));
    return all;
  }
  static int port_in(const std::string& line) {
    std::int64_t port = 0;
    EXPECT_TRUE(parse_int64(line.substr(line.rfind(':') + 1), &port)) << line;
    return static_cast<int>(port);
  }

  ChildProcess process_;
  const int port_;
};

class ServerFiles : public ::testing::Test {
 protected:
  static constexpr int kFiles = 60;

  // Far more connections than the server may have files, then none.
  static void fill_file_table(const SmallServer& server) {
    std::vector<RawConnection> connections;
    for (int i = 0; i < 3 * kFiles; ++i) connections.emplace_back(server.port());
    // Accepted or refused in the order of their arrival, so the last is refused when all others were seen.
    connections.back().wait_closed(5'000);
  }
};

TEST_F(ServerFiles, AFullFileTableIsSurvived) {
  const SmallServer server(kFiles, {});
  ASSERT_EQ(server.call({}, 30s), Status());
  for (int round = 0; round < 3; ++round) {
    fill_file_table(server);
    const Status status = server.call({}, 10s);
    ASSERT_TRUE(status.ok()) << "round " << round << ": " << status.to_string();
  }
}

TEST_F(ServerFiles, AFullFileTableIsSurvivedWithCertificates) {
  const test::TemporaryDirectory directory;
  const auto file = [&](const std::string& name) { return directory.path() + "/" + name; };
  ChildProcess certs(tutti_command(
      "certs", {R"(--cluster={"local": ["127.0.0.1:1"], "client": ["127.0.0.1:2"]})", "--out=" + directory.path()}));
  ASSERT_EQ(certs.wait(), 0) << certs.output();
  std::ofstream(file("token")) << kToken << "\n";
  const SmallServer server(kFiles, {"--ca=" + file("ca.pem"), "--cert=" + file("local-0.pem"),
                                    "--key=" + file("local-0.key"), "--join-token-file=" + file("token")});
  const SecurityOptions member{.ca_file = file("ca.pem"),
                               .certificate_file = file("client-0.pem"),
                               .key_file = file("client-0.key"),
                               .join_token = kToken};
  ASSERT_EQ(server.call(member, 30s), Status());
  fill_file_table(server);
  const Status status = server.call(member, 10s);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(ServerFiles, OneHostCannotTakeAllConnections) {
  const SmallServer server(120, {});
  ASSERT_EQ(server.call({}, 30s), Status());
  // Of 120 files 45 are for connections, of which 33 for one host.
  std::vector<RawConnection> taken;
  for (int i = 0; i < 60; ++i) taken.emplace_back(server.port(), "127.0.0.2");
  EXPECT_TRUE(taken.back().wait_closed());
  int open = 0;
  for (RawConnection& connection : taken) {
    if (!connection.wait_closed(0)) ++open;
  }
  EXPECT_EQ(open, 33);
  const Status status = server.call({}, 10s);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

// The frames of an attack, without end.
struct Attack {
  std::string name;
  std::int64_t memory;  // that it may cost
  int median_wait_ms;   // of others
  int longest_wait_ms;
  std::string opening;
  std::function<std::string(int round)> next;
};

std::string open_header(std::string_view value_length) {
  // A literal header "x" whose value has the length that follows.
  return http2_headers(1, methods::kGetStatus, 0) +
         http2_frame(FrameType::kContinuation, 0, 1, std::string("\0\1x", 3) + std::string(value_length));
}

std::vector<Attack> attacks() {
  std::vector<Attack> all;
  // Headers, each of them small, that never end.
  std::string headers;
  while (headers.size() < 16'000) headers += std::string("\0\1x\x64", 4) + std::string(100, 'v');
  const std::string continuation = http2_frame(FrameType::kContinuation, 0, 1, headers);
  all.push_back({"continuation", 50 * kMiB, 100, 1000, http2_headers(1, methods::kGetStatus, 0),
                 [continuation](int) { return continuation; }});
  // One value of 2^31 bytes.
  const std::string length("\x7f\x81\xff\xff\xff\x07", 6);
  const std::string large = http2_frame(FrameType::kContinuation, 0, 1, std::string(16'000, 'v'));
  all.push_back({"one header", 80 * kMiB, 100, 1000, open_header(length), [large](int) { return large; }});
  // The same in tiny pieces.
  std::string pieces;
  while (pieces.size() < 16'000) pieces += http2_frame(FrameType::kContinuation, 0, 1, std::string(16, 'v'));
  all.push_back({"tiny pieces", 50 * kMiB, 100, 1000, open_header(length), [pieces](int) { return pieces; }});
  // Calls that are taken back at once. What counts them comes after what takes them in, so that thousands wait there.
  all.push_back({"resets", 1024 * kMiB, 3000, 10'000, {}, [](int round) {
                   std::string resets;
                   for (int i = 0; i < 100; ++i) {
                     const auto stream = static_cast<std::uint32_t>(2 * (100 * round + i) + 1);
                     resets += http2_headers(stream, methods::kGetStatus) +
                               http2_frame(FrameType::kReset, 0, stream, std::string("\0\0\0\x8", 4));
                   }
                   return resets;
                 }});
  return all;
}

// Clients that attack, each on one connection after the other, until this object goes.
class Attackers {
 public:
  Attackers(const Attack& attack, int port, int clients, bool after_a_call) {
    for (int i = 0; i < clients; ++i) {
      threads_.emplace_back([this, &attack, port, after_a_call] {
        while (!stop_.load()) run(attack, port, after_a_call);
      });
    }
  }
  ~Attackers() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  // Connections on which a server has hung up.
  int closed() const { return closed_.load(); }

 private:
  void run(const Attack& attack, int port, bool after_a_call) {
    RawConnection connection(port);
    std::string first = http2_hello();
    if (after_a_call) first += test::http2_call(1'000'001, methods::kGetStatus);
    if (!connection.send(first)) return;
    if (after_a_call) connection.receive(1 << 20, 100);
    connection.send(attack.opening);
    for (int round = after_a_call ? 10'000 : 0; !stop_.load(); ++round) {
      if (!connection.send(attack.next(round))) {
        ++closed_;
        return;
      }
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<int> closed_{0};
  std::vector<std::thread> threads_;
};

class Floods : public ::testing::TestWithParam<bool> {};

TEST_P(Floods, LeaveOthersServedAndMemoryBounded) {
  const bool after_a_call = GetParam();
  // The bounds are measured in a soak. Machines that run tests may be busy with other things.
  const int slack = stress_factor() > 1 ? 1 : 3;
  for (const Attack& attack : attacks()) {
    SCOPED_TRACE(attack.name);
    const SmallServer server(1024, {});
    ASSERT_EQ(server.call({}, 30s), Status());
    const std::int64_t before = process_counts(server.id()).resident_bytes;
    std::int64_t most = before;
    std::vector<std::int64_t> waits_ms;
    int closed = 0;
    {
      const Attackers attackers(attack, server.port(), 4, after_a_call);
      const auto begin = std::chrono::steady_clock::now();
      const int stress = stress_factor();
      while (waits_ms.size() < 20 || std::chrono::steady_clock::now() < begin + 2s * stress) {
        const auto from = std::chrono::steady_clock::now();
        const Status status = server.call({}, 30s);
        waits_ms.push_back(
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - from).count());
        most = std::max(most, process_counts(server.id()).resident_bytes);
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
      closed = attackers.closed();
    }
    std::sort(waits_ms.begin(), waits_ms.end());
    std::printf("%s: %zu others answered in %ld ms (median), %ld ms (longest); %ld MiB more; %d connections closed\n",
                attack.name.c_str(), waits_ms.size(), static_cast<long>(waits_ms[waits_ms.size() / 2]),
                static_cast<long>(waits_ms.back()), static_cast<long>((most - before) / kMiB), closed);
    EXPECT_LE(waits_ms[waits_ms.size() / 2], slack * attack.median_wait_ms);
    EXPECT_LE(waits_ms.back(), slack * attack.longest_wait_ms);
    EXPECT_LE(most - before, slack * attack.memory);
    EXPECT_GT(closed, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Clients, Floods, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "AfterACall" : "AtOnce"; });

}  // namespace tutti::cluster_flood_test
