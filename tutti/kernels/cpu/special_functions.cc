#include "tutti/kernels/cpu/special_functions.h"

#include <cmath>
#include <limits>

namespace tutti::cpu {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Series and fractions below end long before; this bounds them for any argument.
constexpr int kMostTerms = 20000;

// B_2k / (2k)!, of the Euler-Maclaurin formula.
constexpr double kEulerMaclaurin[] = {1.0 / 12,
                                      -1.0 / 720,
                                      1.0 / 30240,
                                      -1.0 / 1209600,
                                      1.0 / 47900160,
                                      -691.0 / 1307674368000.0,
                                      1.0 / 74724249600.0,
                                      -3617.0 / 10670622842880000.0};

// x^a e^-x / Gamma(a + 1), in logarithms: the factors alone overflow.
double gamma_weight(double a, double x) { return std::exp(a * std::log(x) - x - log_gamma(a + 1)); }

// Sum over n of x^n / ((a + 1) ... (a + n)).
double gamma_series(double a, double x) {
  double term = 1, sum = 1;
  for (int n = 1; n < kMostTerms && term > sum * kEpsilon / 8; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum;
}

// Of the upper function over x^a e^-x / Gamma(a), as a continued fraction by Lentz's method.
double gamma_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, product = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    if (std::abs(d) < tiny) d = tiny;
    c = b + an / c;
    if (std::abs(c) < tiny) c = tiny;
    d = 1 / d;
    const double factor = d * c;
    product *= factor;
    if (std::abs(factor - 1) < kEpsilon) break;
  }
  return product;
}

double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < tiny ? tiny : d);
  double product = d;
  const auto step = [&](double numerator) {
    d = 1 + numerator * d;
    d = 1 / (std::abs(d) < tiny ? tiny : d);
    c = 1 + numerator / c;
    if (std::abs(c) < tiny) c = tiny;
    product *= d * c;
    return d * c;
  };
  for (int m = 1; m < kMostTerms; ++m) {
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    const double factor = step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::abs(factor - 1) < kEpsilon) break;
  }
  return product;
}

// A first guess at the p-quantile, 0 < p <= 1/2, good to some 1e-3 (Abramowitz and Stegun 26.2.23).
double quantile_guess(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  return -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
}

// The p-quantile for p <= 1/2, made exact by Halley's steps.
double lower_quantile(double p) {
  double x = quantile_guess(p);
  for (int i = 0; i < 4; ++i) {
    const double error = 0.5 * std::erfc(-x / std::sqrt(2.0)) - p;
    const double step = error * std::sqrt(2 * kPi) * std::exp(x * x / 2);
    if (!std::isfinite(step)) break;
    x -= step / (1 + x * step / 2);
  }
  return x;
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);  // std::lgamma writes to a global variable
}

double digamma(double x) {
  if (std::isnan(x) || x == -kInfinity) return kNan;
  if (x == kInfinity) return x;
  double result = 0;
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    // By reflection; the argument of the tangent is reduced first.
    result = -kPi / std::tan(kPi * (x - std::floor(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double inverse = 1 / (x * x);
  const double series =
      inverse *
      (1.0 / 12 -
       inverse * (1.0 / 120 -
                  inverse * (1.0 / 252 - inverse * (1.0 / 240 - inverse * (1.0 / 132 - inverse * (691.0 / 32760 -
                                                                                                  inverse / 12))))));
  return result + std::log(x) - 0.5 / x - series;
}

double polygamma(double n, double x) {
  if (!(n >= 0) || n != std::floor(n)) return kNan;
  if (n == 0) return digamma(x);
  const double factorial = std::exp(log_gamma(n + 1));
  return (std::fmod(n, 2) == 0 ? -1 : 1) * factorial * zeta(n + 1, x);
}

double zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (!(x > 1) || std::isnan(q)) return kNan;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (x != std::floor(x)) return kNan;  // powers of negative numbers
  }
  constexpr int direct = 12;
  double sum = 0, place = q;
  for (int i = 0; i < direct || place < direct; ++i, place += 1) {
    const double term = std::pow(place, -x);
    sum += term;
    if (i >= direct && std::abs(term) < std::abs(sum) * kEpsilon / 8) return sum;
    if (i > kMostTerms) return kNan;
  }
  double term = std::pow(place, -x);
  sum += term * place / (x - 1) + term / 2;
  double rising = x;
  term /= place;
  for (int k = 0; k < 8; ++k) {
    sum += kEulerMaclaurin[k] * rising * term;
    rising *= (x + 2 * k + 1) * (x + 2 * k + 2);
    term /= place * place;
  }
  return sum;
}

double igamma(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return a == kInfinity ? kNan : 0;
  if (a == kInfinity) return x == kInfinity ? kNan : 0;
  if (x == kInfinity) return 1;
  if (x > 1 && x > a) return 1 - igammac(a, x);
  return gamma_weight(a, x) * gamma_series(a, x);
}

double igammac(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return a == kInfinity ? kNan : 1;
  if (a == kInfinity) return x == kInfinity ? kNan : 1;
  if (x == kInfinity) return 0;
  if (x < 1 || x < a) return 1 - igamma(a, x);
  return gamma_weight(a, x) * a * gamma_fraction(a, x);
}

namespace {

// The derivative of igamma(a, x) by a, over gamma_weight(a, x): its series, differentiated term by term.
double igamma_slope(double a, double x) {
  double term = 1, sum = 1, harmonic = 0, derivative = 0;
  for (int n = 1; n < kMostTerms && (term > sum * kEpsilon / 64 || n < x); ++n) {
    term *= x / (a + n);
    harmonic += 1 / (a + n);
    sum += term;
    derivative -= term * harmonic;
  }
  return (std::log(x) - digamma(a + 1)) * sum + derivative;
}

}  // namespace

double igamma_grad_a(double a, double x) {
  if (!(a > 0) || !(x >= 0)) return kNan;
  if (x == 0) return 0;
  const double weight = gamma_weight(a, x);
  return weight == 0 ? 0 : weight * igamma_slope(a, x);
}

// Where igamma(a, x) stays the same, x moves by -igamma_grad_a over the density, which is gamma_weight(a, x) a / x. In
// the upper tail, where nothing would be left of the series' digits, by the derivative of igammac over the density:
// x (F (log x - digamma(a)) + F'), with F the continued fraction, whose F' is taken from differences.
double random_gamma_grad(double a, double x) {
  if (!(a > 0) || !(x >= 0) || x == kInfinity) return kNan;
  if (x == 0) return 0;
  if (x < 1 || x < a + 1) return -x / a * igamma_slope(a, x);
  const double h = 6e-6 * a;
  const double slope = (gamma_fraction(a + h, x) - gamma_fraction(a - h, x)) / (2 * h);
  return x * (gamma_fraction(a, x) * (std::log(x) - digamma(a)) + slope);
}

double betainc(double a, double b, double x) {
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(x <= 1)) return kNan;
  if (x == 0 || x == 1) return x;
  const double weight = std::exp(a * std::log(x) + b * std::log1p(-x) + log_gamma(a + b) - log_gamma(a) - log_gamma(b));
  if (x < (a + 1) / (a + b + 2)) return weight * beta_fraction(a, b, x) / a;
  return 1 - weight * beta_fraction(b, a, 1 - x) / b;
}

double ndtri(double p) {
  if (!(p >= 0) || !(p <= 1)) return kNan;
  if (p == 0) return -kInfinity;
  if (p == 1) return kInfinity;
  return p <= 0.5 ? lower_quantile(p) : -lower_quantile(1 - p);
}

double erfinv(double x) {
  if (!(x >= -1) || !(x <= 1)) return kNan;
  if (x == 0) return x;
  if (std::abs(x) == 1) return x * kInfinity;
  // Near 0, where the quantile of (1 + x) / 2 has lost digits, Newton's steps start at the first terms of the series.
  double y = std::abs(x) < 0.5 ? std::sqrt(kPi) / 2 * x * (1 + kPi / 12 * x * x)
                               : (x < 0 ? 1 : -1) * lower_quantile((1 - std::abs(x)) / 2) / std::sqrt(2.0);
  for (int i = 0; i < 3; ++i) {
    const double error = std::abs(y) < 1 ? std::erf(y) - x : (y > 0 ? (1 - x) - std::erfc(y) : std::erfc(-y) - (1 + x));
    const double step = error * std::sqrt(kPi) / 2 * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return y;
}

}  // namespace tutti::cpu
