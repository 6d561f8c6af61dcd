// The merge against std::stable_sort.
#include "analysis/recording/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace rankscope::analysis {
namespace {

class VectorSource : public EventSource {
 public:
  VectorSource(std::vector<Event> events, size_t most) : events_(std::move(events)), most_(most) {}
  size_t Read(absl::Span<Event> out) override {
    const size_t count = std::min({out.size(), most_, events_.size() - next_});
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(next_), count, out.begin());
    next_ += count;
    return count;
  }

 private:
  const std::vector<Event> events_;
  const size_t most_;
  size_t next_ = 0;
};

Event At(int64_t end_ns, uint32_t rank, uint64_t op) {
  Event event;
  event.end_ns = end_ns;
  event.rank_index = rank;
  event.op_id = op;
  return event;
}

std::vector<Event> ReadAll(EventStream* stream, size_t block) {
  std::vector<Event> all, part(block);
  while (const size_t count = stream->Read(absl::MakeSpan(part))) {
    all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}

TEST(MergeTest, GivesWhatAStableSortGives) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<EventSource>> sources;
    std::vector<Event> expected;
    const uint32_t source_count = random() % 9;
    for (uint32_t s = 0; s < source_count; ++s) {
      std::vector<Event> events;
      int64_t time = 0;
      const uint32_t n = random() % 1500;
      for (uint32_t i = 0; i < n; ++i) events.push_back(At(time += random() % 3, s, i));
      expected.insert(expected.end(), events.begin(), events.end());
      sources.push_back(std::make_unique<VectorSource>(std::move(events), 1 + random() % 300));
    }
    std::stable_sort(expected.begin(), expected.end(),
                     [](const Event& a, const Event& b) { return a.end_ns < b.end_ns; });
    const std::unique_ptr<EventStream> stream = MergeSources(std::move(sources));
    const std::vector<Event> merged = ReadAll(stream.get(), 1 + random() % 700);
    ASSERT_EQ(merged.size(), expected.size());
    for (size_t i = 0; i < merged.size(); ++i) {
      ASSERT_EQ(merged[i].end_ns, expected[i].end_ns);
      ASSERT_EQ(merged[i].rank_index, expected[i].rank_index) << "equal times keep the order of the sources";
      ASSERT_EQ(merged[i].op_id, expected[i].op_id);
    }
  }
}

TEST(MergeTest, ASourceThatStepsBackKeepsItsOwnOrder) {
  std::vector<std::unique_ptr<EventSource>> sources;
  sources.push_back(std::make_unique<VectorSource>(std::vector<Event>{At(10, 0, 0), At(5, 0, 1), At(12, 0, 2)}, 8));
  sources.push_back(std::make_unique<VectorSource>(std::vector<Event>{At(7, 1, 0), At(11, 1, 1)}, 8));
  const std::unique_ptr<EventStream> stream = MergeSources(std::move(sources));
  std::vector<std::pair<uint32_t, uint64_t>> order;
  for (const Event& event : ReadAll(stream.get(), 4)) order.emplace_back(event.rank_index, event.op_id);
  const std::vector<std::pair<uint32_t, uint64_t>> expected = {{1, 0}, {0, 0}, {0, 1}, {1, 1}, {0, 2}};
  EXPECT_EQ(order, expected);
}

TEST(MergeTest, SortWithinPutsRightWhatIsLateByLessThanItsWindow) {
  std::mt19937 random(7);
  std::vector<Event> events;
  for (uint32_t i = 0; i < 5000; ++i) events.push_back(At(i, 0, i));
  // Blocks of 100 in any order of two neighbours: nothing is more than 200 places off.
  for (size_t block = 0; block + 200 <= events.size(); block += 200)
    std::shuffle(events.begin() + static_cast<std::ptrdiff_t>(block),
                 events.begin() + static_cast<std::ptrdiff_t>(block + 200), random);
  std::vector<std::unique_ptr<EventSource>> sources;
  sources.push_back(SortWithin(std::make_unique<VectorSource>(events, 33), 256));
  const std::unique_ptr<EventStream> stream = MergeSources(std::move(sources));
  const std::vector<Event> sorted = ReadAll(stream.get(), 77);
  ASSERT_EQ(sorted.size(), events.size());
  for (uint32_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i].op_id, i);
}

TEST(MergeTest, NoSourcesAreAnEmptyStream) {
  const std::unique_ptr<EventStream> stream = MergeSources({});
  EXPECT_TRUE(ReadAll(stream.get(), 10).empty());
  EXPECT_TRUE(stream->status().ok());
}

}  // namespace
}  // namespace rankscope::analysis
