#include "tutti/io/record_writer.h"

#include "tutti/io/crc32c.h"
#include "tutti/io/internal/coding.h"

namespace tutti {

Result<std::unique_ptr<RecordWriter>> RecordWriter::create(FileSystem& fs, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.open_for_write(path));
  return std::make_unique<RecordWriter>(std::move(file));
}

Status RecordWriter::write(std::string_view record) {
  std::string header;
  put_fixed64(header, record.size());
  put_fixed32(header, mask_crc(crc32c(header)));
  std::string footer;
  put_fixed32(footer, mask_crc(crc32c(record)));
  TUTTI_RETURN_IF_ERROR(file_->append(header));
  TUTTI_RETURN_IF_ERROR(file_->append(record));
  return file_->append(footer);
}

}  // namespace tutti
