#include "models/import/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "models/base/spelling.hpp"
#include "models/import/csv_cells.hpp"
#include "models/import/text_lines.hpp"

namespace pipeplan {
namespace {

enum class Field {
  name,
  kind,
  forward,
  backward,
  backward_input,
  backward_weight,
  parameter,
  activation,
  output
};

struct Unit {
  std::string_view suffix;
  std::int64_t factor;
};

constexpr std::array<Unit, 4> time_units{
    {{"_ns", 1}, {"_us", 1'000}, {"_ms", 1'000'000}, {"_s", 1'000'000'000}}};
constexpr std::array<Unit, 4> size_units{
    {{"_bytes", 1}, {"_kib", 1 << 10}, {"_mib", 1 << 20}, {"_gib", 1 << 30}}};
constexpr std::array<Unit, 1> no_unit{{{"", 0}}};

struct KnownField {
  Field field;
  std::string_view stem;
  std::span<const Unit> units;
};

constexpr std::array<KnownField, 9> known_fields{{{Field::name, "name", no_unit},
                                                  {Field::kind, "kind", no_unit},
                                                  {Field::forward, "forward", time_units},
                                                  {Field::backward, "backward", time_units},
                                                  {Field::backward_input, "backward_input", time_units},
                                                  {Field::backward_weight, "backward_weight", time_units},
                                                  {Field::parameter, "parameter", size_units},
                                                  {Field::activation, "activation", size_units},
                                                  {Field::output, "output", size_units}}};

constexpr std::int64_t bytes_per_parameter = 4;  // the table does not say: 32-bit floats

struct Column {
  std::size_t index;
  std::string title;
  std::int64_t unit;
};
using Columns = std::map<Field, Column>;

std::vector<std::string> titles_of(const KnownField& field) {
  std::vector<std::string> titles;
  for (const Unit& unit : field.units) titles.push_back(fmt::format("{}{}", field.stem, unit.suffix));
  return titles;
}

Failure refuse_title(const std::string& title, const std::string& place) {
  std::vector<std::string> all;
  for (const KnownField& field : known_fields) {
    const std::vector<std::string> titles = titles_of(field);
    if (title == field.stem)
      return bad_input(
          place, fmt::format("column '{}' has no unit, wanted one of {}", title, fmt::join(titles, ", ")));
    all.insert(all.end(), titles.begin(), titles.end());
  }
  const auto nearest = nearest_spelling(title, all);
  std::string hint = nearest ? fmt::format("did you mean '{}'?", *nearest) : "";
  if (title.find_first_of(";\t") != std::string::npos) hint = "separate the columns with commas";
  return bad_input(place, fmt::format("unknown column '{}'", title), std::move(hint));
}

Result<void> add_column(Columns& columns, std::size_t index, const std::string& title,
                        const std::string& place) {
  for (const KnownField& known : known_fields)
    for (const Unit& unit : known.units) {
      if (title != fmt::format("{}{}", known.stem, unit.suffix)) continue;
      const auto [earlier, added] = columns.emplace(known.field, Column{index, title, unit.factor});
      if (added) return {};
      return bad_input(
          place, fmt::format("columns '{}' and '{}' both give {}", earlier->second.title, title, known.stem));
    }
  return refuse_title(title, place);
}

Result<void> check_columns(const Columns& columns, const std::string& place) {
  const bool whole = columns.contains(Field::backward);
  const bool input = columns.contains(Field::backward_input),
             weight = columns.contains(Field::backward_weight);
  const auto missing = [&](std::string_view what) {
    return bad_input(place, fmt::format("has no column {}", what));
  };
  if (!columns.contains(Field::name)) return missing("name");
  if (!columns.contains(Field::forward)) return missing("forward, as in forward_us");
  if (!whole && !input && !weight) return missing("backward, as in backward_us");
  if (whole && (input || weight))
    return bad_input(place, "gives backward as a whole and in parts, wanted the whole or the parts");
  if (!whole && !input) return missing("backward_input, as in backward_input_us");
  if (!whole && !weight) return missing("backward_weight, as in backward_weight_us");
  return {};
}

Result<Columns> read_header(const TextLine& line, const std::string& source) {
  const std::string place = line_place(source, line.number);
  PIPEPLAN_TRY(titles, csv_cells(line.text, place));
  Columns columns;
  for (std::size_t i = 0; i < titles.size(); ++i) PIPEPLAN_CHECK(add_column(columns, i, titles[i], place));
  PIPEPLAN_CHECK(check_columns(columns, place));
  return columns;
}

// One row of the table, read column by column; keeps the first thing that is wrong.
class Row {
 public:
  Row(const Columns& columns, std::vector<std::string> cells, std::string place)
      : columns_(columns), cells_(std::move(cells)), place_(std::move(place)) {}

  [[nodiscard]] std::string text(Field field) const {
    const auto column = columns_.find(field);
    return column == columns_.end() ? "" : cells_[column->second.index];
  }

  // 0 where the table has no such column.
  std::int64_t number(Field field) {
    const auto column = columns_.find(field);
    if (column == columns_.end()) return 0;
    const std::string what = fmt::format("{} of layer '{}'", column->second.title, text(Field::name));
    const auto value = parse_scaled(cells_[column->second.index], column->second.unit, what);
    if (value) return *value;
    if (!error_) error_ = Error{ErrorCode::bad_input, value.error().message, place_, {}};
    return 0;
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Columns& columns_;
  std::vector<std::string> cells_;
  std::string place_;
  std::optional<Error> error_;
};

Result<ImportedCost> read_cost(Row& row, bool backward_is_split) {
  ImportedCost cost;
  cost.forward = Nanoseconds{row.number(Field::forward)};
  cost.backward_is_split = backward_is_split;
  cost.backward_input = Nanoseconds{row.number(backward_is_split ? Field::backward_input : Field::backward)};
  cost.backward_weight = Nanoseconds{row.number(Field::backward_weight)};
  cost.parameter_bytes = Bytes{row.number(Field::parameter)};
  cost.activation_bytes = Bytes{row.number(Field::activation)};
  cost.output_bytes = Bytes{row.number(Field::output)};
  if (row.error()) return Failure(*row.error());
  return cost;
}

Result<Row> read_row(const TextLine& line, const Columns& columns, const std::string& place) {
  PIPEPLAN_TRY(cells, csv_cells(line.text, place));
  if (cells.size() != columns.size())
    return bad_input(place,
                     fmt::format("has {} cells, wanted {} as in the header", cells.size(), columns.size()));
  Row row(columns, std::move(cells), place);
  if (row.text(Field::name).empty()) return bad_input(place, "name is empty, wanted at least one character");
  return row;
}

}  // namespace

Result<ImportedModel> import_csv(std::string_view text, const std::string& source) {
  PIPEPLAN_TRY(lines, text_lines(text, source));
  if (lines.empty()) return bad_input(source, "is empty, wanted a header and a row per layer");
  PIPEPLAN_TRY(columns, read_header(lines.front(), source));
  PerId<LayerId, Layer> layers;
  PerId<LayerId, ImportedCost> costs;
  std::map<std::string, std::size_t> line_of;
  for (const TextLine& line : std::span(lines).subspan(1)) {
    const std::string place = line_place(source, line.number);
    PIPEPLAN_TRY(row, read_row(line, columns, place));
    PIPEPLAN_TRY(cost, read_cost(row, columns.contains(Field::backward_input)));
    const std::string name = row.text(Field::name);
    const auto [earlier, added] = line_of.emplace(name, line.number);
    if (!added)
      return bad_input(place, fmt::format("layer '{}' is already on line {}", name, earlier->second));
    layers.push_back({name, row.text(Field::kind), cost.parameter_bytes.value / bytes_per_parameter});
    costs.push_back(cost);
  }
  if (layers.empty()) return bad_input(source, "has a header and no layers");
  return assemble_import(std::move(layers), {}, std::move(costs), "csv", source);
}

}  // namespace pipeplan
