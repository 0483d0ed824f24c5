#include "profiler/profile.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/import/csv.hpp"
#include "models/import/pipedream.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/profiler/profile_parts.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference.hpp"

namespace pipeplan {
namespace {

using test::cost;
using test::layer;

// A chain of layers with these forward and backward times at micro-batch size 1.
Profile chain(const std::vector<std::pair<std::int64_t, std::int64_t>>& times) {
  Profile profile;
  profile.model = "chain";
  for (const auto& [forward, backward] : times)
    profile.layers.push_back(
        layer(fmt::format("l{}", profile.layers.size()), {cost(1, forward, backward, 0)}));
  profile.edges = chain_edges(times.size());
  return profile;
}

// Everything a profile can hold.
Profile full_profile() {
  Profile profile = chain({{10, 20}, {30, 40}, {50, 60}});
  profile.model_spec = TransformerSpec{};
  profile.source = {"measured", "NVIDIA H200", "pipeplan", {{"clock", "locked"}, {"seed", "7"}}};
  profile.edges = {{LayerId{0}, LayerId{1}, Bytes{77}}, {LayerId{0}, LayerId{2}}};
  profile.single_order = false;
  ProfiledLayer& first = profile.layers[LayerId{0}];
  first.parameter_count = 11;
  first.parameter_bytes = Bytes{44};
  first.colocation.emplace("a");
  first.tied.emplace("embedding");
  first.recomputable = false;
  LayerCost second_size = cost(4, 5, 6, 7);
  second_size.optimizer = Nanoseconds{8};
  second_size.activation = Bytes{9};
  second_size.workspace = Bytes{10};
  second_size.output = Bytes{11};
  second_size.input = Bytes{12};
  second_size.deferred = Bytes{13};
  second_size.samples = 15;
  second_size.spread_fraction = 0.012;
  first.costs.push_back(second_size);
  LayerCost& whole = profile.layers[LayerId{1}].costs.front();
  whole.backward_is_split = false;
  profile.layers[LayerId{2}].kind.clear();
  return profile;
}

Result<Profile> reread(const Profile& profile) { return profile_from_json(to_json(profile), "p.json"); }

template<class Change>
Error refused(Change change) {
  Json json = to_json(full_profile());
  change(json);
  const auto profile = profile_from_json(json, "p.json");
  REQUIRE_FALSE(profile.has_value());
  return profile.error();
}

std::vector<WarningCode> warning_codes(const Profile& profile) {
  std::vector<WarningCode> codes;
  for (const Warning& warning : profile_warnings(profile)) codes.push_back(warning.code);
  return codes;
}

constexpr std::int64_t largest = largest_document_integer;

}  // namespace

TEST_CASE("profile: writing then reading gives an equal value, with everything it can hold") {
  const Profile profile = full_profile();
  CHECK(reread(profile).value() == profile);
  CHECK(to_json(reread(profile).value()).dump() == to_json(profile).dump());
}

TEST_CASE("profile: a backward that was not split is written back as one number") {
  const Json json = to_json(full_profile());
  const Json& whole = json["layers"][1]["costs"][0];
  CHECK(whole["backward_ns"].get<std::int64_t>() == 40);
  CHECK_FALSE(whole.contains("backward_input_ns"));
  CHECK_FALSE(json["layers"][0]["costs"][0].contains("backward_ns"));
}

TEST_CASE("profile: the input and what is deferred are written only where they are known") {
  const Json json = to_json(full_profile());
  const Json& known = json["layers"][0]["costs"][1];
  CHECK(known["input_bytes"].get<std::int64_t>() == 12);
  CHECK(known["deferred_bytes"].get<std::int64_t>() == 13);
  const Json& unknown = json["layers"][0]["costs"][0];
  CHECK_FALSE(unknown.contains("input_bytes"));
  CHECK_FALSE(unknown.contains("deferred_bytes"));
  // An input of no bytes is not an unknown one.
  Profile profile = full_profile();
  profile.layers[LayerId{0}].costs[0].input.emplace(Bytes{0});
  CHECK(reread(profile).value() == profile);
  CHECK(profile != full_profile());
}

TEST_CASE("profile: edges are written only where they are not the plain chain") {
  Profile profile = chain({{1, 1}, {2, 2}, {3, 3}});
  CHECK_FALSE(to_json(profile).contains("edges"));
  CHECK(reread(profile).value() == profile);
  profile.edges[1].bytes = Bytes{0};
  CHECK(to_json(profile)["edges"].size() == 2);
  CHECK(reread(profile).value() == profile);
}

TEST_CASE("profile: random profiles survive writing and reading") {
  const std::uint64_t seed = 71;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int i = 0; i < 100; ++i) {
    Profile profile = chain({});
    for (std::int64_t n = random.between(1, 8); n > 0; --n) {
      ProfiledLayer added = layer(fmt::format("layer \"{}\" \\ é", n), {});
      added.parameter_bytes = Bytes{random.between(0, largest)};
      for (std::int64_t size = random.between(1, 4); size < 16; size += random.between(1, 8)) {
        added.costs.push_back(
            cost(size, random.between(0, largest), random.between(0, largest), random.between(0, 9)));
        added.costs.back().spread_fraction = 1.0 / static_cast<double>(random.between(1, 1'000'000));
      }
      profile.layers.push_back(added);
    }
    profile.edges = chain_edges(profile.layers.size());
    CHECK(reread(profile).value() == profile);
  }
}

TEST_CASE("profile: a document by hand needs names, sizes of micro-batches and times only") {
  const auto json = parse_json(R"({"schema": "pipeplan.profile/1", "comment": "c", "model": "m",
    "source": {"kind": "analytic", "settings": {"comment": "c", "rate": 1.5, "note": "n"}},
    "layers": [{"name": "a", "comment": "c",
                "costs": [{"comment": "c", "micro_batch_size": 2, "forward_ns": 3, "backward_ns": 4}]}]})",
                               "p.json");
  const Profile profile = profile_from_json(*json, "p.json").value();
  CHECK_FALSE(profile.model_spec.has_value());
  CHECK(profile.source.settings ==
        std::vector<std::pair<std::string, std::string>>{{"rate", "1.5"}, {"note", "n"}});
  const ProfiledLayer& only = profile.layers[LayerId{0}];
  CHECK(only.recomputable);
  CHECK(only.costs.front().backward().count() == 4);
  CHECK_FALSE(only.costs.front().backward_is_split);
  CHECK(profile.edges.empty());
}

TEST_CASE("profile: the digest follows values, not comments") {
  const Profile profile = full_profile();
  Json json = to_json(profile);
  json["comment"] = "c";
  json["layers"][0]["comment"] = "c";
  CHECK(profile_digest(profile_from_json(json, "p.json").value()) == profile_digest(profile));
  json["layers"][0]["costs"][0]["forward_ns"] = 11;
  CHECK(profile_digest(profile_from_json(json, "p.json").value()) != profile_digest(profile));
}

TEST_CASE("profile: faults are named by their place") {
  CHECK(refused([](Json& json) { json["schema"] = "pipeplan.profile/2"; }).where == "p.json#/schema");
  CHECK(refused([](Json& json) { json["layers"] = Json::array(); }).where == "p.json#/layers");
  CHECK(refused([](Json& json) { json["layers"][1]["costs"] = Json::array(); }).where ==
        "p.json#/layers/1/costs");
  CHECK(refused([](Json& json) { json["source"]["kind"] = "guessed"; }).where == "p.json#/source/kind");
  CHECK(refused([](Json& json) { json["source"]["settings"]["a/b"] = true; }).where ==
        "p.json#/source/settings/a~1b");
  CHECK(refused([](Json& json) { json["model_spec"]["blocks"] = 0; }).where == "p.json#/model_spec/blocks");
  CHECK(refused([](Json& json) { json["layers"][2]["name"] = "l0"; }).where == "p.json#/layers/2/name");
  CHECK(refused([](Json& json) { json["layers"][2]["name"] = ""; }).where == "p.json#/layers/2/name");
  for (const char* key : {"input_bytes", "deferred_bytes"})
    CHECK(refused([&](Json& json) { json["layers"][0]["costs"][1][key] = -1; }).where ==
          fmt::format("p.json#/layers/0/costs/1/{}", key));
  const Error unknown = refused([](Json& json) { json["layers"][0]["costs"][1]["forwards_ns"] = 1; });
  CHECK(unknown.where == "p.json#/layers/0/costs/1/forwards_ns");
  CHECK(unknown.hint == "did you mean 'forward_ns'?");
}

TEST_CASE("profile: micro-batch sizes ascend, none comes twice") {
  const std::string where = "p.json#/layers/0/costs/1/micro_batch_size";
  CHECK(refused([](Json& json) { json["layers"][0]["costs"][1]["micro_batch_size"] = 1; }).where == where);
  CHECK(refused([](Json& json) { json["layers"][0]["costs"][0]["micro_batch_size"] = 9; }).where == where);
  CHECK(refused([](Json& json) { json["layers"][0]["costs"][0]["micro_batch_size"] = 0; }).where ==
        "p.json#/layers/0/costs/0/micro_batch_size");
}

TEST_CASE("profile: the backward is given whole or in both parts") {
  const auto cost_without = [](std::initializer_list<const char*> keys) {
    return refused([&](Json& json) {
      for (const char* key : keys) json["layers"][0]["costs"][0].erase(key);
    });
  };
  CHECK(cost_without({"backward_input_ns"}).where == "p.json#/layers/0/costs/0/backward_input_ns");
  CHECK(cost_without({"backward_weight_ns"}).where == "p.json#/layers/0/costs/0/backward_weight_ns");
  CHECK(cost_without({"backward_input_ns", "backward_weight_ns"}).message.find("backward_ns") !=
        std::string::npos);
  CHECK(refused([](Json& json) { json["layers"][0]["costs"][0]["backward_ns"] = 1; }).where ==
        "p.json#/layers/0/costs/0/backward_ns");
}

TEST_CASE("profile: edges join layers that exist, forward, once") {
  const Error unknown = refused([](Json& json) { json["edges"][1]["to"] = "l22"; });
  CHECK(unknown.where == "p.json#/edges/1/to");
  CHECK(unknown.message == "is 'l22', which is no layer");
  CHECK(unknown.hint == "did you mean 'l2'?");
  CHECK(refused([](Json& json) {
          json["edges"].push_back(json["edges"][0]);
        }).where.starts_with("p.json#/edges"));
  const auto turn = [](Json& json) { std::swap(json["edges"][0]["from"], json["edges"][0]["to"]); };
  CHECK(refused(turn).where.starts_with("p.json"));
  CHECK(refused([](Json& json) { json["edges"][0]["to"] = "l0"; }).where.starts_with("p.json"));
  CHECK(refused([](Json& json) { json["edges"][0]["bytes"] = -1; }).where == "p.json#/edges/0/bytes");
}

TEST_CASE("profile: times and sizes that could not be added up are refused") {
  // 2^62 = 512 * 2^53: with 2^53 - 1 each, 512 layers stay below it and 513 do not.
  const auto layers = [](std::size_t count, std::int64_t forward, const auto& change) {
    Profile profile = chain(std::vector<std::pair<std::int64_t, std::int64_t>>(count, {forward, 0}));
    for (ProfiledLayer& layer : profile.layers) change(layer.costs.front());
    return reread(profile);
  };
  CHECK(layers(512, largest, [](LayerCost&) {}).has_value());
  CHECK(layers(513, largest, [](LayerCost&) {}).error().where == "p.json#/layers");
  const auto output = [](LayerCost& cost) { cost.output = Bytes{largest}; };
  const auto input = [](LayerCost& cost) { cost.input = Bytes{largest}; };
  const auto deferred = [](LayerCost& cost) { cost.deferred = Bytes{largest}; };
  CHECK(layers(512, largest, output).has_value());
  CHECK(layers(513, 0, output).error().where == "p.json#/layers");
  CHECK(layers(512, largest, input).has_value());
  CHECK(layers(513, 0, input).error().where == "p.json#/layers");
  CHECK(layers(512, largest, deferred).has_value());
  CHECK(layers(513, 0, deferred).error().where == "p.json#/layers");
}

TEST_CASE("read_profile_file: reads what write_text_file wrote") {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("pipeplan_profile{}", ::getpid());
  REQUIRE(write_text_file(path.string(), document_text(to_json(full_profile()))).has_value());
  CHECK(read_profile_file(path.string()).value() == full_profile());
  std::filesystem::remove(path);
}

TEST_CASE("profiled_sizes: the sizes at which every layer has a cost") {
  Profile profile;
  profile.layers.push_back(layer("a", {cost(1, 0, 0, 0), cost(2, 0, 0, 0), cost(8, 0, 0, 0)}));
  profile.layers.push_back(layer("b", {cost(2, 0, 0, 0), cost(4, 0, 0, 0), cost(8, 0, 0, 0)}));
  CHECK(profiled_sizes(profile) == std::vector<std::int64_t>{2, 8});
  CHECK(profiled_sizes(Profile{}).empty());
}

TEST_CASE("imported_profile: one cost per layer at the size of the importer, the way the file gave it") {
  const auto imported = import_csv(
      "name,forward_ns,backward_ns,parameter_bytes,activation_bytes,output_bytes\n"
      "a,1,2,4,5,6\nb,7,8,9,10,11\n",
      "t.csv");
  const Profile profile = imported_profile(*imported);
  CHECK(profile.source.kind == "imported");
  CHECK(profile.source.tool == "csv");
  CHECK_FALSE(profile.model_spec.has_value());
  const ProfiledLayer& first = profile.layers[LayerId{0}];
  CHECK(first.parameter_bytes == Bytes{4});
  CHECK(first.costs.front().activation == Bytes{5});
  CHECK(first.costs.front().output == Bytes{6});
  CHECK(first.costs.front().workspace == Bytes{0});
  CHECK_FALSE(first.costs.front().backward_is_split);
  CHECK(reread(profile).value() == profile);
}

TEST_CASE("profile_warnings: a dominant layer holds over 90 percent and ten times its backward") {
  using enum WarningCode;
  CHECK(warning_codes(chain({{901, 90}, {99, 99}})) == std::vector<WarningCode>{dominant_layer});
  CHECK(warning_codes(chain({{900, 90}, {100, 100}})).empty());  // 900 / 1000 is not over 90 %
  CHECK(warning_codes(chain({{910, 91}, {90, 90}})).empty());    // 910 is not over 10 * 91
  CHECK(warning_codes(chain({{0, 0}, {0, 0}})).empty());
  CHECK(warning_codes(chain({{5, 0}})).empty());
  CHECK(warning_codes(chain({})).empty());
}

TEST_CASE("profile_warnings: a suspect unit is over 1000 times the median of the nonzero others") {
  using enum WarningCode;
  CHECK(warning_codes(chain({{1, 1}, {1, 2}, {900, 1101}, {0, 0}, {0, 0}})) ==
        std::vector<WarningCode>{unit_suspect});
  CHECK(warning_codes(chain({{1, 1}, {1, 2}, {900, 1100}, {0, 0}, {0, 0}})).empty());
  CHECK(warning_codes(chain({{1, 1}, {1, 2}, {900, 1199}})).size() == 1);
  CHECK(warning_codes(chain({{0, 0}, {0, 0}, {5'000'000, 5'000'000}})).empty());
}

TEST_CASE("profile_warnings: each names its layer and the number that raised it") {
  const std::vector<Warning> warnings = profile_warnings(chain({{1, 1}, {100'000, 0}}));
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].message ==
        "layer 'l1' takes 100 us forward, 100.0 % of all forward time, against 0 ns backward");
  CHECK(warnings[1].message == "layer 'l1' takes 100 us, 50000 times the median of the other layers (2 ns)");
  for (const Warning& warning : warnings) CHECK_FALSE(warning.hint.empty());
}

TEST_SUITE("reference") {
  Profile pipedream_profile(const std::string& model) {
    const std::string path = (test::data_folder() / "pipedream" / (model + ".graph.txt")).string();
    const auto text = read_text_file(path);
    REQUIRE(text.has_value());
    const auto imported = import_pipedream(*text, path);
    REQUIRE(imported.has_value());
    return imported_profile(*imported);
  }

  TEST_CASE(
      "profile_warnings: the input node of AlexNet dominates, no other measured graph has such a layer") {
    for (const char* model :
         {"alexnet", "densenet121", "gnmt", "gnmt_large", "inception_v3", "nasnetalarge", "nasnetamobile",
          "resnet101", "resnet18", "resnet50", "resnext101", "resnext50", "squeezenet1_0", "vgg16"}) {
      INFO(model);
      const Profile profile = pipedream_profile(model);
      std::string dominant;
      for (const Warning& warning : profile_warnings(profile))
        if (warning.code == WarningCode::dominant_layer) dominant += warning.message.substr(0, 13);
      CHECK(dominant == (std::string(model) == "alexnet" ? "layer 'node1'" : ""));
      CHECK(reread(profile).value() == profile);
    }
  }

  TEST_CASE("profile: negative, missing and unreadable times are refused with layer, field and value") {
    const auto read = read_json_file((test::case_folder() / "46-negative-or-nan-time.json").string());
    REQUIRE(read.has_value());
    std::size_t refusals = 0;
    for (const Json& file : (*read)["input"]["files"]) {
      if (file.contains("text")) {
        const auto parsed = parse_json(file["text"].get<std::string>(), "p.json");
        REQUIRE_FALSE(parsed.has_value());
        CHECK(parsed.error().where.starts_with("p.json:1:"));
        ++refusals;
        continue;
      }
      Json document =
          to_json(chain(std::vector<std::pair<std::int64_t, std::int64_t>>(file["layers"].size())));
      for (std::size_t i = 0; i < file["layers"].size(); ++i) {
        document["layers"][i]["costs"][0]["forward_ns"] = file["layers"][i][1];
        document["layers"][i]["costs"][0]["backward_input_ns"] = file["layers"][i][2];
      }
      const auto profile = profile_from_json(document, "p.json");
      const std::size_t last = file["layers"].size() - 1;
      REQUIRE_FALSE(profile.has_value());
      CHECK(profile.error().where == fmt::format("p.json#/layers/{}/costs/0/forward_ns", last));
      CHECK(profile.error().message.find(file["layers"][last][1].dump()) != std::string::npos);
      ++refusals;
    }
    CHECK(refusals == 5);
  }

  TEST_CASE("profile: names in any script come back to the byte") {
    const auto read = read_json_file((test::case_folder() / "48-broken-or-odd-json-trace.json").string());
    REQUIRE(read.has_value());
    Profile profile = chain({});
    for (const Json& file : (*read)["input"]["files"])
      if (file.contains("json"))
        for (const Json& entry : file["json"]["layers"])
          profile.layers.push_back(layer(entry[0].get<std::string>(), {cost(1, 10, 20, 0)}));
    profile.edges = chain_edges(profile.layers.size());
    CHECK(profile.layers.size() == 3);
    const auto parsed = parse_json(document_text(to_json(profile)), "p.json");
    CHECK(profile_from_json(*parsed, "p.json").value() == profile);
  }

  TEST_CASE("profile_warnings: a layer in the wrong unit is suspect") {
    const auto read = read_json_file((test::case_folder() / "44-latency-unit-1000x.json").string());
    REQUIRE(read.has_value());
    const auto codes_of = [&](const char* name) {
      Profile profile = chain({});
      for (const Json& entry : (*read)["input"][name]["layers"]) {
        const auto us = [&](std::size_t i) {
          return static_cast<std::int64_t>(entry[i].get<double>() * 1000);
        };
        profile.layers.push_back(layer(entry[0].get<std::string>(), {cost(1, us(1), us(2), 0)}));
      }
      return warning_codes(profile);
    };
    CHECK(codes_of("profile_a").empty());
    CHECK(codes_of("profile_c") == std::vector<WarningCode>{WarningCode::unit_suspect});
  }
}

}  // namespace pipeplan
