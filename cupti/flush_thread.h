// rankscope's one thread beside CUPTI: it fetches what CUPTI holds back, watches whether records still come and
// whether their times are right, steps aside for another client and comes back, and keeps the ring's CuptiInfo true.
//
// It flushes at most once a second, and not before the first communicator or 30 s after arming. At exit it flushes
// once more, by force, and the exiting thread waits for that for two seconds at most. It holds no lock while it calls
// CUPTI.
#ifndef RANKSCOPE_CUPTI_FLUSH_THREAD_H_
#define RANKSCOPE_CUPTI_FLUSH_THREAD_H_

namespace rankscope::cupti {

// Once a process; false if the thread can't be had.
bool StartFlushThread();
bool FlushThreadRuns();

// Copies what is known into the ring, if there is one. The flush thread; before there is one, the arming thread.
void PublishInfo();

}  // namespace rankscope::cupti

#endif  // RANKSCOPE_CUPTI_FLUSH_THREAD_H_
