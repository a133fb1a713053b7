/* Contact oscillator by Dormand and Prince's method of order 8 with twelve stages, on the equation reduced by hand:
   y'' = -y, x' = -y w, z' = w, w' = (y x - z - y y' w)/(1 + y^2), five unknowns, one quotient.
   dop853_table.h is written by benchmarks/contact.py from SciPy's coefficients. The error estimate is Hairer's combination of
   orders 5 and 3, the controller h <- h min(5, max(1/5, 0.9 err^(-1/8))); the last slope of a step is the first of the next.
   A vector of eight numbers holds the five unknowns: the sums over slopes are then one operation for each coefficient. */
#include <math.h>
#include "dop853_table.h" /* A[12][12], B[12], E3[13], E5[13] */
typedef double vec __attribute__((vector_size(64), aligned(64)));
#define UNKNOWNS 5

static inline __attribute__((always_inline)) vec slope(vec u) {
  double y = u[0], vy = u[1], x = u[2], z = u[3], w = u[4];
  return (vec){vy, -y, -y * w, w, (y * (x - vy * w) - z) / (1 + y * y), 0, 0, 0};
}

static inline __attribute__((always_inline)) void stages(vec u, double h, vec *k, vec *next) {
#pragma GCC unroll 16
  for (int i = 1; i < 12; i++) {
    vec sum = k[0] * A[i][0];
#pragma GCC unroll 16
    for (int j = 1; j < i; j++)
      if (A[i][j] != 0) sum += k[j] * A[i][j];
    k[i] = slope(u + h * sum);
  }
  vec sum = k[0] * B[0];
#pragma GCC unroll 16
  for (int j = 1; j < 12; j++)
    if (B[j] != 0) sum += k[j] * B[j];
  *next = u + h * sum;
  k[12] = slope(*next);
}

/* By masks: calls of fabs and fmax would empty the registers. */
typedef long long mask __attribute__((vector_size(64), aligned(64)));
static inline vec size(vec r) { return (vec)((mask)r & 0x7fffffffffffffff); }
static inline vec larger(vec r, vec s) { mask m = r > s; return (vec)(((mask)r & m) | ((mask)s & ~m)); }
static inline double squares(vec r) { return (r[0] * r[0] + r[1] * r[1]) + (r[2] * r[2] + r[3] * r[3]) + r[4] * r[4]; }

static void leave(double *state, vec u) {
  double end[6] = {u[2], u[0], u[3], -u[0] * u[4], u[1], u[4]};
  for (int i = 0; i < 6; i++) state[i] = end[i];
}

static vec enter(const double *state) { return (vec){state[1], state[4], state[0], state[2], state[5], 0, 0, 0}; }

/* Step control; rtol = atol = tol. Returns the number of steps, taken or refused. */
long adaptive(double end, double tol, double *state) {
  vec u = enter(state), k[13], next;
  k[0] = slope(u);
  double t = 0, h = fmin(0.5 * pow(tol, 0.125), end);
  long count = 0;
  while (t < end) {
    if (t + h > end) h = end - t;
    stages(u, h, k, &next);
    vec five = k[0] * E5[0], three = k[0] * E3[0];
#pragma GCC unroll 16
    for (int j = 1; j < 13; j++) {
      if (E5[j] != 0) five += k[j] * E5[j];
      if (E3[j] != 0) three += k[j] * E3[j];
    }
    vec scale = tol + tol * larger(size(u), size(next));
    double e5 = squares(five / scale), e3 = squares(three / scale);
    double error = e5 > 0 ? h * e5 / sqrt((e5 + 0.01 * e3) * UNKNOWNS) : 0;
    double factor = error > 0 ? 0.9 / sqrt(sqrt(sqrt(error))) : 5;
    factor = factor > 5 ? 5 : factor < 0.2 ? 0.2 : factor;
    count++;
    if (error <= 1) { t = h == end - t ? end : t + h; u = next; k[0] = k[12]; }
    h *= factor;
  }
  leave(state, u);
  return count;
}

/* Constant steps and no estimate: what no step control can beat by much on a motion as even as this one. */
long constant(long steps, double h, double *state) {
  vec u = enter(state), k[13];
  k[0] = slope(u);
  for (long step = 0; step < steps; step++) {
    stages(u, h, k, &u);
    k[0] = k[12];
  }
  leave(state, u);
  return steps;
}
