#include "tutti/distributed/internal/graph_versions.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

#include "proto/graph.pb.h"

namespace tutti::internal {

Result<int> graph_producer(std::string_view graph_def) {
  using google::protobuf::internal::WireFormatLite;
  const Status malformed = invalid_argument("GraphDef: malformed bytes");
  if (graph_def.size() > std::numeric_limits<int>::max()) return invalid_argument("GraphDef: over 2 GiB");
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(graph_def.data()),
                                            static_cast<int>(graph_def.size()));
  tensorflow::VersionDef versions;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) != tensorflow::GraphDef::kVersionsFieldNumber) {
      if (!WireFormatLite::SkipField(&in, tag)) return malformed;
      continue;
    }
    std::string bytes;
    std::uint32_t size = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED || !in.ReadVarint32(&size) ||
        !in.ReadString(&bytes, static_cast<int>(size)) || !versions.MergeFromString(bytes)) {
      return malformed;
    }
  }
  return versions.producer();
}

}  // namespace tutti::internal
