#include "tutti/io/glob.h"

#include <algorithm>
#include <optional>

namespace tutti {

namespace {

// Of a place in which nothing can be found; a pattern may well fit the name of a file where it means a directory.
bool has_nothing(const Status& status) {
  return status.code() == Code::kNotFound || status.code() == Code::kPermissionDenied ||
         status.code() == Code::kFailedPrecondition;
}

bool has_wildcards(std::string_view text) { return text.find_first_of("*?[\\") != std::string_view::npos; }

struct OneMatch {
  bool matches = false;
  std::size_t pattern_bytes = 0;
};

// A set in brackets at the start of `pattern`, against one character. Nothing when the bracket is never closed.
std::optional<OneMatch> match_set(std::string_view pattern, unsigned char c) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (const std::size_t first = at; at < pattern.size(); ++at) {
    if (pattern[at] == ']' && at > first) return OneMatch{found != negated, at + 1};
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const auto low = static_cast<unsigned char>(pattern[at]);
    auto high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      at += 2;
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      high = static_cast<unsigned char>(pattern[at]);
    }
    found |= low <= c && c <= high;
  }
  return std::nullopt;
}

// What stands at the start of `pattern`, no star, against one character.
OneMatch match_one(std::string_view pattern, char c) {
  if (pattern[0] == '?') return {true, 1};
  if (pattern[0] == '[') {
    if (const auto set = match_set(pattern, static_cast<unsigned char>(c))) return *set;
  }
  if (pattern[0] == '\\' && pattern.size() > 1) return {pattern[1] == c, 2};
  return {pattern[0] == c, 1};
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  // Where to go on when the rest does not fit: behind the last star, with it taking one character more. Earlier stars
  // need not be tried again.
  std::size_t star = std::string_view::npos, star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_end = n;
      continue;
    }
    if (p < pattern.size()) {
      const OneMatch one = match_one(pattern.substr(p), name[n]);
      if (one.matches) {
        p += one.pattern_bytes;
        ++n;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    p = star;
    n = ++star_end;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<std::vector<std::string>> glob(FileSystem& fs, std::string_view pattern) {
  if (pattern.empty()) return std::vector<std::string>();
  // Paths that fit the pattern so far, each ending in a slash or empty.
  std::vector<std::string> paths{""};
  const std::vector<std::string_view> parts = str_split(pattern, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    std::vector<std::string> next;
    for (const std::string& path : paths) {
      if (!has_wildcards(parts[i])) {
        next.push_back(str_cat(path, parts[i]));
        continue;
      }
      const Result<std::vector<std::string>> names = fs.list(path.empty() ? "." : path);
      if (has_nothing(names.status())) continue;
      TUTTI_RETURN_IF_ERROR(names.status());
      for (const std::string& name : *names) {
        if (glob_matches(parts[i], name)) next.push_back(path + name);
      }
    }
    if (!last) {
      for (std::string& path : next) path += '/';
    }
    paths = std::move(next);
  }
  std::vector<std::string> found;
  for (std::string& path : paths) {
    const Status status = fs.info(path).status();
    if (status.code() == Code::kUnimplemented) return status;  // no such kind of file system
    if (status.ok()) found.push_back(std::move(path));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tutti
