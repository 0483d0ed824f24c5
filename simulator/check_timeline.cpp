#include "simulator/check_timeline.hpp"

#include <fmt/format.h>

#include <map>

namespace pipeplan {
namespace {

// What an op may need; of the gradient's two forms a timeline shows one.
std::vector<Op> needs_of(const Op& op) {
  using enum OpKind;
  const StageId before = op.stage.previous(), behind = op.stage.next();
  const MicrobatchId k = op.micro_batch;
  switch (op.kind) {
    case forward: return {{forward, before, k}};
    case backward:
    case backward_input:
      return {{forward, op.stage, k},
              {recompute, op.stage, k},
              {backward, behind, k},
              {backward_input, behind, k}};
    case backward_weight: return {{backward_input, op.stage, k}};
    case recompute: return {{forward, op.stage, k}};
  }
  PIPEPLAN_UNREACHABLE("an op without needs");
}

}  // namespace

std::vector<TooEarly> early_starts(const Timeline& timeline) {
  std::map<Op, const Span*> spans;
  for (const Span& span : timeline.spans) spans[span.op] = &span;
  std::vector<TooEarly> early;
  for (const Span& span : timeline.spans)
    for (const Op& need : needs_of(span.op)) {
      const auto found = spans.find(need);
      if (found != spans.end() && found->second->end > span.start) early.push_back({span, *found->second});
    }
  return early;
}

std::string early_start_text(const TooEarly& early) {
  const auto named = [](const Span& span) {
    return fmt::format("{} on rank {}", op_text(span.op), span.rank.value);
  };
  return fmt::format("{} starts at {}, but {}, which it needs, ends at {}", named(early.span),
                     display(early.span.start), named(early.needs), display(early.needs.end));
}

}  // namespace pipeplan
