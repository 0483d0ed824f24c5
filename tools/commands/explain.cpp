#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "simulator/report.hpp"
#include "tools/cli/table.hpp"
#include "tools/commands/commands.hpp"

namespace pipeplan {
namespace {

class Explain : public Verb {
 public:
  [[nodiscard]] std::string name() const override { return "explain"; }
  [[nodiscard]] std::string summary() const override {
    return "explain a number: where a formula holds and where not";
  }
  [[nodiscard]] std::string footer() const override {
    return "Example:\n  pipeplan explain bubble --devices 4 --microbatches 8\n"
           "Topics: bubble (utilization, bubble fraction and what N/(N+k-1) means).";
  }

  void declare(CLI::App& app) override {
    app.add_option("topic", topic_, "what to explain: bubble")->required();
    app.add_option("--devices", formula_.devices, "number of devices N")->capture_default_str();
    app.add_option("--microbatches", formula_.micro_batches, "number of micro-batches k")
        ->capture_default_str();
    app.add_flag("--json", json_, "print the numbers as JSON");
  }

  Result<ExitCode> run(Terminal& terminal) override {
    if (topic_ != "bubble")
      return bad_usage(
          fmt::format("unknown topic '{}', wanted: bubble", topic_),
          nearest_spelling(topic_, std::vector<std::string>{"bubble"}) ? "did you mean 'bubble'?" : "");
    for (const auto& [flag, value] :
         {std::pair{"--devices", formula_.devices}, std::pair{"--microbatches", formula_.micro_batches}})
      if (value < 1 || value > 1'000'000'000)
        return bad_usage(fmt::format("{} is {}, wanted 1 to 1000000000", flag, value));
    terminal.print(json_ ? document_text(numbers()) : table() + sentences());
    return ExitCode::done;
  }

 private:
  [[nodiscard]] Json numbers() const {
    return {{"schema", "pipeplan.bubble/1"},
            {"devices", formula_.devices},
            {"micro_batches", formula_.micro_batches},
            {"utilization", formula_.utilization()},
            {"bubble_fraction", formula_.bubble_fraction()},
            {"n_over_n_plus_k_minus_1", formula_.card()},
            {"speed_up", formula_.speed_up()}};
  }

  [[nodiscard]] std::string table() const {
    const std::int64_t n = formula_.devices, k = formula_.micro_batches, sum = n + k - 1;
    Table table({{"quantity", Table::Align::left},
                 {"formula", Table::Align::left},
                 {fmt::format("N={}, k={}", n, k), Table::Align::left}});
    const auto add = [&](const char* quantity, const char* formula, std::int64_t above, double value) {
      table.add({quantity, formula, fmt::format("{}/{} = {:.3f}", above, sum, value)});
    };
    add("utilization (efficiency)", "k/(N+k-1)", k, formula_.utilization());
    add("bubble fraction", "(N-1)/(N+k-1)", n - 1, formula_.bubble_fraction());
    add("the expression N/(N+k-1)", "N/(N+k-1)", n, formula_.card());
    add("speed-up over one device", "N*k/(N+k-1)", n * k, formula_.speed_up());
    return table.text();
  }

  [[nodiscard]] std::string sentences() const {
    return fmt::format(
        "\nUniform stages, no communication, GPipe or 1F1B, N devices, k micro-batches.\n"
        "N/(N+k-1) is the utilization if N counts micro-batches and k devices. Read as the bubble fraction "
        "of N devices\n"
        "it is too large by exactly 1/(N+k-1) = {:.3f}: the bubble fraction is (N-1)/(N+k-1).\n"
        "Idle over useful time (bubble ratio) is (N-1)/k = {:.3f}.\n"
        "Stages that are not uniform have no closed form: pipeplan simulate gives their bubble.\n",
        1.0 / static_cast<double>(formula_.devices + formula_.micro_batches - 1),
        static_cast<double>(formula_.devices - 1) / static_cast<double>(formula_.micro_batches));
  }

  std::string topic_;
  BubbleFormula formula_{.devices = 4, .micro_batches = 8};
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> explain_command() { return std::make_unique<Explain>(); }

}  // namespace pipeplan
