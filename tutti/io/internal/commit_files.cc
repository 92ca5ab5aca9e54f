#include "tutti/io/internal/commit_files.h"

#include <set>

#include "tutti/io/paths.h"

namespace tutti {

namespace {

// Renames that can be taken back.
class Journal {
 public:
  explicit Journal(FileSystem& fs) : fs_(fs) {}

  Status rename(const std::string& from, const std::string& to) {
    TUTTI_RETURN_IF_ERROR(fs_.rename(from, to));
    done_.push_back({from, to});
    return {};
  }

  // `cause`, with what could not be taken back.
  Status undo(Status cause) {
    std::string lost;
    for (auto move = done_.rbegin(); move != done_.rend(); ++move) {
      const Status undone = fs_.rename(move->to, move->from);
      if (!undone.ok()) lost += str_cat("; not undone: ", undone.message());
    }
    return lost.empty() ? cause : Status(cause.code(), cause.message() + lost);
  }

 private:
  FileSystem& fs_;
  std::vector<FileMove> done_;
};

Status move_all(FileSystem& fs, Journal& journal, const std::vector<FileMove>& moves, std::vector<std::string>* aside) {
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    if (!fs.exists(move->to)) continue;
    aside->push_back(temporary_name(move->to));
    TUTTI_RETURN_IF_ERROR(journal.rename(move->to, aside->back()));
  }
  for (const FileMove& move : moves) TUTTI_RETURN_IF_ERROR(journal.rename(move.from, move.to));
  std::set<std::string> directories;
  for (const FileMove& move : moves) directories.insert(directory_of(move.to));
  for (const std::string& directory : directories) TUTTI_RETURN_IF_ERROR(fs.sync_directory(directory));
  return {};
}

}  // namespace

Status commit_files(FileSystem& fs, const std::vector<FileMove>& moves) {
  Journal journal(fs);
  std::vector<std::string> aside;
  Status moved = move_all(fs, journal, moves, &aside);
  if (!moved.ok()) return journal.undo(std::move(moved));
  // The new files stand; an old one that cannot be removed is only in the way.
  for (const std::string& old : aside) (void)fs.remove(old);
  return {};
}

}  // namespace tutti
