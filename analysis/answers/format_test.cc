#include "analysis/answers/format.h"

#include <gtest/gtest.h>

#include "analysis/answers/histogram.h"
#include "analysis/answers/names.h"
#include "analysis/answers/text_style.h"
#include "analysis/answers/text_table.h"

namespace rankscope::answers {
namespace {

TEST(FormatTest, DurationsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatDuration(0), "0 ns");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(1234), "1.23 us");
  EXPECT_EQ(FormatDuration(12345678), "12.3 ms");
  EXPECT_EQ(FormatDuration(300000000), "300 ms");
  EXPECT_EQ(FormatDuration(12300000000), "12.3 s");
  EXPECT_EQ(FormatDuration(245000000000), "4 min 05 s");
  EXPECT_EQ(FormatDuration(3600000000000 * 3), "3 h 00 min");
  EXPECT_EQ(FormatDuration(-1500), "-1.50 us");
}

TEST(FormatTest, DurationsRoundIntoTheNextUnit) {
  EXPECT_EQ(FormatDuration(999'600), "1.00 ms");
  EXPECT_EQ(FormatDuration(999'700'000), "1.00 s");
}

TEST(FormatTest, BytesAreDecimal) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(67'108'864), "67.1 MB");
  EXPECT_EQ(FormatBytes(131'072), "131 kB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "18.4 EB");
}

TEST(FormatTest, CountsHaveSeparators) {
  EXPECT_EQ(FormatCount(7), "7");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(FormatTest, RankListsCollapse) {
  EXPECT_EQ(FormatNumberList({}), "");
  EXPECT_EQ(FormatNumberList({3}), "3");
  EXPECT_EQ(FormatNumberList({1, 0}), "0, 1");
  EXPECT_EQ(FormatNumberList({12, 0, 1, 2, 3, 4, 5, 6, 7, 7}), "0-7, 12");
  EXPECT_EQ(FormatNumberList({0, 2, 4, 6, 8}, 3), "0, 2, 4, 2 more");
}

TEST(FormatTest, AThousandRanksMakeOneShortList) {
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < 1024; ++r) {
    if (r != 77) ranks.push_back(r);
  }
  EXPECT_EQ(FormatNumberList(ranks), "0-76, 78-1023");
}

TEST(FormatTest, TimesAreUtc) {
  EXPECT_EQ(FormatUtc(1'000'000'000'123'456'789), "2001-09-09 01:46:40.123 UTC");
  EXPECT_EQ(FormatUtc(0), "unknown");
}

TEST(NamesTest, VersionsReadAsReleases) {
  EXPECT_EQ(NcclVersionText(22809), "2.28.9");
  EXPECT_EQ(NcclVersionText(23007), "2.30.7");
  EXPECT_EQ(NcclVersionText(2708), "2.7.8");
  EXPECT_EQ(NcclVersionText(0), "unknown");
}

TEST(NamesTest, NumbersFromOutsideTheTablesGetAWord) {
  EXPECT_EQ(FunctionName(255), "unknown");
  EXPECT_EQ(DataTypeName(255), "unknown");
  EXPECT_EQ(LossReasonKey(9999), "other");
  EXPECT_EQ(EventKindName(63), "other");
}

TEST(HistogramTest, QuantilesAreWithinAThirtySecondAndNeverBelow) {
  Histogram histogram;
  for (int64_t value = 1; value <= 100000; ++value) histogram.Add(value);
  for (const double quantile : {0.01, 0.5, 0.9, 0.99}) {
    const double truth = quantile * 100000;
    const auto answer = static_cast<double>(histogram.Quantile(quantile));
    EXPECT_GE(answer, truth);
    EXPECT_LE(answer, truth * (1 + 1.0 / 32) + 1);
  }
  EXPECT_EQ(histogram.min(), 1);
  EXPECT_EQ(histogram.max(), 100000);
  EXPECT_EQ(histogram.Quantile(1), 100000);
  EXPECT_DOUBLE_EQ(histogram.mean(), 50000.5);
}

TEST(HistogramTest, OneValueIsItsEveryQuantile) {
  Histogram histogram;
  histogram.Add(123456789);
  EXPECT_EQ(histogram.Quantile(0), 123456789);
  EXPECT_EQ(histogram.Quantile(0.5), 123456789);
}

TEST(HistogramTest, TakesTheLargestNumbersThereAre) {
  Histogram histogram;
  histogram.Add(INT64_MAX);
  histogram.Add(-5);
  EXPECT_EQ(histogram.max(), INT64_MAX);
  EXPECT_EQ(histogram.min(), 0);
}

TEST(TextTableTest, AlignsAndLeavesEmptyColumnsOut) {
  TextTable table;
  table.AddColumn("name", TextTable::Align::kLeft);
  table.AddColumn("empty");
  table.AddColumn("n");
  table.AddRow({"a", "", "10"});
  table.AddRow({"long", "", "7"});
  EXPECT_EQ(table.Render(2, 0), "  name   n\n  a     10\n  long   7\n");
}

TEST(TextTableTest, CutsTextAndNotNumbersWhenNarrow) {
  TextTable table;
  table.AddColumn("operation", TextTable::Align::kLeft);
  table.AddColumn("n");
  table.AddRow({"a very long name of something", "1234567"});
  const std::string text = table.Render(0, 24);
  EXPECT_NE(text.find("1234567"), std::string::npos);
  EXPECT_NE(text.find("~"), std::string::npos);
  EXPECT_LE(text.substr(0, text.find('\n')).size(), 24u);
}

TEST(TextStyleTest, WrapsAtSpacesAndIndents) {
  EXPECT_EQ(TextStyle(34, false).Wrap("aaaa bbbb cccc dddd eeee ffff gggg", 2),
            "  aaaa bbbb cccc dddd eeee ffff\n    gggg\n");
  EXPECT_EQ(TextStyle(0, false).Wrap("a b", 0), "a b\n");
}

TEST(TextStyleTest, ColoursOnlyWhenAsked) {
  EXPECT_EQ(TextStyle(80, false).Verdict("x", true), "x");
  EXPECT_EQ(TextStyle(80, true).Verdict("x", true), "\x1b[1;31mx\x1b[0m");
}

}  // namespace
}  // namespace rankscope::answers
