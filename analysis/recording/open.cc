// See open.h.
#include "analysis/recording/open.h"

#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/recording/mapped_file.h"
#include "analysis/recording/ring_set.h"
#include "analysis/recording/timeline_reader.h"
#include "schema/ring_abi.h"

namespace rankscope::analysis {

namespace {

enum class FileKind { kRing, kTimeline, kOther };

// By content: names lie.
absl::StatusOr<FileKind> KindOf(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const MappedFile& f = **file;
  if (f.size() >= 12 && std::memcmp(f.data() + 8, "RKTL", 4) == 0) return FileKind::kTimeline;
  if (f.size() >= 8) {
    uint64_t magic;
    std::memcpy(&magic, f.data(), 8);
    if (magic == schema::kRingMagic || magic == __builtin_bswap64(schema::kRingMagic)) return FileKind::kRing;
  }
  if (path.size() > 5 && path.compare(path.size() - 5, 5, ".ring") == 0) return FileKind::kRing;
  if (path.size() > 4 && path.compare(path.size() - 4, 4, ".rsc") == 0) return FileKind::kTimeline;
  return FileKind::kOther;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> OpenRecording(absl::Span<const std::string> paths,
                                                         const OpenOptions& options) {
  if (paths.empty()) return absl::InvalidArgumentError("no file or folder was named");
  std::vector<std::string> rings;
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      absl::StatusOr<std::vector<std::string>> found = FindRings(path);
      if (!found.ok()) return found.status();
      if (found->empty()) {
        return absl::NotFoundError(
            absl::StrCat("there is no ring in ", path,
                         "; was the job started with 'rankscope run', and did NCCL load the library?"));
      }
      rings.insert(rings.end(), found->begin(), found->end());
      continue;
    }
    const absl::StatusOr<FileKind> kind = KindOf(path);
    if (!kind.ok()) return kind.status();
    if (*kind == FileKind::kTimeline) {
      if (paths.size() > 1) {
        return absl::InvalidArgumentError(absl::StrCat(path, " is a timeline; give it alone, or only rings"));
      }
      return OpenTimeline(path);
    }
    if (*kind == FileKind::kOther) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is neither a ring nor a timeline of rankscope"));
    }
    rings.push_back(path);
  }
  return OpenRings(rings, options.progress);
}

}  // namespace rankscope::analysis
