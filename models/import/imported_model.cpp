#include "models/import/imported_model.hpp"

#include <filesystem>

#include "models/base/json_file.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

constexpr std::size_t longest_model_name = 255;

// The file's name without its folder and the endings that say only what kind of file it is.
std::string model_name_of(const std::string& source) {
  std::filesystem::path name = std::filesystem::path(source).filename();
  for (const char* ending : {".txt", ".csv", ".graph"})
    if (name.extension() == ending) name = name.stem();
  // A file's name need not be UTF-8; a model's must.
  return name.empty() ? "imported" : shortened(name.string(), longest_model_name);
}

Result<void> check_totals(const PerId<LayerId, ImportedCost>& costs, const std::string& source) {
  Wide time = 0, bytes = 0;
  for (const ImportedCost& cost : costs) {
    time += (cost.forward + cost.backward_input + cost.backward_weight).count();
    bytes += (cost.parameter_bytes + cost.activation_bytes + cost.output_bytes).value;
  }
  if (time >= largest_total_time.count())
    return bad_input(source, "has times that add up to 2^62 ns (146 years) or more");
  if (bytes >= largest_total_time.count())
    return bad_input(source, "has sizes that add up to 2^62 bytes or more");
  return {};
}

}  // namespace

Result<ImportedModel> assemble_import(PerId<LayerId, Layer> layers, std::vector<Edge> edges,
                                      PerId<LayerId, ImportedCost> costs, const std::string& tool,
                                      const std::string& source) {
  PIPEPLAN_CHECK(check_totals(costs, source));
  PIPEPLAN_TRY(graph, ModelGraph::make(model_name_of(source), std::move(layers), std::move(edges), source));
  return ImportedModel{std::move(graph), std::move(costs), tool, 1, {}};
}

}  // namespace pipeplan
