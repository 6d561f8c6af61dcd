// Text out of untrusted files, made fit for a terminal and for JSON.
//
// Called by: all readers. Must never: read beyond the bytes it was given, or let a control byte or broken UTF-8
// through.
#ifndef RANKSCOPE_ANALYSIS_RECORDING_CLEAN_TEXT_H_
#define RANKSCOPE_ANALYSIS_RECORDING_CLEAN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rankscope::analysis {

// Up to the first NUL; control characters and what is not UTF-8 become '?'.
std::string CleanText(absl::string_view bytes);

// The system's words for an errno value.
std::string ErrnoText(int error);

}  // namespace rankscope::analysis

#endif  // RANKSCOPE_ANALYSIS_RECORDING_CLEAN_TEXT_H_
