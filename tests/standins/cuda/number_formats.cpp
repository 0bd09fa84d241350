#include "standins/cuda/number_formats.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tranche::sim {
namespace {

// Sign, `exponent` bits with that bias, `mantissa` bits; values that are subnormal in single precision do not occur.
float from_small(std::uint32_t bits, int exponent, int mantissa, int bias) {
  const std::uint32_t sign = bits >> (exponent + mantissa);
  const auto power = static_cast<int>(bits >> mantissa & ((1u << exponent) - 1));
  const std::uint32_t fraction = bits & ((1u << mantissa) - 1);
  const float value = power == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa)
                                 : std::ldexp(static_cast<float>(fraction | 1u << mantissa), power - bias - mantissa);
  return sign != 0 ? -value : value;
}

std::uint32_t to_small(float value, int exponent, int mantissa, int bias) {
  const std::uint32_t sign = std::signbit(value) ? 1u << (exponent + mantissa) : 0;
  const float size = std::fabs(value);
  if (size == 0) return sign;
  int power = std::ilogb(size);
  if (power < 1 - bias) power = 1 - bias;  // subnormal
  auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, mantissa - power)));
  if (units >> (mantissa + 1) != 0) {  // rounded up to the next power
    units >>= 1;
    ++power;
  }
  const std::uint32_t field = units >> mantissa == 0 ? 0 : static_cast<std::uint32_t>(power + bias);
  const std::uint32_t largest = (1u << exponent) - 1;
  if (field >= largest && mantissa > 3) return sign | largest << mantissa;  // infinity; e4m3 has none
  return sign | field << mantissa | (units & ((1u << mantissa) - 1));
}

}  // namespace

std::uint64_t bytes_of(NumberFormat format) {
  return format == NumberFormat::kF32 ? 4 : format == NumberFormat::kE4m3 ? 1 : 2;
}

std::uint32_t load_bits(const void* array, std::uint64_t index, NumberFormat format) {
  std::uint32_t bits = 0;
  const std::uint64_t bytes = bytes_of(format);
  std::memcpy(&bits, static_cast<const char*>(array) + index * bytes, bytes);
  return bits;
}

float load_number(const void* array, std::uint64_t index, NumberFormat format) {
  const std::uint32_t bits = load_bits(array, index, format);
  switch (format) {
    case NumberFormat::kBf16:
      return std::bit_cast<float>(bits << 16);
    case NumberFormat::kF16:
      return from_small(bits, 5, 10, 15);
    case NumberFormat::kE4m3:
      return from_small(bits, 4, 3, 7);
    case NumberFormat::kF32:
      break;
  }
  return std::bit_cast<float>(bits);
}

void store_number(void* array, std::uint64_t index, NumberFormat format, float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (format == NumberFormat::kBf16) bits = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  if (format == NumberFormat::kF16) bits = to_small(value, 5, 10, 15);
  if (format == NumberFormat::kE4m3) bits = to_small(value, 4, 3, 7);
  const std::uint64_t bytes = bytes_of(format);
  std::memcpy(static_cast<char*>(array) + index * bytes, &bits, bytes);
}

}  // namespace tranche::sim
