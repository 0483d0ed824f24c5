#include "models/base/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

namespace pipeplan {
namespace {

Json without_comments(const Json& json) {
  if (json.is_array()) {
    Json items = Json::array();
    for (const Json& item : json) items.push_back(without_comments(item));
    return items;
  }
  if (!json.is_object()) return json;
  Json object = Json::object();
  for (const auto& entry : json.items())
    if (entry.key() != "comment") object[entry.key()] = without_comments(entry.value());
  return object;
}

}  // namespace

std::string digest(const Json& json) { return digest_of_bytes(without_comments(json).dump()); }

std::string digest_of_bytes(std::string_view bytes) {
  return fmt::format("xxh3:{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace pipeplan
