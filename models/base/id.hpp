#pragma once

// Ids are distinct types: a LayerId cannot be used where a StageId is wanted, and a PerId<StageId, T> can be
// indexed by a StageId alone. Ids count from 0 and are dense.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "models/base/assert.hpp"

namespace pipeplan {

template<class Tag>
struct Id {
  std::int32_t value = 0;

  friend auto operator<=>(const Id&, const Id&) = default;
  [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(value); }
  [[nodiscard]] Id next() const { return Id{value + 1}; }
  [[nodiscard]] Id previous() const { return Id{value - 1}; }
};

using LayerId = Id<struct LayerTag>;            // position in the model's layer order
using StageId = Id<struct StageTag>;            // position in the pipeline
using RankId = Id<struct RankTag>;              // place with its own compute queue
using DeviceId = Id<struct DeviceTag>;          // accelerator in the cluster
using MicrobatchId = Id<struct MicrobatchTag>;  // micro-batch within one iteration

template<class IdType>
IdType id_of(std::size_t index) {
  return IdType{static_cast<std::int32_t>(index)};
}

// A vector that only its own kind of id may index; out of range is a bug.
template<class IdType, class T>
class PerId {
 public:
  PerId() = default;
  explicit PerId(std::size_t count, const T& value = T()) : items_(count, value) {}
  PerId(std::initializer_list<T> items) : items_(items) {}
  explicit PerId(std::vector<T> items) : items_(std::move(items)) {}

  decltype(auto) operator[](IdType id) { return items_[checked(id)]; }
  decltype(auto) operator[](IdType id) const { return items_[checked(id)]; }

  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] IdType end_id() const { return id_of<IdType>(items_.size()); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void reserve(std::size_t count) { items_.reserve(count); }

  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const T& back() const { return items_.back(); }
  const T& front() const { return items_.front(); }
  [[nodiscard]] const std::vector<T>& values() const { return items_; }

  friend bool operator==(const PerId&, const PerId&) = default;

 private:
  [[nodiscard]] std::size_t checked(IdType id) const {
    PIPEPLAN_ASSERT(id.value >= 0 && id.index() < items_.size());
    return id.index();
  }

  std::vector<T> items_;
};

// Iterates ids 0, 1, … count-1: `for (StageId stage : ids<StageId>(count))`.
template<class IdType>
class IdRange {
 public:
  struct Iterator {
    IdType id;
    IdType operator*() const { return id; }
    Iterator& operator++() {
      ++id.value;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return id != other.id; }
  };
  explicit IdRange(std::size_t count) : end_{id_of<IdType>(count)} {}
  [[nodiscard]] Iterator begin() const { return {IdType{0}}; }
  [[nodiscard]] Iterator end() const { return {end_}; }

 private:
  IdType end_;
};

template<class IdType>
IdRange<IdType> ids(std::size_t count) {
  return IdRange<IdType>(count);
}

}  // namespace pipeplan
