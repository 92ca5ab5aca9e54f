// Readers of the queue era.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/host/internal/reader.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

class MakeReader : public Kernel {
 public:
  MakeReader(std::shared_ptr<ResourceSlot> slot, std::shared_ptr<Reader> reader, const KernelInit& init)
      : slot_(std::move(slot)), reader_(std::move(reader)), output_(init, slot_) {}

  static KernelFactory factory(std::string kind, WorkSourceFactory make) {
    return [kind, make](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
      TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init));
      TUTTI_ASSIGN_OR_RETURN(auto source, make(init));
      TUTTI_ASSIGN_OR_RETURN(auto reader, Reader::create(kind, slot->name(), std::move(source)));
      return std::unique_ptr<Kernel>(std::make_unique<MakeReader>(std::move(slot), std::move(reader), init));
    };
  }

  Status compute(KernelContext& ctx) override {
    const auto resource = slot_->get_or_create([&] { return reader_; });
    const auto reader = std::dynamic_pointer_cast<Reader>(resource);
    if (!reader) return invalid_argument("Resource ", printable(slot_->name()), " is not a reader");
    if (reader->kind() != reader_->kind()) {
      return invalid_argument("Resource ", printable(slot_->name()), " is a ", reader->kind(), ", not a ",
                              reader_->kind());
    }
    output_.give(ctx);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const std::shared_ptr<Reader> reader_;  // what an empty slot is filled with
  const HandleOutput output_;
};

Result<std::shared_ptr<Reader>> input_reader(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<Reader>(*slot, "reader");
}

// A kernel that waits for its turn at the reader behind input 0.
class ReaderKernel : public AsyncKernel {
 public:
  explicit ReaderKernel(const KernelInit&) {}
  void compute_async(KernelContext& ctx, Done done) override {
    Result<std::shared_ptr<Reader>> reader = input_reader(ctx);
    if (!reader.ok()) return done(reader.status());
    act(**reader, ctx, std::move(done));
  }

 protected:
  virtual void act(Reader& reader, KernelContext& ctx, Done done) = 0;
};

Status give_strings(KernelContext& ctx, int i, std::vector<std::string> values, bool one) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(i, one ? Shape{} : Shape{std::ssize(values)}));
  std::move(values.begin(), values.end(), out->data<std::string>());
  return {};
}

// `one`: one record, as scalars; else up to input 2 of them.
template <bool kOne>
class ReadRecords : public ReaderKernel {
 public:
  using ReaderKernel::ReaderKernel;

 protected:
  void act(Reader& reader, KernelContext& ctx, Done done) override {
    const Result<std::shared_ptr<ResourceSlot>> slot = input_slot(ctx, 1);
    if (!slot.ok()) return done(slot.status());
    const Result<std::shared_ptr<Queue>> queue = resource_in<Queue>(**slot, "queue");
    if (!queue.ok()) return done(queue.status());
    std::int64_t count = 1;
    if (!kOne) {
      const Result<std::int64_t> given = cpu::read_scalar_integer(ctx.input(2), "num_records");
      if (!given.ok()) return done(given.status());
      count = *given;
      if (count < 0) return done(invalid_argument("num_records must not be negative, got ", count));
    }
    reader.read(ctx, *queue, count, [&ctx, done = std::move(done)](Status status, Reader::Records records) {
      if (status.ok()) status = give_strings(ctx, 0, std::move(records.keys), kOne);
      if (status.ok()) status = give_strings(ctx, 1, std::move(records.values), kOne);
      done(std::move(status));
    });
  }
};

class ResetReader : public ReaderKernel {
 public:
  using ReaderKernel::ReaderKernel;

 protected:
  void act(Reader& reader, KernelContext& ctx, Done done) override {
    reader.reset(ctx.cancellation(), std::move(done));
  }
};

class SerializeReader : public ReaderKernel {
 public:
  using ReaderKernel::ReaderKernel;

 protected:
  void act(Reader& reader, KernelContext& ctx, Done done) override {
    reader.serialize(ctx.cancellation(), [&ctx, done = std::move(done)](Status status, std::string state) {
      if (status.ok()) status = give_strings(ctx, 0, {std::move(state)}, true);
      done(std::move(status));
    });
  }
};

class RestoreReader : public ReaderKernel {
 public:
  using ReaderKernel::ReaderKernel;

 protected:
  void act(Reader& reader, KernelContext& ctx, Done done) override {
    const Tensor& state = ctx.input(1);
    if (state.rank() != 0) return done(invalid_argument("Reader state must be scalar, but had shape: ", state.shape()));
    reader.restore(ctx, state.scalar<std::string>(), std::move(done));
  }
};

Status give_number(KernelContext& ctx, std::int64_t (Reader::*number)() const) {
  TUTTI_ASSIGN_OR_RETURN(const auto reader, input_reader(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int64_t>() = ((*reader).*number)();
  return {};
}

Status records_produced(KernelContext& ctx) { return give_number(ctx, &Reader::records_produced); }
Status units_completed(KernelContext& ctx) { return give_number(ctx, &Reader::work_units_completed); }

Status two_vectors(ShapeContext& c) {
  c.set_output(0, {kUnknownDim});
  c.set_output(1, {kUnknownDim});
  return {};
}

// Handles come in two forms, as those of queues do.
struct ReaderForm {
  const char* suffix;
  const char* handle;
  ShapeFn shape;
  unsigned traits;
};

void add_readers(OpTable& ops, const ReaderForm& form) {
  const std::string common = "container: string = ''; shared_name: string = ''";
  const auto add = [&](const std::string& name, const std::string& attrs, WorkSourceFactory make) {
    ops.add({.name = name + form.suffix,
             .signature = str_cat("-> reader_handle: ", form.handle),
             .attrs = attrs,
             .shape = form.shape,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(MakeReader::factory(name, std::move(make)))}});
  };
  const bool newer = *form.suffix != '\0';
  add("IdentityReader", common, make_identity_source);
  add("WholeFileReader", common, make_whole_file_source);
  add("TextLineReader", "skip_header_lines: int = 0; " + common, make_text_line_source);
  add("FixedLengthRecordReader",
      "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; " + common +
          (newer ? "; encoding: string = ''" : ""),
      make_fixed_length_source);
  add("TFRecordReader", common + "; compression_type: string = ''", make_record_source);
}

void add_reader_users(OpTable& ops, const ReaderForm& form) {
  const std::string reader = str_cat("reader_handle: ", form.handle);
  const std::string both = str_cat(reader, ", queue_handle: ", form.handle);
  const auto add = [&](const char* name, const std::string& signature, ShapeFn shape, KernelFactory kernel) {
    ops.add({.name = str_cat(name, form.suffix),
             .signature = signature,
             .shape = std::move(shape),
             .no_gradient = true,
             .traits = form.traits,
             .kernels = {TUTTI_CPU(std::move(kernel))}});
  };
  add("ReaderRead", both + " -> key: string, value: string", shape::scalar, kernel_of<ReadRecords<true>>());
  add("ReaderReadUpTo", both + ", num_records: int64 -> keys: string, values: string", two_vectors,
      kernel_of<ReadRecords<false>>());
  add("ReaderNumRecordsProduced", reader + " -> records_produced: int64", shape::scalar, kernel_from(records_produced));
  add("ReaderNumWorkUnitsCompleted", reader + " -> units_completed: int64", shape::scalar,
      kernel_from(units_completed));
  add("ReaderSerializeState", reader + " -> state: string", shape::scalar, kernel_of<SerializeReader>());
  add("ReaderRestoreState", reader + ", state: string ->", shape::none, kernel_of<RestoreReader>());
  add("ReaderReset", reader + " ->", shape::none, kernel_of<ResetReader>());
}

}  // namespace

void register_reader_ops(OpTable& ops) {
  // All stateful, also where TensorFlow's rows do not say so: a reference input keeps those from being merged there.
  for (const ReaderForm& form : {ReaderForm{"", "Ref(string)", internal::two_names, kStateful},
                                 ReaderForm{"V2", "resource", shape::scalar, kStateful}}) {
    add_readers(ops, form);
    add_reader_users(ops, form);
  }
}

}  // namespace tutti
