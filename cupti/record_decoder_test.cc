// The decoder alone, over buffers made here, without CUPTI and without the flush thread: LeakSanitizer can look
// (beside a live thread GCC 12's crashes), and every byte behind a buffer's end is AddressSanitizer's.
#include "cupti/record_decoder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cupti/gpu_clock.h"
#include "recorder/clock.h"
#include "recorder/session.h"

namespace rankscope::cupti {
namespace {

using schema::LossReason;

class DecoderTest : public ::testing::Test {
 protected:
  DecoderTest() {
    char path[] = "/tmp/rankscope-decoder-test-XXXXXX";
    dir_ = mkdtemp(path);
    setenv("RANKSCOPE_DIR", dir_.c_str(), 1);
    setenv("RANKSCOPE_RING_BYTES", "4M", 1);
    EXPECT_TRUE(recorder::Start());
    AnchorClock();
    SetClockMode(schema::CuptiClock::kOurs);
    for (const uint32_t kind : {1u, 2u, 10u, 17u, 22u, 38u, 49u, 50u, 51u})
      strides_[kind] = static_cast<uint16_t>(NeededBytes(kind) / 8 * 8 + 8);
    strides_[kKindOverhead] = 56;
  }
  ~DecoderTest() override { std::filesystem::remove_all(dir_); }

  // On the heap, of exactly this size: reading behind it is seen.
  DecodeCounts Decode(const std::vector<uint8_t>& bytes) {
    const std::unique_ptr<uint8_t[]> buffer(new uint8_t[bytes.size()]);
    std::memcpy(buffer.get(), bytes.data(), bytes.size());
    return DecodeBuffer({strides_, nullptr, CuptiNowNs() - 1'000'000'000}, buffer.get(), bytes.size());
  }
  static void Put(std::vector<uint8_t>* record, Field field, uint64_t value) {
    std::memcpy(record->data() + field.offset, &value, field.bytes);
  }
  static uint64_t Lost(LossReason reason) {
    return recorder::LoadRelaxed(recorder::g_session.losses[static_cast<int>(reason)]);
  }

  std::string dir_;
  uint16_t strides_[schema::kCuptiKindLimit] = {};
};

TEST_F(DecoderTest, OverheadDataIsFreedOnceAlsoWhereTheRecordIsRefused) {
  for (const uint64_t start : {CuptiNowNs(), uint64_t{0}}) {
    std::vector<uint8_t> record(56);
    Put(&record, kRecordKind, kKindOverhead);
    Put(&record, OverheadLayout::kStart, start);
    Put(&record, OverheadLayout::kEnd, start);
    Put(&record, OverheadLayout::kData, reinterpret_cast<uint64_t>(malloc(64)));
    EXPECT_EQ(Decode(record).records, start == 0 ? 0u : 1u);
  }
}

TEST_F(DecoderTest, ATruncatedLastRecordIsCountedByItsBytes) {
  std::vector<uint8_t> record(strides_[kKindConcurrentKernel]);
  Put(&record, kRecordKind, kKindConcurrentKernel);
  Put(&record, KernelLayout::kStart, CuptiNowNs());
  Put(&record, KernelLayout::kEnd, CuptiNowNs());
  std::vector<uint8_t> two = record;
  two.insert(two.end(), record.begin(), record.begin() + 40);
  EXPECT_EQ(Decode(two).records, 1u);
  EXPECT_EQ(Lost(LossReason::kCuptiUnparsedBytes), 40u);
}

TEST_F(DecoderTest, AKindOfAStrideThatIsTooShortIsSteppedOver) {
  strides_[kKindConcurrentKernel] = 104;  // its name would lie behind
  std::vector<uint8_t> record(104);
  Put(&record, kRecordKind, kKindConcurrentKernel);
  Put(&record, KernelLayout::kStart, CuptiNowNs());
  Put(&record, KernelLayout::kEnd, CuptiNowNs());
  EXPECT_EQ(Decode(record).records, 0u);
}

TEST_F(DecoderTest, TicksOfTheProcessorAreTakenAsTheyAre) {
  if (recorder::g_use_monotonic_clock) GTEST_SKIP() << "no counter of the processor is in use here";
  const uint64_t now = recorder::ReadTicks();
  const auto decode = [&](uint64_t start, uint64_t end) {
    std::vector<uint8_t> record(strides_[kKindSynchronization]);
    Put(&record, kRecordKind, kKindSynchronization);
    Put(&record, SynchronizationLayout::kStart, start);
    Put(&record, SynchronizationLayout::kEnd, end);
    return Decode(record).records;
  };
  EXPECT_EQ(decode(now, now + 500), 1u);
  const uint64_t second_ticks = ToTicks(CuptiNowNs() + 1'000'000'000) - ToTicks(CuptiNowNs());
  EXPECT_EQ(decode(now - 3 * second_ticks, now), 0u) << "before this process asked for anything";
  EXPECT_EQ(decode(now + 60 * second_ticks, now + 61 * second_ticks), 0u) << "from the future";
  EXPECT_EQ(Lost(LossReason::kCuptiForeignClock), 2u);
  EXPECT_EQ(decode(now, now - 1), 0u);
  EXPECT_EQ(decode(now, CuptiNowNs()), 0u) << "one end in each clock";
  EXPECT_EQ(decode(CuptiNowNs(), now), 0u);
  EXPECT_EQ(Lost(LossReason::kCuptiBadTimestamp), 3u);
}

TEST_F(DecoderTest, RandomBytesAreReadWithinTheirBounds) {
  // Names are pointers that CUPTI vouches for: kernels are left out, and overheads, whose data is freed.
  strides_[kKindConcurrentKernel] = strides_[kKindOverhead] = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(random() % 600);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      if (random() % 3 == 0) {
        const uint32_t kind = std::vector<uint32_t>{1, 2, 22, 38, 49, 50, 51, 99}[random() % 8];
        std::memcpy(bytes.data() + at, &kind, 4);
      }
    }
    if (!bytes.empty()) Decode(bytes);
  }
}

}  // namespace
}  // namespace rankscope::cupti
