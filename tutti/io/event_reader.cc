#include "tutti/io/event_reader.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "proto/event.pb.h"
#include "tutti/io/internal/proto_bytes.h"
#include "tutti/io/internal/record_frame.h"

namespace tutti {
namespace {

// A length is believed up to this; beyond, memory is taken as the bytes come.
constexpr std::uint64_t kTrustedEventBytes = 1 << 20;

SessionLog session_log_of(const tensorflow::SessionLog& proto) {
  SessionLog log;
  if (tensorflow::SessionLog::SessionStatus_IsValid(proto.status())) {
    log.status = static_cast<SessionLog::Status>(proto.status());
  }
  log.checkpoint_path = proto.checkpoint_path();
  log.message = proto.msg();
  return log;
}

}  // namespace

Result<Event> parse_event(std::string_view bytes) {
  tensorflow::Event proto;
  TUTTI_RETURN_IF_ERROR(parse_stored(bytes, "event", &proto));
  Event event{.wall_time = proto.wall_time(), .step = proto.step(), .what = {}};
  switch (proto.what_case()) {
    case tensorflow::Event::kFileVersion:
      event.what = FileVersionEvent{proto.file_version()};
      break;
    case tensorflow::Event::kGraphDef:
      event.what = GraphEvent{std::move(*proto.mutable_graph_def())};
      break;
    case tensorflow::Event::kMetaGraphDef:
      event.what = MetaGraphEvent{std::move(*proto.mutable_meta_graph_def())};
      break;
    case tensorflow::Event::kSummary:
      event.what = SummaryEvent{stored_bytes(proto.summary())};
      break;
    case tensorflow::Event::kLogMessage:
      event.what = LogEvent{proto.log_message().message()};
      break;
    case tensorflow::Event::kSessionLog:
      event.what = session_log_of(proto.session_log());
      break;
    case tensorflow::Event::kTaggedRunMetadata:
      event.what = RunMetadataEvent{proto.tagged_run_metadata().tag(),
                                    std::move(*proto.mutable_tagged_run_metadata()->mutable_run_metadata())};
      break;
    case tensorflow::Event::WHAT_NOT_SET:
      break;
  }
  return event;
}

Result<std::unique_ptr<EventReader>> EventReader::open(FileSystem& fs, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, fs.open_for_read(path));
  return std::unique_ptr<EventReader>(new EventReader(path, std::move(file)));
}

Result<bool> EventReader::next(Event* event) {
  const std::uint64_t offset = offset_;
  std::string record;
  TUTTI_ASSIGN_OR_RETURN(const bool found, next_record(&record));
  if (!found) return false;
  Result<Event> parsed = parse_event(record);
  if (!parsed.ok()) return keep_error(parsed.status(), offset);
  *event = *std::move(parsed);
  return true;
}

Result<bool> EventReader::next_record(std::string* record) {
  TUTTI_RETURN_IF_ERROR(error_);
  Result<bool> found = read_record(record);
  if (!found.ok()) return keep_error(found.status(), offset_);
  return found;
}

Status EventReader::keep_error(const Status& status, std::uint64_t offset) {
  offset_ = offset;
  error_ = status.with_context(str_cat("event at ", offset, " of \"", printable(path_), "\""));
  return error_;
}

Result<bool> EventReader::read_record(std::string* record) {
  std::string header, footer;
  TUTTI_ASSIGN_OR_RETURN(const bool has_header, read_bytes(offset_, kRecordHeaderBytes, &header));
  if (!has_header) return false;
  TUTTI_ASSIGN_OR_RETURN(const std::uint64_t length, record_length(header));
  // Beyond any file: nothing that a writer will ever finish.
  constexpr auto kLongest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (length > kLongest - offset_ - kRecordHeaderBytes - kRecordFooterBytes) {
    return data_loss("corrupted: a length of ", length, " bytes");
  }
  const std::uint64_t body = offset_ + kRecordHeaderBytes;
  // The end first: while it is not there, a record is not read again at each call.
  TUTTI_ASSIGN_OR_RETURN(const bool has_footer, read_bytes(body + length, kRecordFooterBytes, &footer));
  if (!has_footer) return false;
  TUTTI_ASSIGN_OR_RETURN(const bool has_body, read_bytes(body, length, record));
  if (!has_body) return false;
  TUTTI_RETURN_IF_ERROR(check_record(*record, footer));
  offset_ = body + length + kRecordFooterBytes;
  return true;
}

Result<bool> EventReader::read_bytes(std::uint64_t offset, std::uint64_t bytes, std::string* out) {
  out->clear();
  std::uint64_t piece = kTrustedEventBytes;
  while (out->size() < bytes) {
    const std::size_t before = out->size();
    const std::uint64_t wanted = std::min(bytes - before, piece);
    piece *= 2;
    try {
      out->resize(before + wanted);
    } catch (const std::exception&) {  // no memory, or more than a string can be
      return resource_exhausted("no memory for its ", bytes, " bytes");
    }
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file_->read(offset + before, std::span(*out).subspan(before)));
    if (count < wanted) return false;
  }
  return true;
}

Result<std::vector<std::string>> list_event_files(FileSystem& fs, const std::string& logdir) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.list(logdir));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (name.find("tfevents") != std::string::npos) {
      paths.push_back(str_cat(logdir, logdir.ends_with('/') ? "" : "/", name));
    }
  }
  return paths;
}

}  // namespace tutti
