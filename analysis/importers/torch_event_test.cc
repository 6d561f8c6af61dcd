#include "analysis/importers/torch_event.h"

#include <gtest/gtest.h>

#include <string>

namespace rankscope::analysis {
namespace {

class TorchEventTest : public ::testing::Test {
 protected:
  bool Read(const std::string& json) {
    padded_ = json + std::string(64, ' ');
    return reader_.Read(absl::string_view(padded_).substr(0, json.size()), &event_);
  }
  std::string padded_;
  TorchEventReader reader_;
  TorchEvent event_;
};

TEST(MicrosecondsTest, AreNotTakenThroughADouble) {
  // 2^53 us is 9007199254740992: a double of microseconds has no half there.
  EXPECT_EQ(NanosecondsOfMicroseconds("1712195495519689.123").value, 1712195495519689123);
  EXPECT_EQ(NanosecondsOfMicroseconds("9007199254740993").value, 9007199254740993000);
  EXPECT_EQ(NanosecondsOfMicroseconds("12.5").value, 12500);
  EXPECT_EQ(NanosecondsOfMicroseconds("12.0059").value, 12005);
  EXPECT_EQ(NanosecondsOfMicroseconds("0").value, 0);
  EXPECT_EQ(NanosecondsOfMicroseconds("-1.5").value, -1500);
  EXPECT_EQ(NanosecondsOfMicroseconds("1.5e3").value, 1500000);
  for (const char* bad : {"", "x", "inf", "nan", "1e400", "99999999999999999999", "9223372036854775.808", "1.2.3"})
    EXPECT_FALSE(NanosecondsOfMicroseconds(bad).known) << bad;
}

TEST_F(TorchEventTest, AKernelsFields) {
  ASSERT_TRUE(Read(R"({"ph": "X", "cat": "kernel", "name": "a<b>", "pid": 3, "tid": 7, "ts": 4458676983543.183,
    "dur": 41.407, "args": {"External id": 12353, "queued": 0, "device": 3, "context": 1, "stream": 21,
    "correlation": 57541, "blocks per SM": 0.59, "grid": [64, 2, 1], "block": [128, 1, 1], "graph node id": 9}})"));
  EXPECT_EQ(event_.phase, 'X');
  EXPECT_EQ(event_.category, TorchCategory::kKernel);
  EXPECT_EQ(event_.name, "a<b>");
  EXPECT_EQ(event_.begin_ns.value, 4458676983543183);
  EXPECT_EQ(event_.length_ns.value, 41407);
  EXPECT_EQ(event_.device.value, 3);
  EXPECT_EQ(event_.stream.value, 21);
  EXPECT_EQ(event_.correlation.value, 57541);
  EXPECT_EQ(event_.external.value, 12353);
  EXPECT_EQ(event_.grid_blocks, 128u);
  EXPECT_EQ(event_.block_threads, 128u);
  EXPECT_EQ(event_.graph_node.value, 9);
  EXPECT_FALSE(event_.sequence.known);
  EXPECT_EQ(reader_.mended(), 0u);
}

TEST_F(TorchEventTest, ACollectivesFields) {
  ASSERT_TRUE(
      Read(R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": -5, "ts": 1, "dur": 2,
    "args": {"External id": 5, "Process Group Name": "tp", "Out msg nelems": 20, "Process Group Ranks": "[0, 4, ...]",
    "Group size": 8, "In msg nelems": 10, "dtype": "BFloat16", "Collective name": "_allgather_base", "Seq": 77,
    "Src Rank": 2, "Dst Rank": 3, "Rank": 4}})"));
  EXPECT_EQ(event_.collective, "_allgather_base");
  EXPECT_EQ(event_.group_name, "tp");
  EXPECT_EQ(event_.group_ranks, "[0, 4, ...]");
  EXPECT_EQ(event_.group_size.value, 8);
  EXPECT_EQ(event_.in_elements.value, 10);
  EXPECT_EQ(event_.out_elements.value, 20);
  EXPECT_EQ(event_.sequence.value, 77);
  EXPECT_EQ(event_.dtype, "BFloat16");
  EXPECT_EQ(event_.thread.value, -5);
}

TEST_F(TorchEventTest, OldCategoriesNumbersInQuotesAndWordsForIds) {
  ASSERT_TRUE(Read(
      R"({"ph": "X", "cat": "Kernel", "name": "k", "pid": "Spans", "tid": "stream 7", "ts": "12.5", "dur": "3"})"));
  EXPECT_EQ(event_.category, TorchCategory::kKernel);
  EXPECT_EQ(event_.begin_ns.value, 12500);
  EXPECT_EQ(event_.length_ns.value, 3000);
  EXPECT_FALSE(event_.process.known);
  EXPECT_FALSE(event_.thread.known);
}

TEST_F(TorchEventTest, TheKnownDamageIsMended) {
  // Control bytes, an unknown escape, no UTF-8, numbers that are none (Kineto #105, #336; PyTorch #98432, #113001).
  for (const std::string& name : {std::string("a\nb"), std::string("a\x01z"), std::string("C:\\dir\\q"),
                                  std::string("caf\xe9"), std::string("tail\\u12")}) {
    ASSERT_TRUE(Read("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"" + name + "\", \"ts\": 5, \"dur\": 1}"))
        << name;
    EXPECT_EQ(event_.begin_ns.value, 5000) << name;
    EXPECT_EQ(event_.name.substr(0, 1), name.substr(0, 1));
  }
  for (const char* number : {"inf", "-inf", "nan", "Infinity", "NaN"}) {
    ASSERT_TRUE(Read(std::string("{\"ph\": \"X\", \"name\": \"m\", \"args\": {\"memory bandwidth (GB/s)\": ") +
                     number + ", \"bytes\": 8}, \"ts\": 5, \"dur\": 1}"))
        << number;
    EXPECT_EQ(event_.bytes.value, 8) << number;
    EXPECT_EQ(event_.length_ns.value, 1000) << number;
  }
}

TEST_F(TorchEventTest, TheLastOfTwoEqualKeysCounts) {
  ASSERT_TRUE(Read(R"({"ph": "X", "name": "a", "name": "b"})"));
  EXPECT_EQ(event_.name, "b");
}

TEST_F(TorchEventTest, WhatIsNoObjectIsRefused) {
  for (const char* text : {"{", "[]", "12", "{\"name\": }", "{\"name\" \"x\"}", "{\"name\": 5}"})
    EXPECT_FALSE(Read(text)) << text;
}

}  // namespace
}  // namespace rankscope::analysis
