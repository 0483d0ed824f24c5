// Units as people write and read them, 128-bit transfer times, and nearest spellings.

#include <doctest/doctest.h>

#include "models/base/spelling.hpp"
#include "models/base/units.hpp"
#include "models/base/warning.hpp"
#include "tests/support/random.hpp"

namespace pipeplan {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * 1024;

std::int64_t transfer_ns(std::int64_t bytes, std::int64_t bandwidth) {
  return transfer_time(Bytes{bytes}, BytesPerSecond{bandwidth}).count();
}

}  // namespace

TEST_CASE("transfer_time: whole quotients are exact and the rest rounds up") {
  CHECK(transfer_ns(0, 1) == 0);
  CHECK(transfer_ns(1, 1'000'000'000) == 1);
  CHECK(transfer_ns(1, 1'000'000'001) == 1);
  CHECK(transfer_ns(1, 999'999'999) == 2);
  CHECK(transfer_ns(3, 2'000'000'000) == 2);
  CHECK(transfer_ns(8'000'000, 1'000'000'000) == 8'000'000);
}

TEST_CASE("transfer_time: bytes times 1e9 beyond int64 do not overflow") {
  // 10^13 bytes at 10^9 bytes per second: 10^4 s.
  CHECK(transfer_ns(10'000'000'000'000, 1'000'000'000) == 10'000 * std::int64_t{1'000'000'000});
  CHECK(transfer_ns(largest_document_integer, 1'000'000'000) == largest_document_integer);
  CHECK(transfer_ns(largest_document_integer, 1) == largest_total_time.count());
}

TEST_CASE("transfer_time: the least time in which the bytes have passed") {
  const std::uint64_t seed = 20240611;
  INFO("seed " << seed);
  test::Random random(seed);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t bytes = random.between(1, std::int64_t{1} << random.between(1, 50));
    const std::int64_t bandwidth = random.between(1'000'000, std::int64_t{1} << random.between(20, 42));
    const Wide wanted = Wide{bytes} * 1'000'000'000;
    const std::int64_t time = transfer_ns(bytes, bandwidth);
    CHECK(Wide{time} * bandwidth >= wanted);
    CHECK(Wide{time - 1} * bandwidth < wanted);
  }
}

TEST_CASE("parse_time: a number with a unit becomes whole ns") {
  CHECK(parse_time("5us", "--latency")->count() == 5 * 1000);
  CHECK(parse_time("1.5ms", "--latency")->count() == 15 * 100'000);
  CHECK(parse_time("2s", "--latency")->count() == 2 * std::int64_t{1'000'000'000});
  CHECK(parse_time("7ns", "--latency")->count() == 7);
  CHECK(parse_time("0.0004us", "--latency")->count() == 0);
}

TEST_CASE("parse_time: no unit, an unknown unit and no number are wrong usage") {
  for (const char* text : {"5", "5x", "us", "", "5 us", "-5us", "nanus", "5uss", "1.2.3us"}) {
    INFO(text);
    const auto parsed = parse_time(text, "--latency");
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().message.starts_with("--latency"));
  }
  CHECK(parse_time("5", "--latency").error().code == ErrorCode::bad_usage);
  CHECK_FALSE(parse_time("9007199254740992ns", "--latency").has_value());
  CHECK(parse_time("9007199254740991ns", "--latency")->count() == largest_document_integer);
}

TEST_CASE("parse_bytes: binary and decimal units") {
  CHECK(parse_bytes("16GiB", "--memory")->value == 16 * kib * mib);
  CHECK(parse_bytes("512KiB", "--memory")->value == 512 * kib);
  CHECK(parse_bytes("80GB", "--memory")->value == 80 * std::int64_t{1'000'000'000});
  CHECK(parse_bytes("64B", "--memory")->value == 64);
  CHECK(parse_bandwidth("300GB/s", "--bandwidth")->value == 300 * std::int64_t{1'000'000'000});
  CHECK_FALSE(parse_bandwidth("300GB", "--bandwidth").has_value());
  CHECK_FALSE(parse_bandwidth("0GB/s", "--bandwidth").has_value());
}

TEST_CASE("parse_scaled: decimal text rounds to the nearest whole") {
  CHECK(parse_scaled("0.539", 1'000'000, "t").value() == 539'000);
  CHECK(parse_scaled("635.902", 1'000'000, "t").value() == 635'902'000);
  CHECK(parse_scaled("1e3", 1, "t").value() == 1000);
  CHECK(parse_scaled("0.4", 1, "t").value() == 0);
  CHECK(parse_scaled("0.5", 1, "t").value() == 1);
}

TEST_CASE("parse_scaled: what is not a plain finite number of at least 0 is refused") {
  for (const char* text : {"nan", "NaN", "inf", "-inf", "-1", "-0.001", "1e999", "", " 1", "1 ", "1,5",
                           "0x10", "+1", "one", "9007199254740992"}) {
    INFO(text);
    CHECK_FALSE(parse_scaled(text, 1, "t").has_value());
  }
}

TEST_CASE("display: units are chosen by magnitude") {
  CHECK(display(Nanoseconds{12}) == "12 ns");
  CHECK(display(Nanoseconds{1500}) == "1.5 us");
  CHECK(display(Nanoseconds{377'045'000}) == "377.045 ms");
  CHECK(display(Nanoseconds{2'000'000'000}) == "2 s");
  CHECK(display(Bytes{512}) == "512 B");
  CHECK(display(Bytes{16 * kib * mib}) == "16.0 GiB");
  CHECK(display(BytesPerSecond{300'000'000'000}) == "300 GB/s");
}

TEST_CASE("checked_product: the limit itself passes, one more does not") {
  CHECK(checked_product(3, 5, 15) == 15);
  CHECK_FALSE(checked_product(4, 4, 15).has_value());
  CHECK_FALSE(
      checked_product(std::int64_t{1} << 40, std::int64_t{1} << 40, largest_document_integer).has_value());
}

TEST_CASE("nearest_spelling: a slip finds its word, another word finds none") {
  const std::vector<std::string> words{"forward_us", "backward_us", "name"};
  CHECK(nearest_spelling("foward_us", words) == "forward_us");
  CHECK(nearest_spelling("nane", words) == "name");
  CHECK_FALSE(nearest_spelling("colour", words).has_value());
  CHECK_FALSE(nearest_spelling("x", std::vector<std::string>{}).has_value());
}

TEST_CASE("spellings: what is written is what is read") {
  for (const auto& entry : spellings(WarningCode{})) {
    CHECK(spelt(entry.value) == entry.text);
    CHECK(from_spelling<WarningCode>(entry.text) == entry.value);
  }
  CHECK_FALSE(from_spelling<WarningCode>("dominant").has_value());
}

}  // namespace pipeplan
