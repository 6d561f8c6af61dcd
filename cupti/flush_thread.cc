// See flush_thread.h.
#include "cupti/flush_thread.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cupti/callbacks.h"
#include "cupti/gpu_clock.h"
#include "cupti/other_client.h"
#include "cupti/subscriber.h"
#include "recorder/host_sample.h"
#include "recorder/log.h"
#include "recorder/session.h"

namespace rankscope::cupti {
namespace {

using recorder::g_session;
using recorder::LoadAcquire;
using recorder::LoadRelaxed;
using recorder::LogWarning;
using recorder::MonotonicNs;
using recorder::StoreRelaxed;
using recorder::StoreRelease;
using schema::CuptiState;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kTickNs = 200'000'000;
constexpr uint64_t kFlushNs = kSecondNs;
constexpr uint64_t kQuietStartNs = 30 * kSecondNs;  // without a communicator, no flush before
constexpr uint64_t kSilenceNs = 5 * kSecondNs;      // launches, and no buffer for so long: we are blind
constexpr uint64_t kLaunchesThatNeedABuffer = 3;
constexpr uint64_t kHealthWindowNs = 10 * kSecondNs;
constexpr uint64_t kHealthLeastRecords = 100;
constexpr uint32_t kMostResumesAnHour = 5;
constexpr time_t kExitWaitS = 2;

sem_t g_wake, g_flushed;
uint32_t g_exiting = 0;
uint32_t g_runs = 0;

uint64_t LaunchesOfNccl() {
  uint64_t launches = 0;
  if (g_session.comms == nullptr) return 0;
  for (uint32_t i = 0; i < g_session.comm_capacity; ++i) {
    if (LoadAcquire(g_session.comms[i].commit) == 0) break;
    for (const uint64_t& count : g_session.comms[i].launched_by_func) launches += LoadRelaxed(count);
  }
  return launches;
}

class Watch {
 public:
  Watch()
      : started_ns_(MonotonicNs()), last_flush_ns_(started_ns_), window_ns_(started_ns_), heard_ns_(started_ns_) {}

  void Tick() {
    const uint64_t now_ns = MonotonicNs();
    if (!ring_noted_ && LoadRelaxed(g_source.requests) > 0 && UseRing()) ring_noted_ = true;
    switch (State()) {
      case CuptiState::kArmed:
        WatchOtherClient(now_ns);
        if (State() == CuptiState::kArmed && FlushIsDue(now_ns)) Flush(now_ns);
        if (State() == CuptiState::kArmed) CheckHealth(now_ns);
        if (State() == CuptiState::kArmed) CheckSilence(now_ns);
        break;
      case CuptiState::kYielded:
        if (MayResume(now_ns)) TryResume(now_ns);
        break;
      default:
        break;
    }
    if (recorder::Active()) {
      recorder::NoteRecordKinds(uint64_t{1} << static_cast<int>(schema::EventKind::kHostSample));
      recorder::MaybeSampleHost(recorder::ReadTicks());
    }
    PublishInfo();
  }

  void LastFlush() {
    if (State() == CuptiState::kArmed) g_source.calls.flush_all(kFlushForced);
    PublishInfo();
  }

 private:
  bool FlushIsDue(uint64_t now_ns) const {
    if (now_ns - last_flush_ns_ < kFlushNs) return false;
    return LoadAcquire(g_source.communicator_seen) != 0 || now_ns - started_ns_ >= kQuietStartNs;
  }

  void Flush(uint64_t now_ns) {
    last_flush_ns_ = now_ns;
    if (ClockMode() == schema::CuptiClock::kRealtime) {
      const uint64_t error_ns = TakeRealtimeAnchor();
      if (error_ns > g_source.info.clock_error_ns) g_source.info.clock_error_ns = error_ns;
    }
    const Result result = g_source.calls.flush_all(0);
    g_source.info.flushes++;
    flushes_since_heard_++;
    if (result == kNotCompatible || result == kMultipleSubscribers || result == kNotInitialized) {
      Yield(now_ns, "a flush was refused", result);
      return;
    }
    size_t dropped = 0;
    if (g_source.calls.get_dropped != nullptr && g_source.calls.get_dropped(nullptr, 0, &dropped) == kSuccess &&
        dropped > 0)
      recorder::CountLoss(schema::LossReason::kCuptiDropped, dropped);
  }

  // Times that can't be right: CUPTI's pool of device buffers ran dry for good (parcagpu#23), or another client
  // changed the clock.
  void CheckHealth(uint64_t now_ns) {
    if (now_ns - window_ns_ < kHealthWindowNs) return;
    const uint64_t records = LoadRelaxed(g_source.records), bad = LoadRelaxed(g_source.bad_times);
    const uint64_t good_now = records - window_records_, bad_now = bad - window_bad_;
    window_ns_ = now_ns;
    window_records_ = records;
    window_bad_ = bad;
    if (good_now + bad_now < kHealthLeastRecords || bad_now * 100 <= good_now + bad_now) return;
    g_source.calls.flush_all(0);
    DisableKinds();
    SetState(CuptiState::kDisarmed);
    LogWarning(
        "%llu of %llu GPU records of the last 10 s have impossible times; no more kernels or copies are recorded",
        static_cast<unsigned long long>(bad_now), static_cast<unsigned long long>(good_now + bad_now));
  }

  // NCCL launches, every launch needs room in a buffer, each flush takes the buffers away, and yet none is asked for:
  // somebody else's callbacks get them.
  void CheckSilence(uint64_t now_ns) {
    const uint64_t heard = LoadRelaxed(g_source.requests) + LoadRelaxed(g_source.completions);
    const uint64_t launches = LaunchesOfNccl();
    if (heard != heard_count_) {
      heard_count_ = heard;
      heard_ns_ = now_ns;
      heard_launches_ = launches;
      flushes_since_heard_ = 0;
      return;
    }
    if (now_ns - heard_ns_ >= kSilenceNs && flushes_since_heard_ >= 3 &&
        launches - heard_launches_ >= kLaunchesThatNeedABuffer)
      Yield(heard_ns_, "its records go elsewhere", kSuccess);
  }

  void Yield(uint64_t since_ns, const char* why, Result result) {
    const uint64_t now_ns = MonotonicNs();
    yielded_ns_ = now_ns;
    g_source.info.result = result;
    const double ago_ticks =
        static_cast<double>(now_ns - since_ns) * 1e-9 *
        static_cast<double>(g_session.header != nullptr ? g_session.header->ticks_per_second : 0);
    blind_since_ticks_ = recorder::ReadTicks() - static_cast<uint64_t>(ago_ticks);
    blind_since_ns_ = since_ns;
    g_source.info.blind_since_ticks = blind_since_ticks_;
    SetState(CuptiState::kYielded);
    recorder::LogInfo("another client has CUPTI (%s): no GPU records for now", why);
  }

  // Where its calls are interposed another client is seen before it takes our place.
  void WatchOtherClient(uint64_t now_ns) {
    switch (SeenOtherClient(now_ns)) {
      case OtherClient::kPresent:
      case OtherClient::kGone:
        Yield(now_ns, "it registered its callbacks", kSuccess);
        return;
      case OtherClient::kFinalized:
        SetState(CuptiState::kDisarmed);
        LogWarning("another client took CUPTI down (cuptiFinalize); no more kernels or copies are recorded");
        return;
      case OtherClient::kNone:
        return;
    }
  }

  // Without interposition nothing says that a session is over: then time does.
  bool MayResume(uint64_t now_ns) {
    const OtherClient other = SeenOtherClient(now_ns);
    if (other == OtherClient::kFinalized) WatchOtherClient(now_ns);
    if (other == OtherClient::kGone) return true;
    if (other == OtherClient::kPresent && yielded_ns_ < OtherClientLastNs()) yielded_ns_ = OtherClientLastNs();
    return State() == CuptiState::kYielded && now_ns > yielded_ns_ &&
           now_ns - yielded_ns_ >= g_source.resume_after_ns;
  }

  void TryResume(uint64_t now_ns) {
    const bool sure = SeenOtherClient(now_ns) == OtherClient::kGone;
    yielded_ns_ = now_ns;  // whatever comes of it, the next try is a full wait away
    ForgetOtherClient();
    if (now_ns - resumes_since_ns_ >= 3600 * kSecondNs) resumes_ = 0, resumes_since_ns_ = now_ns;
    if (!sure && resumes_ >= kMostResumesAnHour) return;
    Result result = kSuccess;
    if (!SlotIsFree(&result)) return;
    const char* failing = nullptr;
    if (RegisterAndEnable(&failing) != kSuccess) return;
    if (!sure) resumes_++;
    g_source.info.resumes++;
    g_source.info.blind_ns += now_ns - blind_since_ns_;
    g_source.info.blind_since_ticks = 0;
    if (recorder::Lane* lane = recorder::CurrentLane()) {
      recorder::Commit(lane, {blind_since_ticks_,
                              recorder::ReadTicks(),
                              recorder::PackKind(schema::EventKind::kGpuBlind, 0, schema::kCommUnknown, 0),
                              0,
                              {0, 0, 0}});
    }
    heard_ns_ = window_ns_ = now_ns;
    heard_launches_ = LaunchesOfNccl();
    flushes_since_heard_ = 0;
    SetState(CuptiState::kArmed);
  }

  const uint64_t started_ns_;
  bool ring_noted_ = false;
  uint64_t last_flush_ns_;
  uint64_t window_ns_, window_records_ = 0, window_bad_ = 0;
  uint64_t heard_ns_, heard_count_ = 0, heard_launches_ = 0, flushes_since_heard_ = 0;
  uint64_t yielded_ns_ = 0, blind_since_ticks_ = 0, blind_since_ns_ = 0;
  uint64_t resumes_since_ns_ = 0;
  uint32_t resumes_ = 0;
};

void* Run(void*) {
  prctl(PR_SET_NAME, "rankscope", 0, 0, 0);
  Watch watch;
  while (LoadAcquire(g_exiting) == 0) {
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const uint64_t ns = static_cast<uint64_t>(until.tv_nsec) + kTickNs;
    until.tv_sec += static_cast<time_t>(ns / kSecondNs);
    until.tv_nsec = static_cast<long>(ns % kSecondNs);
    sem_timedwait(&g_wake, &until);
    if (LoadAcquire(g_exiting) == 0) watch.Tick();
  }
  watch.LastFlush();
  sem_post(&g_flushed);
  // The process is ending around this thread: it stays, and runs no destructors of its own.
  for (;;) pause();
}

void AtExit() {
  // A forked child has this handler, and no flush thread.
  if (LoadAcquire(g_source.dead) != 0) return;
  StoreRelease(g_exiting, 1u);
  sem_post(&g_wake);
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kExitWaitS;
  while (sem_timedwait(&g_flushed, &until) != 0 && errno == EINTR) {
  }
  // From here on CUDA is taken down: what still calls in is answered, and nothing is called.
}

}  // namespace

bool StartFlushThread() {
  if (sem_init(&g_wake, 0, 0) != 0 || sem_init(&g_flushed, 0, 0) != 0) return false;
  // The training's signals are for the training's threads.
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_attr_t attributes;
  pthread_t thread;
  bool started = false;
  if (pthread_attr_init(&attributes) == 0) {
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    started = pthread_create(&thread, &attributes, Run, nullptr) == 0;
    pthread_attr_destroy(&attributes);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  StoreRelease(g_runs, 1u);
  // Registered after CUDA's own handlers, so run before them.
  atexit(AtExit);
  return true;
}

bool FlushThreadRuns() { return LoadAcquire(g_runs) != 0; }

void PublishInfo() {
  if (!recorder::Active() || g_session.cupti == nullptr) return;
  schema::CuptiInfo& info = g_source.info;
  info.state = static_cast<uint32_t>(State());
  info.records = LoadRelaxed(g_source.records);
  info.buffers_lent = LoadRelaxed(g_source.requests) - LoadRelaxed(g_source.refused);
  info.buffers_returned = LoadRelaxed(g_source.completions);
  // Everything but the states of the buffers, which the pool writes there itself. Readers are other processes: no
  // word is torn.
  const auto* from = reinterpret_cast<const uint64_t*>(&info);
  auto* to = reinterpret_cast<uint64_t*>(g_session.cupti);
  constexpr size_t kStates = offsetof(schema::CuptiInfo, buffer_state) / 8;
  constexpr size_t kAfter = kStates + sizeof(info.buffer_state) / 8;
  for (size_t i = 0; i < sizeof(info) / 8; ++i) {
    if (i < kStates || i >= kAfter) StoreRelaxed(to[i], from[i]);
  }
}

}  // namespace rankscope::cupti
