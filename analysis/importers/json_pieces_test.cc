#include "analysis/importers/json_pieces.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace rankscope::analysis {
namespace {

using ::testing::ElementsAre;

struct Cut {
  std::vector<std::string> events, members;
  uint64_t damaged = 0;
  bool cut = false, is_json = false;
};

Cut CutUp(const std::string& text, size_t block_bytes = 1 << 22) {
  size_t at = 0;
  JsonPieces pieces(
      [&](char* to, size_t bytes) {
        const size_t count = std::min(bytes, text.size() - at);
        std::memcpy(to, text.data() + at, count);
        at += count;
        return count;
      },
      block_bytes);
  Cut out;
  for (JsonPiece piece = pieces.Next(); piece.kind != JsonPiece::Kind::kEnd; piece = pieces.Next()) {
    // Where it says it is, and what it says there.
    EXPECT_EQ(text.substr(piece.offset, piece.text.size()), std::string(piece.text));
    if (piece.kind == JsonPiece::Kind::kEvent) {
      out.events.emplace_back(piece.text);
    } else {
      out.members.push_back(piece.key + "=" + std::string(piece.text));
    }
  }
  out.damaged = pieces.damaged();
  out.cut = pieces.cut();
  out.is_json = pieces.is_json();
  return out;
}

constexpr char kTrace[] = R"(
{
  "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "H100 \"80\" ]"}],
  "traceEvents": [
  {
    "ph": "X", "name": "a{b\\", "args": {"grid": [1, 2, 3]}
  },
  {"ph": "X", "name": "c]}\"d"}, {"ph": "M"}
  ],
  "baseTimeNanoseconds": 1711964646000000000,
  "traceName": "/tmp/x.json"
})";

TEST(JsonPiecesTest, EventsAndMembersWhateverTheBlock) {
  const Cut whole = CutUp(kTrace);
  EXPECT_THAT(whole.events,
              ElementsAre("{\n    \"ph\": \"X\", \"name\": \"a{b\\\\\", \"args\": {\"grid\": [1, 2, 3]}\n  }",
                          R"({"ph": "X", "name": "c]}\"d"})", R"({"ph": "M"})"));
  EXPECT_THAT(whole.members,
              ElementsAre("schemaVersion=1", R"(deviceProperties=[{"id": 0, "name": "H100 \"80\" ]"}])",
                          "baseTimeNanoseconds=1711964646000000000", R"(traceName="/tmp/x.json")"));
  EXPECT_EQ(whole.damaged, 0u);
  EXPECT_FALSE(whole.cut);
  for (size_t block = 1; block < 200; ++block) {
    const Cut small = CutUp(kTrace, block);
    EXPECT_EQ(small.events, whole.events) << block;
    EXPECT_EQ(small.members, whole.members) << block;
  }
}

TEST(JsonPiecesTest, AnArrayOfEventsIsATraceToo) {
  EXPECT_THAT(CutUp(R"([{"ph": "X"}, {"ph": "M"}])").events, ElementsAre(R"({"ph": "X"})", R"({"ph": "M"})"));
}

TEST(JsonPiecesTest, AQuoteTooManyCostsOneEvent) {
  for (const char* bad : {R"({"ph": "X", "name": "a "quoted" word" x"})", R"({"ph": "X", "name": "one " more"})"}) {
    std::string text = "{\"traceEvents\": [";
    for (int i = 0; i < 5; ++i) text += std::string(i == 2 ? bad : "{\"ph\": \"X\", \"name\": \"good\"}") + ",\n";
    text += "{\"ph\": \"M\"}], \"traceName\": \"x\"}";
    for (const size_t block : {size_t{7}, size_t{64}, size_t{1} << 20}) {
      const Cut cut = CutUp(text, block);
      EXPECT_EQ(std::count(cut.events.begin(), cut.events.end(), "{\"ph\": \"X\", \"name\": \"good\"}"), 4) << bad;
      EXPECT_FALSE(cut.cut);
      EXPECT_EQ(cut.members.size(), 1u);
    }
  }
}

TEST(JsonPiecesTest, ACutFileGivesWhatItHas) {
  const std::string text = kTrace;
  const Cut cut = CutUp(text.substr(0, text.find("c]}")));
  EXPECT_EQ(cut.events.size(), 1u);
  EXPECT_TRUE(cut.cut);
  EXPECT_TRUE(cut.is_json);
  for (size_t size = 0; size < text.size(); ++size) CutUp(text.substr(0, size), 16);
}

TEST(JsonPiecesTest, AnEventBeyondTheLimitIsLeftOutAndReadingGoesOn) {
  const std::string text = "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"" + std::string(3 << 20, 'x') +
                           "\"}, {\"ph\": \"M\"}, {\"ph\": \"i\"}]}";
  const Cut cut = CutUp(text, 4096);
  EXPECT_GE(cut.damaged, 1u);
  EXPECT_THAT(cut.events, ElementsAre("{\"ph\": \"M\"}", "{\"ph\": \"i\"}"));
}

TEST(JsonPiecesTest, WhatIsNoJsonIsSaidToBeNone) {
  for (const char* text : {"", "   ", "hello", "\x1f\x8b"}) EXPECT_FALSE(CutUp(text).is_json) << text;
}

TEST(JsonPiecesTest, ScrambledTextEnds) {
  std::mt19937 random(1);
  const std::string alphabet = "{}[]\",:\\ ph\"\n1x";
  for (int i = 0; i < 3000; ++i) {
    std::string text = "{\"traceEvents\": [";
    for (int k = 0; k < 120; ++k) text += alphabet[random() % alphabet.size()];
    CutUp(text, 1 + random() % 40);
  }
}

}  // namespace
}  // namespace rankscope::analysis
