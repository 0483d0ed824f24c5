#pragma once

// A library that plays CUPTI over a GPU that runs one thing at a time, for tests of the collector. It keeps
// count of calls in the wrong order, hands records out only when it is flushed (kernels first, in small
// buffers), and fails where the environment says so: FAKE_CUPTI_FAIL="cuptiSubscribe=39", or, for one kind of
// record, "cuptiActivityEnable(22)=7". FAKE_CUPTI_VERSION replaces the version.

#include <cstdint>
#include <string>
#include <vector>

namespace pipeplan::test {

class FakeCupti {
 public:
  virtual ~FakeCupti() = default;
  virtual void reset() = 0;

  // The application's side: each returns when the work has run for `duration` ns.
  virtual void launch(const char* kernel, std::uint64_t duration) = 0;
  virtual void copy(std::uint64_t bytes, std::uint64_t duration) = 0;
  virtual void allocate(std::uint64_t address, std::uint64_t bytes) = 0;
  // A call that starts nothing (cudaGetDevice); whether it left a record.
  virtual bool ask_for_device() = 0;

  // From here on work is stamped so many ns later than it ran, as if the GPU's clock were off.
  virtual void set_clock_error(std::int64_t error) = 0;
  virtual void drop_records(std::uint64_t count) = 0;
  // The next buffer ends in a record that cannot be read.
  virtual void spoil_buffer() = 0;

  // The functions that were called, repetitions once; those that ask for names or records left out.
  [[nodiscard]] virtual std::vector<std::string> calls() const = 0;
  // What was called when it must not be.
  [[nodiscard]] virtual std::vector<std::string> offences() const = 0;
  [[nodiscard]] virtual bool subscribed() const = 0;
  [[nodiscard]] virtual std::size_t enabled_kinds() const = 0;
  [[nodiscard]] virtual std::size_t pushed_ids() const = 0;
};

}  // namespace pipeplan::test

// The fake of the library that this is found in.
extern "C" pipeplan::test::FakeCupti* fake_cupti();
