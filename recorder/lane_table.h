// The set of all lanes: made at start, forgotten in a forked child. For session.cc only.
#ifndef RANKSCOPE_RECORDER_LANE_TABLE_H_
#define RANKSCOPE_RECORDER_LANE_TABLE_H_

#include "recorder/ring_file.h"

namespace rankscope::recorder {

// Divides the ring's slots, cells and records among the lanes. Before any thread may claim one.
void SetUpLanes(const RingGeometry& geometry);
// Drops every claim without touching the ring.
void ForgetLanes();

}  // namespace rankscope::recorder

#endif  // RANKSCOPE_RECORDER_LANE_TABLE_H_
