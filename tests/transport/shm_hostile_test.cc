// Peers that know the secret, or not, and send nonsense. Others must not notice.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "call_support.h"
#include "tutti/transport/shm/internal/doorbell.h"
#include "tutti/transport/shm/internal/handshake.h"
#include "tutti/transport/shm/internal/message.h"
#include "tutti/transport/shm/internal/ring.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti::shm_hostile_test {

using namespace std::chrono_literals;
using shm::Joined;
using shm::MessageHeader;
using shm::MessageKind;
using shm::Packet;
using shm::PieceHeader;
using shm::Ring;
using shm::RingReader;
using shm::RingWriter;
using test::Answer;
using test::call;
using test::start_call;
using test::TestHandler;

const shm::Identity kHostile{"hostile", "a secret"};

// Throws when nothing comes of it.
void wait_for(int socket, short what) {
  pollfd poll{.fd = socket, .events = what, .revents = 0};
  if (::poll(&poll, 1, 60'000) <= 0) throw_error(deadline_exceeded("nothing to do with a socket for a minute"));
}

// Waits for the other side to close.
void expect_closed(int socket) {
  while (true) {
    pollfd poll{.fd = socket, .events = POLLIN, .revents = 0};
    ASSERT_GT(::poll(&poll, 1, 60'000), 0) << "still open";
    char byte = 0;
    if (::recv(socket, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN && errno != EINTR) return;
    if ((poll.revents & POLLHUP) != 0) return;
  }
}

// The end of a connection that writes whatever it likes into its ring.
struct Attacker {
  explicit Attacker(Joined how) : joined(std::move(how)), writer(outgoing()) {}

  Ring outgoing() { return Ring::at(joined.rings->data(), joined.ring_bytes, joined.connector ? 0 : 1); }
  Ring incoming() { return Ring::at(joined.rings->data(), joined.ring_bytes, joined.connector ? 1 : 0); }
  template <typename T>
  void write(const T& value) {
    writer.write(std::as_bytes(std::span(&value, 1)));
  }
  void write_text(std::string_view text) { writer.write(std::as_bytes(std::span(text))); }
  void ring() {
    writer.publish();
    shm::ring_doorbell(joined.peer_bell.get());
  }

  Joined joined;
  RingWriter writer;
};

class ShmHostileTest : public ::testing::Test {
 protected:
  ShmHostileTest() {
    ShmOptions options;
    options.task = "victim";
    options.secret = "a secret";
    options.clock = clock_.get();
    options.ring_bytes = 1 << 14;
    server_ = ShmTransport::create(options, &handler_).value_or_throw();
    options.task = "friend";
    client_ = ShmTransport::create(options, nullptr).value_or_throw();
    channel_ = client_->connect(server_->name(), nullptr).value_or_throw();
  }
  ~ShmHostileTest() override {
    EXPECT_EQ(call(*channel_, "/echo", Payload("still here")).payload.flatten(), "still here");
  }

  Attacker attack() { return Attacker(shm::join(server_->name(), kHostile).value_or_throw()); }
  UniqueFd raw_connection() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, server_->name().data(), server_->name().size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + server_->name().size());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    return fd;
  }
  // Sends one message; the victim must hang up.
  void expect_refused(const MessageHeader& header, const std::vector<PieceHeader>& pieces = {},
                      std::string_view rest = {}) {
    Attacker attacker = attack();
    attacker.write(header);
    for (const PieceHeader& piece : pieces) attacker.write(piece);
    attacker.write_text(rest);
    attacker.ring();
    expect_closed(attacker.joined.socket.get());
  }

  std::unique_ptr<Clock> clock_ = make_system_clock();
  TestHandler handler_;
  std::unique_ptr<ShmTransport> server_;
  std::unique_ptr<ShmTransport> client_;
  std::shared_ptr<Channel> channel_;
};

MessageHeader call_header(std::uint64_t id, std::uint32_t text_bytes, std::uint32_t pieces,
                          std::uint64_t inline_bytes) {
  return {.kind = static_cast<std::uint32_t>(MessageKind::kCall),
          .code = 0,
          .id = id,
          .text_bytes = text_bytes,
          .pieces = pieces,
          .inline_bytes = inline_bytes};
}

TEST_F(ShmHostileTest, AnHonestMessageIsAnswered) {
  Attacker attacker = attack();
  attacker.write(call_header(1, 5, 1, 3));
  attacker.write(PieceHeader{.segment = 0, .offset = 99, .bytes = 3, .loan = 0});
  attacker.write_text("/echo");
  attacker.write_text("abc");
  attacker.ring();
  RingReader reader(attacker.incoming());
  while (reader.available() < sizeof(MessageHeader) + sizeof(PieceHeader) + 3) {
    ASSERT_TRUE(reader.refresh());
    std::this_thread::sleep_for(1ms);
  }
  MessageHeader reply{};
  reader.read(std::as_writable_bytes(std::span(&reply, 1)));
  EXPECT_EQ(reply.kind, static_cast<std::uint32_t>(MessageKind::kReply));
  EXPECT_EQ(reply.id, 1u);
  EXPECT_EQ(reply.inline_bytes, 3u);
}

TEST_F(ShmHostileTest, MessagesThatCannotBe) {
  const auto message = [](MessageKind kind, std::uint64_t id) {
    return MessageHeader{.kind = static_cast<std::uint32_t>(kind), .code = 0, .id = id};
  };
  expect_refused({.kind = 0});
  expect_refused({.kind = 77});
  expect_refused(message(MessageKind::kReply, 1));        // from the side that calls
  expect_refused(message(MessageKind::kRelease, 1));      // nothing was lent
  expect_refused(message(MessageKind::kForget, 1));       // nothing was shared
  expect_refused({.kind = 3, .id = 1, .text_bytes = 1});  // a cancel with parts
  expect_refused({.kind = 1, .code = 1000});
  expect_refused(call_header(1, 0xffffffff, 0, 0));
  expect_refused(call_header(1, 0, 0xffffffff, 0));
  expect_refused(call_header(1, 0, 0, ~0ull));
  expect_refused(call_header(1, 0, 0, 5));  // bytes of no piece
  const PieceHeader empty{};
  const PieceHeader large{.segment = 0, .offset = 0, .bytes = ~0ull, .loan = 0};
  const PieceHeader three{.segment = 0, .offset = 0, .bytes = 3, .loan = 0};
  const PieceHeader nowhere{.segment = 5, .offset = 0, .bytes = 3, .loan = 0};
  expect_refused(call_header(1, 0, 1, 0), {empty});
  expect_refused(call_header(1, 0, 1, 3), {large});
  expect_refused(call_header(1, 0, 2, 5), {three, three});
  expect_refused(call_header(1, 0, 2, ~0ull - 10), {large, three});
  expect_refused(call_header(1, 0, 1, 0), {nowhere});
  EXPECT_EQ(handler_.calls, 0);
}

TEST_F(ShmHostileTest, TheSameCallTwice) {
  Attacker attacker = attack();
  for (int i = 0; i < 2; ++i) {
    attacker.write(call_header(7, 5, 0, 0));
    attacker.write_text("/wait");
  }
  attacker.ring();
  expect_closed(attacker.joined.socket.get());
  while (handler_.waiting != 0) std::this_thread::sleep_for(1ms);
}

TEST_F(ShmHostileTest, PositionsThatCannotBe) {
  for (const std::uint64_t position : {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{(1 << 14) + 1}}) {
    Attacker ahead = attack();
    ahead.outgoing().control->tail.store(position);
    shm::ring_doorbell(ahead.joined.peer_bell.get());
    expect_closed(ahead.joined.socket.get());

    // Seen when the victim wants to write its reply.
    Attacker behind = attack();
    behind.incoming().control->head.store(position);
    behind.write(call_header(1, 5, 0, 0));
    behind.write_text("/echo");
    behind.ring();
    expect_closed(behind.joined.socket.get());
  }
}

TEST_F(ShmHostileTest, ReferencesOutsideOfTheSegment) {
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{4096, 1}, {0, 4097}, {~0ull, 2}, {1, ~0ull}}) {
    Attacker attacker = attack();
    const UniqueFd file = shm::make_memory_file("hostile", 4096).value_or_throw();
    Packet packet = Packet::make(Packet::kSegment);
    packet.id = 9;
    packet.bytes = 4096;
    ASSERT_TRUE(shm::send_packet(attacker.joined.socket.get(), packet, std::array{file.get()}).ok());
    attacker.write(call_header(1, 5, 1, 0));
    attacker.write(PieceHeader{.segment = 9, .offset = offset, .bytes = bytes, .loan = 1});
    attacker.write_text("/echo");
    attacker.ring();
    expect_closed(attacker.joined.socket.get());
  }
  EXPECT_EQ(handler_.calls, 0);
}

TEST_F(ShmHostileTest, SegmentsThatCannotBeTrusted) {
  const auto share = [&](int fd, std::uint64_t bytes, int times = 1) {
    Attacker attacker = attack();
    Packet packet = Packet::make(Packet::kSegment);
    packet.id = 9;
    packet.bytes = bytes;
    for (int i = 0; i < times; ++i) (void)shm::send_packet(attacker.joined.socket.get(), packet, std::array{fd});
    expect_closed(attacker.joined.socket.get());
  };
  const UniqueFd sealed = shm::make_memory_file("hostile", 4096).value_or_throw();
  share(sealed.get(), 4097);
  share(sealed.get(), 0);
  share(sealed.get(), ~0ull);
  share(sealed.get(), 4096, 2);
  const UniqueFd open(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 4096), 0);
  share(open.get(), 4096);  // could be cut short while it is read
  const UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  share(zero.get(), 4096);

  Attacker without = attack();
  ASSERT_TRUE(shm::send_packet(without.joined.socket.get(), Packet::make(Packet::kSegment)).ok());
  expect_closed(without.joined.socket.get());
  Attacker again = attack();
  ASSERT_TRUE(shm::send_packet(again.joined.socket.get(), Packet::make(Packet::kHello)).ok());
  expect_closed(again.joined.socket.get());
}

TEST_F(ShmHostileTest, BadHandshakes) {
  const auto expect_hung_up = [&](const std::vector<Packet>& packets) {
    const UniqueFd fd = raw_connection();
    for (const Packet& packet : packets) (void)shm::send_packet(fd.get(), packet);
    expect_closed(fd.get());
  };
  Packet old = Packet::make(Packet::kHello);
  old.version = 0;
  Packet long_name = Packet::make(Packet::kHello);
  long_name.text_bytes = 100'000;
  expect_hung_up({old});
  expect_hung_up({long_name});
  expect_hung_up({Packet::make(Packet::kProof)});
  expect_hung_up({Packet::make(Packet::kWelcome)});
  expect_hung_up({Packet::make(Packet::kHello), Packet::make(Packet::kHello)});
  expect_hung_up({Packet::make(Packet::kHello), Packet::make(Packet::kProof)});  // a proof of nothing
  expect_hung_up({Packet{}});
  const UniqueFd fd = raw_connection();
  ASSERT_EQ(::send(fd.get(), "GET / HTTP/1.1", 14, 0), 14);
  expect_closed(fd.get());
  // Many that say nothing do not keep others out for ever: those beyond the limit are sent away at once.
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(raw_connection());
}

TEST_F(ShmHostileTest, AnotherVersionIsToldSo) {
  const UniqueFd fd = raw_connection();
  Packet hello = Packet::make(Packet::kHello);
  hello.version = 99;
  ASSERT_TRUE(shm::send_packet(fd.get(), hello).ok());
  pollfd poll{.fd = fd.get(), .events = POLLIN, .revents = 0};
  ASSERT_GT(::poll(&poll, 1, 60'000), 0);
  const auto answer = shm::receive_packet(fd.get());
  ASSERT_TRUE(answer.ok() && *answer);
  EXPECT_EQ((*answer)->packet.kind, Packet::kRefusal);
  EXPECT_EQ((*answer)->packet.code, static_cast<std::uint32_t>(Code::kFailedPrecondition));
}

// A header that is nearly right.
MessageHeader random_header(std::mt19937_64& random) {
  const auto few = [&](std::uint64_t limit) { return random() % 50 == 0 ? random() : random() % limit; };
  return {.kind = static_cast<std::uint32_t>(few(6)),
          .code = static_cast<std::uint32_t>(few(20)),
          .id = few(4),
          .text_bytes = static_cast<std::uint32_t>(few(8)),
          .pieces = static_cast<std::uint32_t>(few(3)),
          .inline_bytes = few(100)};
}

PieceHeader random_piece(std::mt19937_64& random) {
  const auto few = [&](std::uint64_t limit) { return random() % 50 == 0 ? random() : random() % limit; };
  return {.segment = few(3), .offset = few(5000), .bytes = few(100), .loan = few(3)};
}

void write_nonsense(Attacker& attacker, std::mt19937_64& random) {
  for (int i = 0; i < 20; ++i) {
    if (random() % 4 == 0) {
      attacker.write(random());
    } else {
      const MessageHeader header = random_header(random);
      attacker.write(header);
      for (std::uint32_t p = 0; p < std::min<std::uint32_t>(header.pieces, 4); ++p)
        attacker.write(random_piece(random));
      attacker.write_text(std::string(header.text_bytes % 64, '/'));
      attacker.write_text(std::string(header.inline_bytes % 256, 'x'));
    }
  }
  if (random() % 8 == 0) attacker.outgoing().control->tail.store(random());
  if (random() % 8 == 0) attacker.incoming().control->head.store(random());
  attacker.outgoing().control->writer_waits.store(static_cast<std::uint32_t>(random()));
  attacker.incoming().control->reader_sleeps.store(static_cast<std::uint32_t>(random()));
}

void share_something(Attacker& attacker, std::mt19937_64& random) {
  const UniqueFd file = shm::make_memory_file("hostile", 4096).value_or_throw();
  Packet packet = Packet::make(Packet::kSegment);
  packet.id = random() % 3;
  packet.bytes = random() % 10 == 0 ? random() : 4096;
  if (random() % 10 == 0) packet.kind = static_cast<std::uint32_t>(random() % 10);
  (void)shm::send_packet(attacker.joined.socket.get(), packet, std::array{file.get()});
}

TEST_F(ShmHostileTest, SeededNonsenseIntoAServer) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    Attacker attacker = attack();
    share_something(attacker, random);
    write_nonsense(attacker, random);
    attacker.ring();
    if (seed % 10 == 0) {
      ASSERT_EQ(call(*channel_, "/echo", Payload(str_cat(seed))).payload.flatten(), str_cat(seed)) << "seed " << seed;
    }
  }
}

// Listens, shakes hands as it should, then goes wrong.
Joined accept_one(int listener) {
  while (true) {
    wait_for(listener, POLLIN);
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) continue;
    const int fd = socket.get();
    shm::Acceptance acceptance(std::move(socket), {}, kHostile, 1 << 14);
    while (true) {
      wait_for(fd, POLLIN);
      const auto received = shm::receive_packet(fd);
      if (received.ok() && *received && acceptance.take((*received)->packet).value_or_throw()) break;
    }
    return acceptance.finish().value_or_throw();
  }
}

// What joining a listener ends with that shakes hands as it should, but whose welcome was changed on its way.
Status end_of_joining(const std::function<void(shm::Received&)>& change) {
  const std::string name = shm::random_name().value_or_throw();
  const UniqueFd listener = shm::listen_on(name).value_or_throw();
  auto joining = std::async(std::launch::async, [&] { return shm::join(name, kHostile).status(); });
  wait_for(listener.get(), POLLIN);
  const UniqueFd guest(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
  shm::Acceptance host(UniqueFd(pair[0]), {}, kHostile, 1 << 14);
  const UniqueFd from_host(pair[1]);
  bool greeted = false;
  while (!greeted) {
    wait_for(guest.get(), POLLIN);
    greeted = host.take(shm::receive_packet(guest.get()).value_or_throw().value().packet).value_or_throw();
    if (greeted) host.finish().value_or_throw();
    auto answer = shm::receive_packet(from_host.get()).value_or_throw().value();
    if (greeted) change(answer);
    std::vector<int> fds;
    for (const UniqueFd& fd : answer.fds) fds.push_back(fd.get());
    throw_if_error(shm::send_packet(guest.get(), answer.packet, fds));
  }
  return joining.get();
}

TEST_F(ShmHostileTest, WelcomesThatAreNotWhatTheyShouldBe) {
  EXPECT_TRUE(end_of_joining([](shm::Received&) {}).ok());
  const auto expect_refused = [](std::string_view why, const std::function<void(shm::Received&)>& change) {
    const Status end = end_of_joining(change);
    EXPECT_EQ(end.code(), Code::kDataLoss) << end.to_string();
    EXPECT_NE(end.message().find(why), std::string::npos) << end.to_string();
  };
  expect_refused("2 descriptors", [](shm::Received& welcome) { welcome.fds.pop_back(); });
  expect_refused("rings of 16385 bytes", [](shm::Received& welcome) { welcome.packet.bytes += 1; });
  for (const std::size_t bell : {1, 2}) {
    expect_refused("would make who rings it wait",
                   [bell](shm::Received& welcome) { welcome.fds[bell] = UniqueFd(::eventfd(0, EFD_CLOEXEC)); });
    expect_refused("instead of a doorbell", [bell](shm::Received& welcome) {
      std::array<int, 2> pipe{};
      EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
      welcome.fds[bell] = UniqueFd(pipe[1]);
      ::close(pipe[0]);
    });
    expect_refused("instead of a doorbell", [bell](shm::Received& welcome) {
      welcome.fds[bell] = shm::make_memory_file("no bell", 4096).value_or_throw();
    });
  }
  for (const std::size_t too_few : {std::size_t{4096}, std::size_t{1} << 15}) {
    expect_refused("", [too_few](shm::Received& welcome) {
      welcome.fds[0] = shm::make_memory_file("too small", too_few).value_or_throw();
    });
  }
}

TEST_F(ShmHostileTest, AListenerThatNeverAnswersIsNotWaitedForAfterAStop) {
  const std::string name = shm::random_name().value_or_throw();
  const UniqueFd listener = shm::listen_on(name).value_or_throw();
  const UniqueFd stop(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto joined = shm::join(name, kHostile, stop.get());
  EXPECT_EQ(joined.status().code(), Code::kCancelled) << joined.status().to_string();
  EXPECT_EQ(shm::join(name, kHostile).status().code(), Code::kUnavailable);
  ShmOptions options;
  options.task = "stopped";
  options.clock = clock_.get();
  auto stopped = ShmTransport::create(options, nullptr).value_or_throw();
  stopped->stop();
  EXPECT_EQ(stopped->connect(name, nullptr).status().code(), Code::kCancelled);
}

TEST_F(ShmHostileTest, SeededNonsenseIntoAClient) {
  const std::string name = shm::random_name().value_or_throw();
  const UniqueFd listener = shm::listen_on(name).value_or_throw();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    auto accepted = std::async(std::launch::async, [&] { return accept_one(listener.get()); });
    auto channel = client_->connect(name, nullptr).value_or_throw();
    Attacker attacker(accepted.get());
    auto first = start_call(*channel, "/first", Payload("x"));
    auto second = start_call(*channel, "/second", Payload(std::string(100'000, 'y')));
    share_something(attacker, random);
    write_nonsense(attacker, random);
    attacker.ring();
    if (seed % 2 == 0) attacker.joined.socket.reset();
    if (seed % 2 == 1) channel.reset();
    for (auto* future : {&first, &second}) {
      const Status status = future->get().status;  // some nonsense is a fair reply
      if (status.code() == Code::kDataLoss) {
        EXPECT_NE(status.message().find("hostile"), std::string::npos) << status.to_string();
      }
    }
  }
}

TEST_F(ShmHostileTest, APeerThatNeverStopsWritingDoesNotKeepOthersOut) {
  Attacker attacker = attack();
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    while (!stop) {
      if (!attacker.writer.refresh()) return;
      while (attacker.writer.room() >= sizeof(MessageHeader)) {
        attacker.write(MessageHeader{.kind = static_cast<std::uint32_t>(MessageKind::kCancel), .code = 0, .id = 5});
      }
      attacker.ring();
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(call(*channel_, "/echo").status.ok());
  stop = true;
  flood.join();
}

TEST_F(ShmHostileTest, PeersThatNeverStopRingingDoNotKeepOthersOut) {
  std::vector<Attacker> attackers;  // all are in before the first rings: joining has a time limit
  for (int i = 0; i < 4; ++i) attackers.push_back(attack());
  std::atomic<bool> stop{false};
  std::vector<std::thread> floods;
  for (const Attacker& attacker : attackers) {
    floods.emplace_back([&stop, bell = attacker.joined.peer_bell.get()] {
      while (!stop) shm::ring_doorbell(bell);
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(call(*channel_, "/echo").status.ok());
  stop = true;
  for (std::thread& flood : floods) flood.join();
}

// A segment is found behind all the others that a socket holds, as are its bytes.
TEST_F(ShmHostileTest, ASegmentBehindManyOthers) {
  Attacker attacker = attack();
  const UniqueFd file = shm::make_memory_file("many", 4096).value_or_throw();
  constexpr std::uint64_t kSegments = 100;
  for (std::uint64_t id = 1; id <= kSegments; ++id) {
    Packet packet = Packet::make(Packet::kSegment);
    packet.id = id;
    packet.bytes = 4096;
    while (!shm::send_packet(attacker.joined.socket.get(), packet, std::array{file.get()}).ok()) {
      pollfd room{.fd = attacker.joined.socket.get(), .events = POLLOUT, .revents = 0};
      ASSERT_GT(::poll(&room, 1, 60'000), 0) << "nobody reads what was sent";
      ASSERT_EQ(room.revents & (POLLHUP | POLLERR), 0) << "it has hung up";
    }
  }
  attacker.write(call_header(1, 5, 1, 0));
  attacker.write(PieceHeader{.segment = kSegments, .offset = 0, .bytes = 4096, .loan = 1});
  attacker.write_text("/hold");
  attacker.ring();
  test::wait_until([&] { return handler_.calls > 0; });
  EXPECT_EQ(handler_.calls, 1);
}

TEST_F(ShmHostileTest, AClientThatNeverReadsItsReplies) {
  Attacker attacker = attack();
  std::uint64_t id = 1;
  // More replies than are kept for it.
  while (id < 200'000) {
    if (!attacker.writer.refresh()) break;
    while (attacker.writer.room() >= sizeof(MessageHeader) + 8) {
      attacker.write(call_header(id++, 8, 0, 0));
      attacker.write_text("/nothing");
    }
    attacker.ring();
    pollfd poll{.fd = attacker.joined.socket.get(), .events = POLLIN, .revents = 0};
    if (::poll(&poll, 1, 0) > 0) break;
  }
  expect_closed(attacker.joined.socket.get());
  // Calls beyond those that may wait to be served are refused, which is a reply, too, and never reach the handler.
  EXPECT_GT(id, std::uint64_t{1} << 16) << "none before the limit";
  EXPECT_GT(handler_.calls, 0);
}

}  // namespace tutti::shm_hostile_test
