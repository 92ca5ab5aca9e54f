#include "tutti/ops/host/internal/reader.h"

#include <utility>

#include "tutti/io/examples/feature_wire.h"
#include "tutti/kernels/guard.h"

namespace tutti {

struct Reader::Request {
  KernelContext& ctx;
  std::shared_ptr<Queue> queue;
  std::int64_t count;
  ReadDone done;
  Records records = {};
};

Reader::Reader(std::string kind, std::string name, std::unique_ptr<WorkSource> source, std::shared_ptr<Queue> turn)
    : kind_(std::move(kind)), name_(std::move(name)), turn_(std::move(turn)), source_(std::move(source)) {}

Result<std::shared_ptr<Reader>> Reader::create(std::string kind, std::string name, std::unique_ptr<WorkSource> source) {
  QueueOptions options;
  options.name = str_cat(name, " (turn)");
  options.component_types = {DType::kInt32};
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Queue> turn, Queue::create(std::move(options)));
  std::shared_ptr<Reader> reader(new Reader(std::move(kind), std::move(name), std::move(source), std::move(turn)));
  reader->give_turn_back();
  return reader;
}

void Reader::take_turn(Cancellation& cancellation, std::function<void(Status)> then) {
  turn_->try_dequeue(cancellation, [then = std::move(then)](Status status, Queue::Tuple) { then(std::move(status)); });
}

void Reader::give_turn_back() {
  Cancellation never;  // there is always room: it does not wait
  turn_->try_enqueue({Tensor::scalar(std::int32_t{1})}, never, [](Status) {});
}

namespace {

// On one of the task's threads for what waits, so that neither a step nor who filled the queue reads files.
void run_blocking(KernelContext& ctx, std::function<void()> work) {
  BlockingRunner* runner = ctx.services().blocking;
  if (runner == nullptr) return work();
  runner->run(std::move(work));
}

}  // namespace

void Reader::read(KernelContext& ctx, std::shared_ptr<Queue> queue, std::int64_t count, ReadDone done) {
  auto request = std::make_shared<Request>(Request{ctx, std::move(queue), count, std::move(done)});
  take_turn(ctx.cancellation(), [reader = shared_from_this(), request](Status status) {
    if (!status.ok()) return request->done(std::move(status), {});
    run_blocking(request->ctx, [reader, request] { reader->work(request); });
  });
}

void Reader::work(const std::shared_ptr<Request>& request) {
  if (request->ctx.cancellation().cancelled()) return finish(request, request->ctx.cancellation().status());
  const Progress now = progress();
  if (now.started > now.finished || request->count == 0) {
    Status status = guarded(request->ctx.services().memory, [&] { return read_records(*request); });
    if (!status.ok()) return finish(request, std::move(status));
    if (!request->records.keys.empty() || request->count == 0) return finish(request, {});
  }
  request->queue->try_dequeue(request->ctx.cancellation(),
                              [reader = shared_from_this(), request](Status status, Queue::Tuple tuple) {
                                if (!status.ok()) return reader->finish(request, std::move(status));
                                run_blocking(request->ctx, [reader, request, tuple = std::move(tuple)] {
                                  if (Status begun = reader->begin_work(*request, tuple); !begun.ok()) {
                                    return reader->finish(request, std::move(begun));
                                  }
                                  reader->work(request);
                                });
                              });
}

Status Reader::begin_work(Request& request, const Queue::Tuple& tuple) {
  if (tuple.size() != 1) {
    return invalid_argument("Expected single component queue, got ", tuple.size(), " components from ",
                            printable(request.queue->options().name));
  }
  if (tuple[0].dtype() != DType::kString || tuple[0].num_elements() != 1) {
    return invalid_argument("Expected to dequeue a one-element string tensor, got ", tuple[0].to_string(), " from ",
                            printable(request.queue->options().name));
  }
  FileSystem* files = request.ctx.services().files;
  if (files == nullptr) return failed_precondition("this task has no files");
  const std::string& work = tuple[0].scalar<std::string>();
  TUTTI_RETURN_IF_ERROR(guarded(request.ctx.services().memory, [&] { return source_->begin(*files, work); }));
  Progress now = progress();
  now.started += 1;
  now.work = work;
  set_progress(std::move(now));
  return {};
}

Status Reader::read_records(Request& request) {
  Progress now = progress();
  Status error;
  while (std::ssize(request.records.keys) < request.count) {
    if (request.ctx.cancellation().cancelled()) return request.ctx.cancellation().status();
    std::string key, value;
    const Result<WorkSource::Step> step = source_->next(&key, &value);
    if (!step.ok()) {
      error = step.status();
      break;
    }
    if (*step != WorkSource::Step::kEnd) {
      request.records.keys.push_back(std::move(key));
      request.records.values.push_back(std::move(value));
      now.records += 1;
    }
    if (*step != WorkSource::Step::kRecord) {
      now.finished = now.started;
      break;
    }
  }
  set_progress(std::move(now));
  return error;
}

void Reader::finish(const std::shared_ptr<Request>& request, Status status) {
  give_turn_back();
  request->done(std::move(status), std::move(request->records));
}

Reader::Progress Reader::progress() const {
  MutexLock lock(mu_);
  return progress_;
}

void Reader::set_progress(Progress progress) {
  MutexLock lock(mu_);
  progress_ = std::move(progress);
}

std::int64_t Reader::records_produced() const { return progress().records; }
std::int64_t Reader::work_units_completed() const { return progress().finished; }

void Reader::reset(Cancellation& cancellation, Done done) {
  take_turn(cancellation, [reader = shared_from_this(), done = std::move(done)](Status status) {
    if (!status.ok()) return done(std::move(status));
    reader->set_progress({});
    reader->give_turn_back();
    done({});
  });
}

// --- State, in TensorFlow's message: work_started = 1, work_finished = 2, num_records_produced = 3, current_work = 4.
// ---

namespace {

void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

}  // namespace

void Reader::serialize(Cancellation& cancellation, std::function<void(Status, std::string)> done) {
  take_turn(cancellation, [reader = shared_from_this(), done = std::move(done)](Status status) {
    if (!status.ok()) return done(std::move(status), "");
    const Progress now = reader->progress();
    const bool possible = reader->source_->can_be_saved();
    reader->give_turn_back();
    if (!possible) return done(unimplemented("Reader SerializeState: ", reader->debug_string()), "");
    std::string bytes;
    const std::int64_t numbers[] = {now.started, now.finished, now.records};
    for (int field = 1; field <= 3; ++field) {
      if (numbers[field - 1] == 0) continue;
      put_varint(bytes, wire_tag_varint(field));
      put_varint(bytes, static_cast<std::uint64_t>(numbers[field - 1]));
    }
    if (!now.work.empty()) {
      put_varint(bytes, wire_tag_bytes(4));
      put_varint(bytes, now.work.size());
      bytes += now.work;
    }
    done({}, std::move(bytes));
  });
}

void Reader::restore(KernelContext& ctx, std::string state, Done done) {
  take_turn(ctx.cancellation(), [reader = shared_from_this(), &ctx, state = std::move(state),
                                 done = std::move(done)](Status status) {
    if (!status.ok()) return done(std::move(status));
    Progress now;
    bool good = true;
    std::uint64_t tag = 0, number = 0;
    std::string_view text;
    for (WireCursor in(state); good && !in.done();) {
      good = in.varint(&tag);
      if (good && (tag == wire_tag_varint(1) || tag == wire_tag_varint(2) || tag == wire_tag_varint(3))) {
        good = in.varint(&number);
        (tag >> 3 == 1 ? now.started : tag >> 3 == 2 ? now.finished : now.records) = static_cast<std::int64_t>(number);
      } else if (good && tag == wire_tag_bytes(4)) {
        good = in.bytes(&text);
        now.work = text;
      } else {
        good = good && in.skip(tag);
      }
    }
    good = good && now.started >= 0 && now.finished >= 0 && now.records >= 0 && now.started >= now.finished;
    Status result;
    if (!reader->source_->can_be_saved()) {
      result = unimplemented("Reader RestoreState: ", reader->debug_string());
    } else if (!good) {
      result = invalid_argument("Could not parse state for ", reader->debug_string(), ": ", printable(state));
    } else if (ctx.services().files == nullptr) {
      result = failed_precondition("this task has no files");
    } else {
      if (now.started > now.finished) {
        result =
            guarded(ctx.services().memory, [&] { return reader->source_->begin(*ctx.services().files, now.work); });
      }
      reader->set_progress(std::move(now));
    }
    reader->give_turn_back();
    done(std::move(result));
  });
}

std::string Reader::debug_string() const { return str_cat(kind_, " '", printable(name_), "'"); }

void Reader::abandon() { turn_->abandon(); }

}  // namespace tutti
