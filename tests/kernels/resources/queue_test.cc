#include "tutti/kernels/resources/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace tutti::queue_test {

std::shared_ptr<Queue> make_queue(std::int64_t capacity = -1, bool shapes = true) {
  QueueOptions options{.name = "q", .component_types = {DType::kInt32}, .capacity = capacity};
  if (shapes) options.shapes = {PartialShape::scalar()};
  return Queue::create(options).value_or_throw();
}

Queue::Tuple item(std::int32_t value) { return {Tensor::scalar(value)}; }

// What a call was answered, if it was.
struct Answer {
  std::optional<Status> status;
  Queue::Tuple tuple;
  bool ok() const { return status && status->ok(); }
  std::int32_t value() const { return tuple[0].scalar<std::int32_t>(); }

  Queue::EnqueueDone enqueued() {
    return [this](Status s) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
    };
  }
  Queue::DequeueDone dequeued() {
    return [this](Status s, Queue::Tuple t) {
      EXPECT_FALSE(status) << "done ran twice";
      status = std::move(s);
      tuple = std::move(t);
    };
  }
};

class QueueTest : public ::testing::Test {
 protected:
  Cancellation cancellation_;
};

TEST_F(QueueTest, FirstInFirstOut) {
  auto queue = make_queue();
  for (int i = 0; i < 3; ++i) {
    Answer put;
    queue->try_enqueue(item(i), cancellation_, put.enqueued());
    EXPECT_TRUE(put.ok());
  }
  EXPECT_EQ(queue->size(), 3);
  for (int i = 0; i < 3; ++i) {
    Answer got;
    queue->try_dequeue(cancellation_, got.dequeued());
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value(), i);
  }
}

TEST_F(QueueTest, WaitingDequeuesAreServedInOrder) {
  auto queue = make_queue();
  Answer first, second, put;
  queue->try_dequeue(cancellation_, first.dequeued());
  queue->try_dequeue(cancellation_, second.dequeued());
  EXPECT_FALSE(first.status);
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first.value(), 1);
  EXPECT_FALSE(second.status);
  Answer put2;
  queue->try_enqueue(item(2), cancellation_, put2.enqueued());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value(), 2);
}

TEST_F(QueueTest, FullQueueMakesEnqueuesWait) {
  auto queue = make_queue(/*capacity=*/1);
  Answer a, b, got;
  queue->try_enqueue(item(1), cancellation_, a.enqueued());
  queue->try_enqueue(item(2), cancellation_, b.enqueued());
  EXPECT_TRUE(a.ok());
  EXPECT_FALSE(b.status);
  queue->try_dequeue(cancellation_, got.dequeued());
  EXPECT_EQ(got.value(), 1);
  EXPECT_TRUE(b.ok());
  EXPECT_EQ(queue->size(), 1);
}

TEST_F(QueueTest, BatchLargerThanTheCapacityPassesThrough) {
  auto queue = make_queue(/*capacity=*/2);
  Answer put, got;
  queue->try_enqueue_many({Tensor::vector<std::int32_t>({1, 2, 3, 4, 5})}, cancellation_, put.enqueued());
  EXPECT_FALSE(put.status);
  EXPECT_EQ(queue->size(), 2);
  queue->try_dequeue_many(5, false, cancellation_, got.dequeued());
  ASSERT_TRUE(got.ok()) << got.status->to_string();
  EXPECT_TRUE(put.ok());
  EXPECT_TRUE(bitwise_equal(got.tuple[0], Tensor::vector<std::int32_t>({1, 2, 3, 4, 5})));
}

TEST_F(QueueTest, EmptyBatches) {
  auto queue = make_queue();
  Answer put, got;
  queue->try_enqueue_many({Tensor(DType::kInt32, {0})}, cancellation_, put.enqueued());
  EXPECT_TRUE(put.ok());
  queue->try_dequeue_many(0, false, cancellation_, got.dequeued());
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got.tuple[0].shape(), (Shape{0}));
}

TEST_F(QueueTest, ClosedQueueDrainsThenEnds) {
  auto queue = make_queue();
  Answer put, closed, late, got, end;
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  queue->close(false, cancellation_, closed.enqueued());
  EXPECT_TRUE(closed.ok());
  EXPECT_TRUE(queue->closed());
  queue->try_enqueue(item(2), cancellation_, late.enqueued());
  EXPECT_EQ(*late.status, cancelled("FIFOQueue 'q' is closed."));
  queue->try_dequeue(cancellation_, got.dequeued());
  EXPECT_EQ(got.value(), 1);
  queue->try_dequeue(cancellation_, end.dequeued());
  EXPECT_EQ(*end.status,
            out_of_range("FIFOQueue 'q' is closed and has insufficient elements (requested 1, current size 0)"));
}

TEST_F(QueueTest, ClosingTwiceIsAnErrorUnlessItCancels) {
  auto queue = make_queue();
  Answer first, second, third;
  queue->close(false, cancellation_, first.enqueued());
  EXPECT_TRUE(first.ok());
  queue->close(false, cancellation_, second.enqueued());
  EXPECT_EQ(*second.status, cancelled("Queue 'q' is already closed."));
  queue->close(true, cancellation_, third.enqueued());
  EXPECT_TRUE(third.ok());
}

TEST_F(QueueTest, ACloseThatWaitsCanBeCancelled) {
  auto queue = make_queue(/*capacity=*/1);
  Answer put, pending, closed;
  Cancellation stop;
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  queue->try_enqueue(item(2), cancellation_, pending.enqueued());
  queue->close(false, stop, closed.enqueued());
  EXPECT_FALSE(closed.status);
  stop.cancel(cancelled("enough"));
  EXPECT_EQ(*closed.status, cancelled("Close operation was cancelled"));
  EXPECT_FALSE(queue->closed());
}

TEST_F(QueueTest, CloseEndsWaitingDequeues) {
  auto queue = make_queue();
  Answer waiting, put, closed;
  queue->try_dequeue_many(3, false, cancellation_, waiting.dequeued());
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  EXPECT_FALSE(waiting.status);
  queue->close(false, cancellation_, closed.enqueued());
  EXPECT_EQ(*waiting.status,
            out_of_range("FIFOQueue 'q' is closed and has insufficient elements (requested 3, current size 1)"));
  EXPECT_EQ(queue->size(), 1) << "what the failed attempt had taken is gone";
}

TEST_F(QueueTest, UpToTakesWhatIsLeft) {
  auto queue = make_queue();
  Answer put, waiting, closed, nothing;
  queue->try_enqueue_many({Tensor::vector<std::int32_t>({1, 2})}, cancellation_, put.enqueued());
  queue->try_dequeue_many(3, true, cancellation_, waiting.dequeued());
  EXPECT_FALSE(waiting.status);
  queue->close(false, cancellation_, closed.enqueued());
  ASSERT_TRUE(waiting.ok());
  EXPECT_EQ(waiting.tuple[0].shape(), (Shape{2}));
  queue->try_dequeue_many(3, true, cancellation_, nothing.dequeued());
  EXPECT_EQ(nothing.status->code(), Code::kOutOfRange);
}

TEST_F(QueueTest, CloseWaitsForEnqueuesOrCancelsThem) {
  for (const bool cancel_pending : {false, true}) {
    auto queue = make_queue(/*capacity=*/1);
    Answer a, pending, closed;
    queue->try_enqueue(item(1), cancellation_, a.enqueued());
    queue->try_enqueue(item(2), cancellation_, pending.enqueued());
    queue->close(cancel_pending, cancellation_, closed.enqueued());
    EXPECT_EQ(closed.status.has_value(), cancel_pending);
    Answer got, got2;
    queue->try_dequeue(cancellation_, got.dequeued());
    EXPECT_EQ(got.value(), 1);
    queue->try_dequeue(cancellation_, got2.dequeued());
    if (cancel_pending) {
      EXPECT_EQ(*pending.status, cancelled("Enqueue operation was cancelled"));
      EXPECT_EQ(got2.status->code(), Code::kOutOfRange);
    } else {
      EXPECT_TRUE(pending.ok());
      EXPECT_EQ(got2.value(), 2);
      EXPECT_TRUE(closed.ok());
    }
  }
}

TEST_F(QueueTest, CancellationAnswersAtOnce) {
  auto queue = make_queue(/*capacity=*/1);
  Cancellation other;
  Answer waiting, second, put;
  queue->try_dequeue_many(2, false, other, waiting.dequeued());
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  queue->try_dequeue(cancellation_, second.dequeued());
  other.cancel(cancelled("the step was cancelled"));
  EXPECT_EQ(*waiting.status, cancelled("Dequeue operation was cancelled"));
  ASSERT_TRUE(second.ok()) << "what the cancelled attempt had taken must go to the next";
  EXPECT_EQ(second.value(), 1);

  Answer late, full, stuck;
  queue->try_dequeue(other, late.dequeued());
  EXPECT_EQ(*late.status, cancelled("Dequeue operation was cancelled"));
  Cancellation third;
  queue->try_enqueue(item(5), cancellation_, full.enqueued());
  queue->try_enqueue(item(6), third, stuck.enqueued());
  EXPECT_FALSE(stuck.status);
  third.cancel(cancelled("no"));
  EXPECT_EQ(*stuck.status, cancelled("Enqueue operation was cancelled"));
}

TEST_F(QueueTest, WhoWaitsInAResetQueueIsTold) {
  auto queue = make_queue(1);
  Answer got, put, second, late;
  queue->try_dequeue_many(2, false, cancellation_, got.dequeued());
  queue->try_enqueue(item(1), cancellation_, put.enqueued());
  EXPECT_TRUE(put.ok());
  EXPECT_FALSE(got.status);
  queue->abandon();
  ASSERT_TRUE(got.status);
  EXPECT_EQ(*got.status, aborted("FIFOQueue 'q' was reset or destroyed"));
  queue->try_dequeue(cancellation_, late.dequeued());
  ASSERT_TRUE(late.status);
  EXPECT_EQ(late.status->code(), Code::kAborted);
  queue->try_enqueue(item(2), cancellation_, second.enqueued());
  EXPECT_EQ(second.status->code(), Code::kAborted) << "nobody could take it";
}

TEST_F(QueueTest, TuplesMustFit) {
  auto queue = make_queue();
  Answer dtype, shape, count, batch, negative;
  queue->try_enqueue({Tensor::scalar(1.0f)}, cancellation_, dtype.enqueued());
  EXPECT_EQ(*dtype.status, invalid_argument("Type mismatch in tuple component 0. Expected int32, got float"));
  queue->try_enqueue({Tensor::vector<std::int32_t>({1})}, cancellation_, shape.enqueued());
  EXPECT_EQ(shape.status->code(), Code::kInvalidArgument);
  queue->try_enqueue({}, cancellation_, count.enqueued());
  EXPECT_EQ(count.status->code(), Code::kInvalidArgument);
  queue->try_enqueue_many({Tensor::scalar(std::int32_t{1})}, cancellation_, batch.enqueued());
  EXPECT_EQ(batch.status->code(), Code::kInvalidArgument);
  queue->try_dequeue_many(-1, false, cancellation_, negative.dequeued());
  EXPECT_EQ(negative.status->code(), Code::kInvalidArgument);
  Answer no_shapes;
  make_queue(-1, /*shapes=*/false)->try_dequeue_many(1, false, cancellation_, no_shapes.dequeued());
  EXPECT_EQ(no_shapes.status->code(), Code::kInvalidArgument);
}

TEST_F(QueueTest, BadOptions) {
  EXPECT_FALSE(Queue::create({.name = "q"}).ok());
  EXPECT_FALSE(Queue::create({.name = "q", .component_types = {DType::kInt32}, .shapes = {PartialShape{-1}}}).ok());
  EXPECT_FALSE(Queue::create({.name = "q", .component_types = {DType::kInt32}, .shapes = {{1}, {2}}}).ok());
}

TEST_F(QueueTest, ShuffledAsTensorFlowDoes) {
  // What TensorFlow 2.15's RandomShuffleQueueV2 gave for these seeds.
  auto queue = Queue::create({.kind = QueueKind::kShuffle,
                              .name = "q",
                              .component_types = {DType::kInt32},
                              .shapes = {PartialShape::scalar()},
                              .min_after_dequeue = 2,
                              .seed = 7,
                              .seed2 = 9})
                   .value_or_throw();
  Answer put;
  queue->try_enqueue_many({Tensor::vector<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}, cancellation_,
                          put.enqueued());
  for (const int expected : {7, 8, 10, 1}) {
    Answer got;
    queue->try_dequeue(cancellation_, got.dequeued());
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got.value(), expected);
  }
  Answer five, two, closed;
  queue->try_dequeue_many(5, false, cancellation_, five.dequeued());
  ASSERT_TRUE(five.ok());
  EXPECT_TRUE(bitwise_equal(five.tuple[0], Tensor::vector<std::int32_t>({9, 5, 4, 0, 11})));
  queue->try_dequeue_many(2, false, cancellation_, two.dequeued());
  EXPECT_FALSE(two.status) << "one of three may leave while two must stay";
  queue->close(false, cancellation_, closed.enqueued());
  ASSERT_TRUE(two.ok()) << two.status->to_string();
  EXPECT_EQ(queue->size(), 1);
}

TEST_F(QueueTest, PaddingStacksDifferentShapes) {
  auto queue = Queue::create({.kind = QueueKind::kPadding,
                              .name = "q",
                              .component_types = {DType::kInt32, DType::kString},
                              .shapes = {PartialShape{-1, 2}, PartialShape{-1}}})
                   .value_or_throw();
  Answer a, b, wrong, wrong_batch, single;
  queue->try_enqueue({Tensor::of<std::int32_t>({1, 2}, {1, 2}), Tensor::vector<std::string>({"x", "y"})}, cancellation_,
                     a.enqueued());
  queue->try_enqueue({Tensor::of<std::int32_t>({2, 2}, {3, 4, 5, 6}), Tensor(DType::kString, {0})}, cancellation_,
                     b.enqueued());
  Answer both, none;
  queue->try_dequeue_many(2, false, cancellation_, both.dequeued());
  ASSERT_TRUE(both.ok()) << both.status->to_string();
  EXPECT_TRUE(bitwise_equal(both.tuple[0], Tensor::of<std::int32_t>({2, 2, 2}, {1, 2, 0, 0, 3, 4, 5, 6})));
  EXPECT_TRUE(bitwise_equal(both.tuple[1], Tensor::of<std::string>({2, 2}, {"x", "y", "", ""})));
  queue->try_dequeue_many(0, false, cancellation_, none.dequeued());
  EXPECT_EQ(none.tuple[0].shape(), (Shape{0, 0, 2}));
  queue->try_enqueue({Tensor(DType::kInt32, {1, 3}), Tensor(DType::kString, {0})}, cancellation_, wrong.enqueued());
  EXPECT_EQ(wrong.status->message(), "Shape mismatch in tuple component 0. Expected [?,2], got [1,3]");
  queue->try_enqueue_many({Tensor(DType::kInt32, {5, 1, 3}), Tensor(DType::kString, {5, 0})}, cancellation_,
                          wrong_batch.enqueued());
  EXPECT_EQ(wrong_batch.status->message(), "Shape mismatch in tuple component 0. Expected [5,?,2], got [5,1,3]");
}

Queue::Tuple ranked(std::int64_t priority, std::int32_t value) {
  return {Tensor::scalar(priority), Tensor::scalar(value)};
}

TEST_F(QueueTest, PriorityTakesTheLeastFirst) {
  auto queue = Queue::create({.kind = QueueKind::kPriority,
                              .name = "q",
                              .component_types = {DType::kInt64, DType::kInt32},
                              .shapes = {PartialShape::scalar(), PartialShape::scalar()}})
                   .value_or_throw();
  for (const auto& [priority, value] : {std::pair{3, 0}, {-1, 1}, {3, 2}, {2, 3}}) {
    Answer put;
    queue->try_enqueue(ranked(priority, value), cancellation_, put.enqueued());
    EXPECT_TRUE(put.ok());
  }
  Cancellation other;
  Answer waiting, all;
  queue->try_dequeue_many(5, false, other, waiting.dequeued());
  EXPECT_FALSE(waiting.status);
  other.cancel(cancelled("no"));
  queue->try_dequeue_many(4, false, cancellation_, all.dequeued());
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(bitwise_equal(all.tuple[0], Tensor::vector<std::int64_t>({-1, 2, 3, 3})));
  EXPECT_TRUE(bitwise_equal(all.tuple[1], Tensor::vector<std::int32_t>({1, 3, 0, 2})));
}

TEST_F(QueueTest, BadOptionsOfKinds) {
  const auto refuse = [](QueueOptions options, const std::string& text) {
    const auto queue = Queue::create(std::move(options));
    ASSERT_FALSE(queue.ok());
    EXPECT_EQ(queue.status(), invalid_argument(text));
  };
  refuse({.kind = QueueKind::kShuffle, .component_types = {DType::kInt32}, .capacity = 5, .min_after_dequeue = 5},
         "min_after_dequeue 5 must be < capacity 5");
  refuse({.kind = QueueKind::kShuffle, .component_types = {DType::kInt32}, .min_after_dequeue = -1},
         "min_after_dequeue -1 must be >= 0");
  refuse({.kind = QueueKind::kPadding, .component_types = {DType::kInt32}},
         "Shapes must be provided for all components, but received 1 dtypes and 0 shapes.");
  refuse({.kind = QueueKind::kPadding, .component_types = {DType::kInt32}, .shapes = {PartialShape()}},
         "shape <unknown> must have known rank.");
  refuse({.component_types = {DType::kFloat, DType::kFloat}, .shapes = {PartialShape{1}}},
         "Different number of component types.  Types: float, float, Shapes: [[1]]");
  EXPECT_FALSE(Queue::create({.kind = QueueKind::kPriority, .component_types = {DType::kFloat}}).ok());
}

TEST_F(QueueTest, ThreadsLoseAndRepeatNothing) {
  constexpr int kItems = 2000;
  auto queue = make_queue(/*capacity=*/7);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> answers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) {
        queue->try_enqueue(item(t * kItems + i), cancellation_, [&](Status s) { answers += s.ok(); });
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kItems; ++i) {
        queue->try_dequeue(cancellation_, [&](Status s, Queue::Tuple tuple) {
          answers += s.ok();
          if (s.ok()) sum += tuple[0].scalar<std::int32_t>();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers, 4 * kItems);
  EXPECT_EQ(sum, std::int64_t{2} * kItems * (2 * kItems - 1) / 2);
  EXPECT_EQ(queue->size(), 0);
}

TEST_F(QueueTest, CancellationRacesWithService) {
  for (int round = 0; round < 300; ++round) {
    auto queue = make_queue();
    auto cancellation = std::make_unique<Cancellation>();
    std::atomic<int> answers{0};
    std::thread canceller([&] { cancellation->cancel(cancelled("race")); });
    std::thread server([&] { queue->try_enqueue(item(1), cancellation_, [](Status) {}); });
    queue->try_dequeue(*cancellation, [&](Status, Queue::Tuple) { ++answers; });
    canceller.join();
    server.join();
    EXPECT_EQ(answers, 1);
  }
}

}  // namespace tutti::queue_test
