/* What PTX computes and LLVM has no operation for: directed rounding, 16-bit floats, bit fields. */

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { ADD, SUB, MUL, DIV, FMA, SQRT };
enum { RN, RZ, RM, RP };
enum { F16, BF16 };

static const int rounding[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/* Inside of what they return nothing is worked out before, or moved behind, the rounding is set. */
#define ROUNDED(kind, name, expression)                                                            \
  kind name(uint32_t op, uint32_t mode, kind first, kind second, kind third) {                     \
    volatile kind a = first, b = second, c = third, result;                                        \
    fesetround(rounding[mode]);                                                                    \
    switch (op) {                                                                                  \
    case ADD: result = a + b; break;                                                               \
    case SUB: result = a - b; break;                                                               \
    case MUL: result = a * b; break;                                                               \
    case DIV: result = a / b; break;                                                               \
    case FMA: result = expression(a, b, c); break;                                                 \
    default: result = SQUARE_ROOT(a); break;                                                       \
    }                                                                                              \
    fesetround(FE_TONEAREST);                                                                      \
    return result;                                                                                 \
  }
#define SQUARE_ROOT sqrtf
ROUNDED(float, ptx_f32, fmaf)
#undef SQUARE_ROOT
#define SQUARE_ROOT sqrt
ROUNDED(double, ptx_f64, fma)

float ptx_narrowed(uint32_t mode, double x) {
  volatile double wide = x;
  fesetround(rounding[mode]);
  volatile float result = (float)wide;
  fesetround(FE_TONEAREST);
  return result;
}

double ptx_integer_as_f64(uint32_t mode, uint32_t is_signed, uint64_t x) {
  volatile uint64_t bits = x;
  fesetround(rounding[mode]);
  volatile double result = is_signed ? (double)(int64_t)bits : (double)bits;
  fesetround(FE_TONEAREST);
  return result;
}

float ptx_integer_as_f32(uint32_t mode, uint32_t is_signed, uint64_t x) {
  volatile uint64_t bits = x;
  fesetround(rounding[mode]);
  volatile float result = is_signed ? (float)(int64_t)bits : (float)bits;
  fesetround(FE_TONEAREST);
  return result;
}

/* ---- 16-bit floats, by way of float64 ----------------------------------------------------------- */

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}

/* bits of the significand behind the point, least exponent of a normal number, largest exponent */
static const int shapes[2][3] = {{10, -14, 15}, {7, -126, 127}};

double ptx_widened(uint32_t format, uint16_t x) {
  int fraction = shapes[format][0], least = shapes[format][1];
  int exponent = (x & 0x7FFF) >> fraction, top = 0x7FFF >> fraction;
  int digits = x & ((1 << fraction) - 1);
  double size;
  if (exponent == top)
    size = digits ? NAN : INFINITY;
  else if (exponent == 0)
    size = ldexp(digits, least - fraction);
  else
    size = ldexp(digits | 1 << fraction, exponent - 1 + least - fraction);
  return x >> 15 ? -size : size;
}

/* The nearest number of a format as a rounding mode has it; the canonical NaN for NaN. */
uint16_t ptx_rounded(uint32_t format, uint32_t mode, double x) {
  int fraction = shapes[format][0], least = shapes[format][1], most = shapes[format][2];
  uint16_t sign = (uint16_t)(bits_of(x) >> 63 << 15), infinity = (uint16_t)((1 << (15 - fraction)) - 1)
                                                                << fraction;
  if (isnan(x)) return 0x7FFF;
  double size = fabs(x);
  if (isinf(x)) return sign | infinity;
  int negative = sign != 0, exponent;
  frexp(size, &exponent);
  exponent--;
  if (exponent < least || size == 0) exponent = least;
  /* In units of the last place; at most fraction + 1 bits before the point, so this is exact. */
  double scaled = ldexp(size, fraction - exponent), below = floor(scaled), rest = scaled - below;
  int up = 0;
  switch (mode) {
  case RN: up = rest > 0.5 || (rest == 0.5 && fmod(below, 2) == 1); break;
  case RM: up = negative && rest > 0; break;
  case RP: up = !negative && rest > 0; break;
  }
  double units = below + up;
  if (ldexp(units, exponent - fraction) >= ldexp(1, most + 1)) {
    int to_infinity = mode == RN || (mode == RM && negative) || (mode == RP && !negative);
    return sign | (uint16_t)(infinity - !to_infinity);
  }
  uint32_t whole = (uint32_t)units;
  /* A normal number's first digit adds one to the exponent's field. */
  return sign | (uint16_t)((((uint32_t)(exponent - least)) << fraction) + whole);
}

/* A sum whose last bit says whether it is exact, so that it can be rounded once more. */
static double odd_sum(double a, double b) {
  double sum = a + b;
  if (!isfinite(sum)) return sum;
  double part = sum - a, error = (a - (sum - part)) + (b - part);
  if (error == 0 || bits_of(sum) & 1) return sum;
  /* The exact sum lies between two numbers, one of which is odd. */
  int up = (error > 0) == (sum > 0);
  return of_bits(up ? bits_of(sum) + 1 : bits_of(sum) - 1);
}

uint16_t ptx_arithmetic(uint32_t format, uint32_t op, uint32_t mode, uint16_t first, uint16_t second,
                        uint16_t third) {
  double a = ptx_widened(format, first), b = ptx_widened(format, second);
  double c = ptx_widened(format, third), result = 0;
  switch (op) {
  case ADD: result = odd_sum(a, b); break;
  case SUB: result = odd_sum(a, -b); break;
  case MUL: result = a * b; break;
  case FMA: result = odd_sum(a * b, c); break;
  }
  if (result == 0 && op != MUL && mode == RM) {
    /* An exact zero of two numbers with other signs is negative when rounding down. */
    double left = op == FMA ? a * b : a, right = op == FMA ? c : op == SUB ? -b : b;
    if (left != 0 || signbit(left) != signbit(right)) result = -0.0;
  }
  return ptx_rounded(format, mode, result);
}

uint16_t ptx_integer_as_16(uint32_t format, uint32_t mode, uint32_t is_signed, uint64_t x) {
  int64_t value = (int64_t)x;
  double high, low;
  if (is_signed) {
    high = (double)(value >> 32) * 4294967296.0, low = (double)(uint32_t)value;
  } else {
    high = (double)(x >> 32) * 4294967296.0, low = (double)(uint32_t)x;
  }
  return ptx_rounded(format, mode, odd_sum(high, low));
}

/* ---- approximations ------------------------------------------------------------------------------ */

/* They are wrong by as much as the document allows, up or down or not at all, the same each time. */

static int direction(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (int)(bits * 0x9E3779B9u >> 16) % 3 - 1;
}

/* By the last digit, unless the result is a float32, or too small to be normal. */
static float by_a_digit(double result, int way) {
  float nearest = (float)result;
  if (!isnormal(nearest) || nearest == result || !way) return nearest;
  return nextafterf(nearest, way > 0 ? INFINITY : -INFINITY);
}

static float by_a_part(double result, double part, int way) {
  return (float)(isfinite(result) ? result + way * part : result);
}

/* Its error is said for numbers of some size. */
static double of_a_circle(float x) { return fabsf(x) <= 6.2831853f ? 0x1p-21 : 0x1p-15; }

float ptx_sin(float x) {
  return isinf(x) ? NAN : x == 0 ? x : by_a_part(sin(x), of_a_circle(x), direction(x));
}
float ptx_cos(float x) {
  return isinf(x) ? NAN : x == 0 ? 1 : by_a_part(cos(x), of_a_circle(x), direction(x));
}
float ptx_lg2(float x) {
  double result = log2(x);
  if (x > 0.5f && x < 2 && x != 1) return by_a_part(result, 0x1p-23, direction(x));
  return by_a_digit(result, direction(x));
}
float ptx_ex2(float x) { return by_a_digit(exp2(x), direction(x)); }
float ptx_tanh(float x) {
  double result = tanh(x);
  return by_a_part(result, fabsf(x) < 4 ? result * 0x1p-12 : 0, direction(x));
}
float ptx_rsqrt(float x) { return by_a_digit(1 / sqrt(x), direction(x)); }
float ptx_sqrt(float x) { return by_a_digit(sqrt(x), direction(x)); }
float ptx_rcp(float x) { return by_a_digit(1 / (double)x, direction(x)); }
float ptx_div_full(float a, float b) {
  return by_a_digit((double)a / b, direction(a) == direction(b) ? direction(a) : 0);
}
float ptx_div_approx(float a, float b) {
  float size = fabsf(b);
  if (size > 0x1p126f && isfinite(size)) return isfinite(a) ? copysignf(0, a) * copysignf(1, b) : NAN;
  return ptx_div_full(a, b);
}
double ptx_rsqrt_f64(double x) { return (double)(1 / sqrtl(x)); }

/* The document has the 32 lower bits of the operand ignored and those of the result be zero, and
 * subnormal numbers be zeros. */
static double upper(double x, uint64_t rounding) {
  if (fabs(x) < 0x1p-1022) return copysign(0, x);
  if (isnan(x)) return NAN;
  return isinf(x) ? x : of_bits((bits_of(x) + rounding) & ~(uint64_t)0xFFFFFFFF);
}
double ptx_gross_rcp(double x) { return upper(1 / upper(x, 0), (uint64_t)1 << 31); }
double ptx_gross_rsqrt(double x) { return upper(1 / sqrt(upper(x, 0)), (uint64_t)1 << 31); }

/* ---- bits ----------------------------------------------------------------------------------------- */

uint64_t ptx_bfe(uint32_t bits, uint32_t is_signed, uint64_t a, uint32_t start, uint32_t length) {
  uint32_t top = bits - 1, from = start & 0xFF, count = length & 0xFF, last = from + count - 1;
  uint64_t sign = 0, result = 0;
  if (is_signed && count) sign = a >> (last < top ? last : top) & 1;
  for (uint32_t n = 0; n <= top; n++)
    result |= (n < count && from + n <= top ? a >> (from + n) & 1 : sign) << n;
  return result;
}

uint64_t ptx_bfi(uint32_t bits, uint64_t a, uint64_t b, uint32_t start, uint32_t length) {
  uint32_t top = bits - 1, from = start & 0xFF, count = length & 0xFF;
  for (uint32_t n = 0; n < count && from + n <= top; n++)
    b = (b & ~((uint64_t)1 << (from + n))) | (a >> n & 1) << (from + n);
  return b;
}

static uint32_t byte_of(uint64_t both, uint32_t selector) {
  uint32_t byte = both >> (8 * (selector & 7)) & 0xFF;
  return selector & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
}

enum { PLAIN, F4E, B4E, RC8, ECL, ECR, RC16 };

uint32_t ptx_prmt(uint32_t mode, uint32_t a, uint32_t b, uint32_t c) {
  static const uint16_t chosen[][4] = {
      [F4E] = {0x3210, 0x4321, 0x5432, 0x6543}, [B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
      [RC8] = {0x0000, 0x1111, 0x2222, 0x3333}, [ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
      [ECR] = {0x0000, 0x1110, 0x2210, 0x3210}, [RC16] = {0x1010, 0x3232, 0x1010, 0x3232}};
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t selectors = mode == PLAIN ? c : chosen[mode][c & 3], result = 0;
  for (int n = 0; n < 4; n++) result |= byte_of(both, selectors >> (4 * n) & 0xF) << (8 * n);
  return result;
}

/* Four products of bytes, or two of a half and a byte (from the `high` half of b), and a sum. */
uint32_t ptx_dp4a(uint32_t signs, uint32_t a, uint32_t b, uint32_t c) {
  for (int n = 0; n < 4; n++) {
    int32_t left = signs & 1 ? (int8_t)(a >> 8 * n) : (uint8_t)(a >> 8 * n);
    int32_t right = signs & 2 ? (int8_t)(b >> 8 * n) : (uint8_t)(b >> 8 * n);
    c += (uint32_t)(left * right);
  }
  return c;
}

uint32_t ptx_dp2a(uint32_t signs, uint32_t high, uint32_t a, uint32_t b, uint32_t c) {
  for (int n = 0; n < 2; n++) {
    int32_t left = signs & 1 ? (int16_t)(a >> 16 * n) : (uint16_t)(a >> 16 * n);
    uint32_t byte = b >> (8 * (n + 2 * high));
    c += (uint32_t)(left * (signs & 2 ? (int8_t)byte : (uint8_t)byte));
  }
  return c;
}
