// How one host's clock runs against a reference: a line, or joined straight pieces where a line does not do, fitted
// robustly to points of which some are wrong.
//
// Pure; a built curve is immutable. Times are int64_t ns since the epoch, corrections double ns: what to add to the
// host's time. Must never: bend so much that a corrected clock runs backwards (slopes stay below 1,000 ppm).
#ifndef RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_CURVE_H_
#define RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rankscope::alignment {

// Times come from files: what is not known, or can't be a time of this millennium, is none.
inline bool IsTime(int64_t ns) { return ns > 0 && ns < int64_t{1} << 62; }

struct CurvePoint {
  int64_t at_ns = 0;
  double correction_ns = 0;
};

class ClockCurve {
 public:
  ClockCurve() = default;  // adds nothing
  // The line through `through`.
  ClockCurve(CurvePoint through, double slope);
  // Straight between the knots (by time, at least one), with `slope` before the first and after the last.
  ClockCurve(const std::vector<CurvePoint>& knots, double slope);

  double At(int64_t at_ns) const;
  // Where pieces begin; one for a line.
  const std::vector<CurvePoint>& knots() const { return knots_; }
  double slope() const { return slope_; }

 private:
  friend class ClockConverter;
  size_t PieceOf(int64_t at_ns) const;  // 0: before the first knot; i: from knot i-1 on

  std::vector<CurvePoint> knots_{CurvePoint{}};
  std::vector<double> slopes_{0, 0};  // by piece
  double slope_ = 0;
};

// The fast way for times that mostly grow: remembers the last piece. One thread. Times of 0 mean "not known" and
// stay.
class ClockConverter {
 public:
  explicit ClockConverter(const ClockCurve* curve) : curve_(curve) {}
  int64_t operator()(int64_t at_ns) {
    if (at_ns < from_ns_ || at_ns >= until_ns_) [[unlikely]]
      Seek(at_ns);
    return Apply(at_ns);
  }

 private:
  void Seek(int64_t at_ns);
  int64_t Apply(int64_t at_ns) const;

  const ClockCurve* curve_;
  int64_t from_ns_ = 1, until_ns_ = 0;  // the piece serves [from, until)
  int64_t base_ns_ = 0;
  double correction_ns_ = 0, slope_ = 0;
};

struct CurveFit {
  bool fitted = false;  // there were enough points
  ClockCurve curve;
  double spread_ns = 0;  // of the points around the curve: 1.4826 times the median distance (a normal's sigma)
  double noise_ns = 0;   // sigma of the curve itself where it is least sure
  // The curve's shape is right within this, whatever its height: what it may be off at one time but not at another.
  double shape_ns = 0;
};

inline constexpr size_t kLeastPoints = 4;

// `points` by time. Fewer than kLeastPoints: not fitted. docs/analysis.md ("Clocks") has the rules.
CurveFit FitCurve(const std::vector<CurvePoint>& points);

}  // namespace rankscope::alignment

#endif  // RANKSCOPE_ANALYSIS_ALIGNMENT_CLOCK_CURVE_H_
