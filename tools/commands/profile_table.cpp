#include "tools/commands/profile_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/table.hpp"

namespace pipeplan {
namespace {

std::string backward_cells(const LayerCost& cost) {
  if (!cost.backward_is_split) return display(cost.backward());
  return fmt::format("{} + {}", display(cost.backward_input), display(cost.backward_weight));
}

}  // namespace

std::string profile_table(const Profile& profile) {
  Table table({{"layer", Table::Align::left},
               {"kind", Table::Align::left},
               {"forward"},
               {"backward"},
               {"parameters"},
               {"activations"},
               {"output"}});
  LayerCost total;
  Bytes parameters;
  for (const ProfiledLayer& layer : profile.layers) {
    const LayerCost& cost = layer.costs.back();
    table.add({layer.name, layer.kind, display(cost.forward), backward_cells(cost),
               display(layer.parameter_bytes), display(cost.activation), display(cost.output)});
    total.forward += cost.forward;
    total.backward_input += cost.backward();
    total.activation += cost.activation;
    parameters += layer.parameter_bytes;
  }
  table.add({"total", "", display(total.forward), display(total.backward_input), display(parameters),
             display(total.activation), ""});
  std::vector<std::int64_t> sizes = profiled_sizes(profile);
  return fmt::format("{}: {} layers, {} on {}\nmicro-batch size {}{}\n\n{}", profile.model,
                     profile.layers.size(), profile.source.kind, profile.source.device,
                     sizes.empty() ? 0 : sizes.back(),
                     sizes.size() > 1 ? fmt::format(" (of {})", fmt::join(sizes, ", ")) : "", table.text());
}

}  // namespace pipeplan
