// Tutti's side of check_events.py:
//   event_tool write LOGDIR RUN_METADATA   every kind of event; RUN_METADATA is a file
//   event_tool trial LOGDIR LEARNING_RATE  a run with hyperparameters
//   event_tool experiment LOGDIR           what the trials vary and measure
//   event_tool copy PATH LOGDIR            the events of a file, read and written again
//   event_tool read PATH                   a line for each event and value: kind, step, tag and what it holds, as hex
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/graph/graph_def.h"
#include "tutti/io/event_reader.h"
#include "tutti/io/event_writer.h"
#include "tutti/io/hparams.h"
#include "tutti/io/png.h"
#include "tutti/io/summary.h"
#include "tutti/io/summary_values.h"
#include "tutti/io/wav.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::interop {
namespace {

FileSystem& files() { return local_file_system(); }

void add_values(EventWriter& writer, std::int64_t step) {
  SummaryBuilder summary;
  summary.add_scalar("loss", 1.f / static_cast<float>(step));
  Histogram histogram;
  for (int i = 0; i < 100; ++i) histogram.add(static_cast<double>(i * step) - 50);
  summary.add_histogram("weights", histogram);
  const std::array<std::uint8_t, 12> pixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, static_cast<std::uint8_t>(step)};
  summary.add_image("picture", 2, 2, 3, encode_png(2, 2, 3, pixels).value_or_throw());
  const std::array<float, 4> samples{0, 0.5f, -0.5f, 1};
  summary.add_audio("sound", 8000, 1, 4, encode_wav(8000, 1, samples).value_or_throw());
  summary.add_text("note", str_cat("step **", step, "** \xc3\xa9"));
  throw_if_error(summary.add_tensor("vector", Tensor::vector<float>({1.5f, static_cast<float>(step)}),
                                    summary_metadata({.plugin_name = "mine", .plugin_content = "content"})));
  throw_if_error(summary.add_tensor("accuracy", Tensor::scalar(static_cast<float>(step) / 8),
                                    summary_metadata({.plugin_name = "scalars",
                                                      .display_name = "how good",
                                                      .description = "of *all*",
                                                      .data_class = SummaryDescription::DataClass::kScalar})));
  throw_if_error(writer.add_summary(summary.bytes(), step));
}

std::string small_graph() {
  Graph graph(builtin_ops());
  const Output a = constant(graph, Tensor::scalar(2.f), "a");
  const Output b = constant(graph, Tensor::scalar(3.f), "b");
  add(a, b);
  return export_graph_def(graph);
}

void write(const std::string& logdir, const std::string& run_metadata) {
  const auto writer = EventWriter::open(files(), logdir).value_or_throw();
  throw_if_error(writer->add_session_log({.status = SessionLog::Status::kStart}, 1));
  throw_if_error(writer->add_graph(small_graph()));
  for (std::int64_t step = 1; step <= 3; ++step) add_values(*writer, step);
  throw_if_error(writer->add_run_metadata("step 3", read_file(files(), run_metadata).value_or_throw(), 3));
  throw_if_error(
      writer->add_session_log({.status = SessionLog::Status::kCheckpoint, .checkpoint_path = "/x/model-3"}, 3));
  throw_if_error(writer->close());
  // TensorBoard must find the second file of a run, too.
  throw_if_error(writer->reopen());
  add_values(*writer, 4);
  throw_if_error(writer->add_session_log({.status = SessionLog::Status::kStop, .message = "done"}, 4));
  throw_if_error(writer->close());
}

void trial(const std::string& logdir, double rate) {
  const auto writer = EventWriter::open(files(), logdir).value_or_throw();
  const HParams values{{"rate", rate}, {"bn", true}, {"optimiser", std::string("adam")}};
  throw_if_error(writer->add_summary(hparams_summary(values, 100).value_or_throw(), 0));
  SummaryBuilder summary;
  summary.add_scalar("accuracy", static_cast<float>(rate) * 2);
  throw_if_error(writer->add_summary(summary.bytes(), 1));
  throw_if_error(writer->add_summary(hparams_end_summary(TrialStatus::kSuccess, 160), 1));
  throw_if_error(writer->close());
}

void experiment(const std::string& logdir) {
  const auto writer = EventWriter::open(files(), logdir).value_or_throw();
  const std::vector<HParamDomain> hparams{{.name = "rate", .display_name = "learning rate", .interval = {{0.0, 1.0}}},
                                          {.name = "bn", .values = {false, true}},
                                          {.name = "optimiser", .values = {std::string("adam"), std::string("sgd")}}};
  throw_if_error(writer->add_summary(
      hparams_experiment_summary(hparams, {{.tag = "accuracy", .display_name = "how good"}}, 50).value_or_throw(), 0));
  throw_if_error(writer->close());
}

void copy(const std::string& path, const std::string& logdir) {
  const auto in = EventReader::open(files(), path).value_or_throw();
  const auto out = EventWriter::open(files(), logdir).value_or_throw();
  std::string record;
  in->next_record(&record).value_or_throw();  // the version; the writer has its own
  while (in->next_record(&record).value_or_throw()) throw_if_error(out->add_event(record));
  throw_if_error(out->close());
}

std::string hex(std::string_view bytes) {
  std::string text = "x";
  char digits[3];
  for (const char byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

struct ValueText {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(float value) const { return str_cat("scalar ", value); }
  std::string operator()(const HistogramValue& value) const {
    std::string text =
        str_cat("histogram ", value.min, " ", value.max, " ", value.count, " ", value.sum, " ", value.sum_of_squares);
    for (const Histogram::Bucket& bucket : value.buckets) text += str_cat(" ", bucket.limit, " ", bucket.count);
    return text;
  }
  std::string operator()(const ImageValue& value) const {
    return str_cat("image ", value.height, " ", value.width, " ", value.channels, " ", hex(value.png));
  }
  std::string operator()(const AudioValue& value) const {
    return str_cat("audio ", value.sample_rate, " ", value.channels, " ", value.frames, " ", hex(value.bytes));
  }
  std::string operator()(const TensorValue& value) const { return str_cat("tensor ", hex(value.tensor_proto)); }
};

struct EventText {
  std::string operator()(std::monostate) const { return "unknown"; }
  std::string operator()(const FileVersionEvent& event) const { return str_cat("version ", event.version); }
  std::string operator()(const GraphEvent& event) const { return str_cat("graph ", hex(event.graph_def)); }
  std::string operator()(const MetaGraphEvent& event) const {
    return str_cat("meta_graph ", hex(event.meta_graph_def));
  }
  std::string operator()(const SummaryEvent&) const { return "summary"; }
  std::string operator()(const LogEvent& event) const { return str_cat("log ", event.message); }
  std::string operator()(const SessionLog& log) const {
    return str_cat("session ", static_cast<int>(log.status), " ", hex(log.checkpoint_path), " ", hex(log.message));
  }
  std::string operator()(const RunMetadataEvent& event) const {
    return str_cat("run ", hex(event.tag), " ", hex(event.run_metadata));
  }
};

void read(const std::string& path) {
  const auto reader = EventReader::open(files(), path).value_or_throw();
  Event event;
  while (reader->next(&event).value_or_throw()) {
    std::printf("%.17g %lld %s\n", event.wall_time, static_cast<long long>(event.step),
                std::visit(EventText(), event.what).c_str());
    if (const auto* summary = std::get_if<SummaryEvent>(&event.what)) {
      for (const SummaryValue& value : parse_summary(summary->summary).value_or_throw()) {
        std::printf("value %s %s %s %s\n", hex(value.tag).c_str(), hex(value.plugin_name).c_str(),
                    hex(value.plugin_content).c_str(), std::visit(ValueText(), value.value).c_str());
      }
    }
  }
}

int usage() {
  std::fprintf(stderr, "event_tool: see the comment at the top of its source\n");
  return 2;
}

int main(const std::string& command, const std::vector<std::string>& args) {
  if (command == "write" && args.size() == 2) {
    write(args[0], args[1]);
  } else if (command == "trial" && args.size() == 2) {
    trial(args[0], std::stod(args[1]));
  } else if (command == "experiment" && args.size() == 1) {
    experiment(args[0]);
  } else if (command == "copy" && args.size() == 2) {
    copy(args[0], args[1]);
  } else if (command == "read" && args.size() == 1) {
    read(args[0]);
  } else {
    return usage();
  }
  return 0;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) {
  if (argc < 2) return tutti::interop::usage();
  try {
    return tutti::interop::main(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
