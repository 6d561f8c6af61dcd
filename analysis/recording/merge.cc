// See merge.h.
#include "analysis/recording/merge.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace rankscope::analysis {

namespace {

constexpr size_t kBlockEvents = 64;

struct Cursor {
  std::unique_ptr<EventSource> source;
  std::vector<Event> block;
  size_t next = 0, filled = 0;
  int64_t key_ns = std::numeric_limits<int64_t>::min();
  size_t order = 0;
};

class MergedStream : public EventStream {
 public:
  explicit MergedStream(std::vector<std::unique_ptr<EventSource>> sources) {
    cursors_.reserve(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      Cursor cursor;
      cursor.source = std::move(sources[i]);
      cursor.block.resize(kBlockEvents);
      cursor.order = i;
      if (Advance(&cursor)) cursors_.push_back(std::move(cursor));
    }
    for (size_t i = 0; i < cursors_.size(); ++i) heap_.push_back(&cursors_[i]);
    std::make_heap(heap_.begin(), heap_.end(), Later);
  }

  size_t Read(absl::Span<Event> out) override {
    size_t written = 0;
    while (written < out.size() && !heap_.empty()) {
      Cursor* top = heap_.front();
      // The root's smaller child is the next best; until the top passes it nothing needs to move.
      const Cursor* rival = nullptr;
      if (heap_.size() > 1) rival = heap_[1];
      if (heap_.size() > 2 && Later(heap_[1], heap_[2])) rival = heap_[2];
      bool more = true;
      do {
        out[written++] = top->block[top->next++];
        if (top->next < top->filled) {
          top->key_ns = std::max(top->key_ns, top->block[top->next].end_ns);
        } else {
          more = Advance(top);
        }
      } while (more && written < out.size() && (rival == nullptr || !Later(top, rival)));
      if (!more) {
        heap_.front() = heap_.back();
        heap_.pop_back();
      }
      SiftDown();
    }
    return written;
  }

  absl::Status status() const override { return status_; }

 private:
  static bool Later(const Cursor* a, const Cursor* b) {
    return a->key_ns != b->key_ns ? a->key_ns > b->key_ns : a->order > b->order;
  }

  // The next block; false at the end.
  bool Advance(Cursor* cursor) {
    cursor->next = 0;
    cursor->filled = cursor->source->Read(absl::MakeSpan(cursor->block));
    if (cursor->filled == 0) {
      if (status_.ok()) status_ = cursor->source->status();
      return false;
    }
    cursor->key_ns = std::max(cursor->key_ns, cursor->block[0].end_ns);
    return true;
  }

  void SiftDown() {
    size_t i = 0;
    const size_t n = heap_.size();
    while (2 * i + 1 < n) {
      size_t child = 2 * i + 1;
      if (child + 1 < n && Later(heap_[child], heap_[child + 1])) ++child;
      if (!Later(heap_[i], heap_[child])) break;
      std::swap(heap_[i], heap_[child]);
      i = child;
    }
  }

  std::vector<Cursor> cursors_;
  std::vector<Cursor*> heap_;
  absl::Status status_;
};

class SortingSource : public EventSource {
 public:
  SortingSource(std::unique_ptr<EventSource> source, size_t window) : source_(std::move(source)), window_(window) {}

  size_t Read(absl::Span<Event> out) override {
    size_t written = 0;
    while (written < out.size()) {
      if (!ended_ && held_.size() < window_) {
        Fill();
        continue;
      }
      if (held_.empty()) break;
      std::pop_heap(held_.begin(), held_.end(), Later);
      out[written++] = held_.back();
      held_.pop_back();
    }
    return written;
  }
  absl::Status status() const override { return source_->status(); }

 private:
  static bool Later(const Event& a, const Event& b) { return a.end_ns > b.end_ns; }

  void Fill() {
    const size_t got = source_->Read(absl::MakeSpan(block_));
    if (got == 0) ended_ = true;
    for (size_t i = 0; i < got; ++i) {
      held_.push_back(block_[i]);
      std::push_heap(held_.begin(), held_.end(), Later);
    }
  }

  std::unique_ptr<EventSource> source_;
  const size_t window_;
  std::vector<Event> held_;
  std::vector<Event> block_ = std::vector<Event>(kBlockEvents);
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<EventSource> SortWithin(std::unique_ptr<EventSource> source, size_t window) {
  return std::make_unique<SortingSource>(std::move(source), window);
}

std::unique_ptr<EventStream> MergeSources(std::vector<std::unique_ptr<EventSource>> sources) {
  return std::make_unique<MergedStream>(std::move(sources));
}

}  // namespace rankscope::analysis
