// See clock_curve.h.
#include "analysis/alignment/clock_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rankscope::alignment {

namespace {

// Two clocks that NTP disciplines differ by at most 500 ppm each (the kernel's limit); more is not a clock.
constexpr double kSteepest = 1e-3;
// A slope that is not known better than this is not used: it would do harm outside the points.
constexpr double kVaguestSlope = 200e-6;
constexpr double kSureSigmas = 4;
// Windows of points, each of which becomes its median.
constexpr size_t kPointsToCut = 64, kPointsPerWindow = 16, kMostWindows = 64;
// A bend smaller than this is not worth a piece.
constexpr double kLeastBendNs = 500;
// Median absolute deviation to a normal's sigma, and what the median loses against the mean: sqrt(pi/2).
constexpr double kMadToSigma = 1.4826, kMedianNoise = 1.2533;

double Median(std::vector<double>* values) {
  const size_t middle = values->size() / 2;
  std::nth_element(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(middle), values->end());
  const double upper = (*values)[middle];
  if (values->size() % 2 == 1) return upper;
  return (upper + *std::max_element(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(middle))) / 2;
}

double TimeOf(const CurvePoint& point, const CurvePoint& origin) {
  return static_cast<double>(point.at_ns - origin.at_ns);
}

// The median slope of all pairs (Theil and Sen).
double MedianSlope(const std::vector<CurvePoint>& points) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const double length_ns = TimeOf(points[j], points[i]);
      if (length_ns > 0) slopes.push_back((points[j].correction_ns - points[i].correction_ns) / length_ns);
    }
  }
  return slopes.empty() ? 0 : Median(&slopes);
}

// The line of this slope with as many points above as below.
ClockCurve LineOf(const std::vector<CurvePoint>& points, double slope) {
  const CurvePoint& middle = points[points.size() / 2];
  std::vector<double> heights;
  heights.reserve(points.size());
  for (const CurvePoint& point : points) heights.push_back(point.correction_ns - slope * TimeOf(point, middle));
  return ClockCurve(CurvePoint{middle.at_ns, Median(&heights)}, slope);
}

double SpreadAround(const ClockCurve& curve, const CurvePoint* first, size_t count) {
  std::vector<double> distances;
  distances.reserve(count);
  for (size_t i = 0; i < count; ++i) distances.push_back(std::abs(first[i].correction_ns - curve.At(first[i].at_ns)));
  return kMadToSigma * Median(&distances);
}

// Medians of consecutive points: as many of each side, whatever few of them say.
std::vector<CurvePoint> WindowMedians(const std::vector<CurvePoint>& points, double slope) {
  const size_t windows = std::min(kMostWindows, points.size() / kPointsPerWindow);
  std::vector<CurvePoint> medians;
  std::vector<double> heights;
  for (size_t w = 0; w < windows; ++w) {
    const size_t first = w * points.size() / windows, last = (w + 1) * points.size() / windows;
    const CurvePoint& middle = points[(first + last) / 2];
    heights.clear();
    for (size_t i = first; i < last; ++i) {
      heights.push_back(points[i].correction_ns - slope * TimeOf(points[i], middle));
    }
    medians.push_back({middle.at_ns, Median(&heights)});
  }
  return medians;
}

bool RunsForward(const ClockCurve& curve, const std::vector<CurvePoint>& knots) {
  for (size_t i = 1; i < knots.size(); ++i) {
    const double length_ns = TimeOf(knots[i], knots[i - 1]);
    if (length_ns <= 0) return false;
    if (std::abs(knots[i].correction_ns - knots[i - 1].correction_ns) > kSteepest * length_ns) return false;
  }
  return std::abs(curve.slope()) <= kSteepest;
}

// Whether the points can tell this slope from none. Sigma of a slope: that of least squares for evenly spread points.
double SureSlope(const std::vector<CurvePoint>& points, double slope, double spread_ns, double* sigma) {
  const double span_ns = TimeOf(points.back(), points.front());
  *sigma = span_ns <= 0 ? std::numeric_limits<double>::infinity()
                        : spread_ns * std::sqrt(12.0 / static_cast<double>(points.size())) / span_ns;
  const bool sure = *sigma < kVaguestSlope && std::abs(slope) >= kSureSigmas * *sigma && std::abs(slope) <= kSteepest;
  return sure ? slope : 0;
}

}  // namespace

ClockCurve::ClockCurve(CurvePoint through, double slope) : knots_{through}, slopes_{slope, slope}, slope_(slope) {}

ClockCurve::ClockCurve(const std::vector<CurvePoint>& knots, double slope)
    : knots_(knots), slopes_{slope}, slope_(slope) {
  for (size_t i = 1; i < knots_.size(); ++i) {
    const double length_ns = TimeOf(knots_[i], knots_[i - 1]);
    slopes_.push_back(length_ns > 0 ? (knots_[i].correction_ns - knots_[i - 1].correction_ns) / length_ns : 0);
  }
  slopes_.push_back(slope);
}

size_t ClockCurve::PieceOf(int64_t at_ns) const {
  return static_cast<size_t>(std::upper_bound(knots_.begin(), knots_.end(), at_ns,
                                              [](int64_t at, const CurvePoint& knot) { return at < knot.at_ns; }) -
                             knots_.begin());
}

double ClockCurve::At(int64_t at_ns) const {
  const size_t piece = PieceOf(at_ns);
  const CurvePoint& base = knots_[piece == 0 ? 0 : piece - 1];
  return base.correction_ns + slopes_[piece] * (static_cast<double>(at_ns) - static_cast<double>(base.at_ns));
}

void ClockConverter::Seek(int64_t at_ns) {
  const auto& knots = curve_->knots_;
  const size_t piece = curve_->PieceOf(at_ns);
  from_ns_ = piece == 0 ? std::numeric_limits<int64_t>::min() : knots[piece - 1].at_ns;
  until_ns_ = piece == knots.size() ? std::numeric_limits<int64_t>::max() : knots[piece].at_ns;
  const CurvePoint& base = knots[piece == 0 ? 0 : piece - 1];
  base_ns_ = base.at_ns;
  correction_ns_ = base.correction_ns;
  slope_ = curve_->slopes_[piece];
}

int64_t ClockConverter::Apply(int64_t at_ns) const {
  if (!IsTime(at_ns)) return at_ns;
  const double add_ns = correction_ns_ + slope_ * static_cast<double>(at_ns - base_ns_);
  if (!(add_ns > -0x1p61 && add_ns < 0x1p61)) return at_ns;
  return std::max<int64_t>(1, at_ns + std::llround(add_ns));
}

CurveFit FitCurve(const std::vector<CurvePoint>& points) {
  CurveFit fit;
  if (points.size() < kLeastPoints) return fit;
  fit.fitted = true;
  const auto count = static_cast<double>(points.size());
  const bool cut = points.size() >= kPointsToCut;
  // Two passes: the windows' medians are taken along the slope that the first pass found.
  double slope = MedianSlope(cut ? WindowMedians(points, 0) : points);
  if (cut) slope = MedianSlope(WindowMedians(points, slope));
  double slope_sigma = 0;
  const double steep_spread_ns = SpreadAround(LineOf(points, slope), points.data(), points.size());
  slope = SureSlope(points, slope, steep_spread_ns, &slope_sigma);
  fit.curve = LineOf(points, slope);
  fit.spread_ns = SpreadAround(fit.curve, points.data(), points.size());
  const double centre_noise_ns = kMedianNoise * fit.spread_ns / std::sqrt(count);
  // At its ends a line is known half as well as in its middle. Without a slope, one of up to twice what would have
  // been seen may be there: over half the span that is this many sigmas of a mean.
  const double unseen = kSureSigmas * 2 * std::sqrt(12.0) / 2;
  fit.noise_ns = 2 * centre_noise_ns;
  fit.shape_ns = (slope != 0 ? 2 * kSureSigmas * kMedianNoise : unseen) * fit.spread_ns / std::sqrt(count);
  if (!cut) return fit;

  const std::vector<CurvePoint> medians = WindowMedians(points, slope);
  std::vector<double> spreads;
  for (size_t w = 0; w < medians.size(); ++w) {
    const size_t first = w * points.size() / medians.size(), last = (w + 1) * points.size() / medians.size();
    spreads.push_back(
        SpreadAround(ClockCurve(medians[w], slope), points.data() + first, static_cast<size_t>(last - first)));
  }
  const double inside_ns = Median(&spreads);
  const double window_noise_ns = kMedianNoise * inside_ns / std::sqrt(count / static_cast<double>(medians.size()));
  double bend_ns = 0;
  for (const CurvePoint& median : medians) {
    bend_ns = std::max(bend_ns, std::abs(median.correction_ns - fit.curve.At(median.at_ns)));
  }
  const ClockCurve pieces(medians, slope);
  if (bend_ns > kSureSigmas * window_noise_ns + kLeastBendNs && RunsForward(pieces, medians)) {
    fit.curve = pieces;
    fit.spread_ns = SpreadAround(pieces, points.data(), points.size());
    fit.noise_ns = window_noise_ns;
    // Between two knots a clock may bend as it does from one to the next.
    double kink_ns = 0;
    for (size_t w = 1; w + 1 < medians.size(); ++w) {
      const ClockCurve chord({medians[w - 1], medians[w + 1]}, slope);
      kink_ns = std::max(kink_ns, std::abs(medians[w].correction_ns - chord.At(medians[w].at_ns)));
    }
    fit.shape_ns = kSureSigmas * window_noise_ns + kink_ns;
  } else {
    fit.shape_ns = std::max(fit.shape_ns, bend_ns);
  }
  return fit;
}

}  // namespace rankscope::alignment
