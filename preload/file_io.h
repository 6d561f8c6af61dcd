// Which files are checkpoints and data, and how much is read and written of them: sums a thread keeps until ten
// milliseconds, another class or a close end them, then one record.
//
// Called by the interposed calls of libc, on the training's threads, after the real call. Files that are neither cost
// a look into a table. Nothing is recorded where no recorder runs, and none is started for a file. Must never: call a
// function that is interposed on a tracked file, allocate, or change errno.
#ifndef RANKSCOPE_PRELOAD_FILE_IO_H_
#define RANKSCOPE_PRELOAD_FILE_IO_H_

#include <cstdint>

#include "schema/event_abi.h"

namespace rankscope::preload {

enum class PathClass : uint8_t { kUntracked = 0, kCheckpoint = 1, kData = 2 };
inline constexpr int kPathClasses = 3;

// By the names that frameworks give: endings, and words in the last two parts of the path.
PathClass ClassOfPath(const char* path);

// A file was opened or closed under this number.
void NoteOpen(int fd, const char* path);
void NoteClose(int fd);
PathClass ClassOf(int fd);

// Ticks before a call on a tracked file; 0 where nothing is recorded.
uint64_t BeginIo(int fd);
// `bytes` < 0: the call failed, and counts as a call of none.
void EndIo(int fd, schema::FileOperation operation, uint64_t begin_ticks, int64_t bytes);

}  // namespace rankscope::preload

#endif  // RANKSCOPE_PRELOAD_FILE_IO_H_
