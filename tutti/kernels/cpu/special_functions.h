// Functions of mathematics that the standard library lacks, in double precision. Out of their domain they give NaN.
#pragma once

namespace tutti::cpu {

double log_gamma(double x);
double digamma(double x);
// The n-th derivative of digamma; n a whole number >= 0.
double polygamma(double n, double x);
// Hurwitz's: the sum over i >= 0 of (q + i)^-x, x > 1.
double zeta(double x, double q);
// The regularised incomplete gamma functions, lower and upper, and the derivative of the lower one by a.
double igamma(double a, double x);
double igammac(double a, double x);
double igamma_grad_a(double a, double x);
// How a sample x of the gamma law moves with its shape a.
double random_gamma_grad(double a, double x);
// The regularised incomplete beta function.
double betainc(double a, double b, double x);
// The inverses of the normal distribution's function and of erf.
double ndtri(double p);
double erfinv(double x);

}  // namespace tutti::cpu
