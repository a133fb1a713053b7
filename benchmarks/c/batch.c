/* Many trajectories side by side: structure of arrays, blocks of W lanes, inner loops that the compiler turns into vectors.
   The schemes, predictors and tests are those of curvature.c and of rattle8 in chain.c (reduced by hand); a block iterates
   until all its lanes are done. Only the last state is stored. State: q, v in arrays [n][B], B a multiple of W. */
#include <math.h>
#include <string.h>
#ifndef W
#define W 16
#endif
#define MAX_ITERATIONS 25
#define LANES for (int l = 0; l < W; l++)

const long lanes_of_block = W;
static const double weights[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};

static inline double larger(double a, double b) { return a > b ? a : b; }

long curvature_batch(long B, long steps, double h, double tol, const double *p, double *Q, double *V) {
  double m = p[0], k = p[1], ih = 1 / h;
  long total = 0;
  for (long b = 0; b < B; b += W) {
    double q[2][W], lost[2][W] = {{0}}, v[2][W], z[3][W], past[4][3][W] = {{{0}}};
    for (int i = 0; i < 2; i++) LANES { q[i][l] = Q[i * B + b + l]; v[i][l] = V[i * B + b + l]; }
    for (long step = 0, known = 0; step < steps; step++) {
      const double *w = weights[known];
      if (known) {
        for (int i = 0; i < 3; i++)
          LANES z[i][l] = w[0] * past[0][i][l] + w[1] * past[1][i][l] + w[2] * past[2][i][l] + w[3] * past[3][i][l];
      } else LANES { z[0][l] = v[0][l]; z[1][l] = v[1][l]; z[2][l] = 0; }
      for (int it = 0; it < MAX_ITERATIONS; it++) {
        double excess[W];
#pragma GCC ivdep
        LANES {
          double x = 0.5 * (v[0][l] + z[0][l]), y = 0.5 * (v[1][l] + z[1][l]);
          double ax = (z[0][l] - v[0][l]) * ih, ay = (z[1][l] - v[1][l]) * ih;
          double is2 = 1 / (x * x + y * y), is3 = is2 * sqrt(is2), cross = x * ay - ax * y;
          double g = 1.5 * cross * is2, a = 0.5 * h * z[2][l];
          /* rows -m u + a w + h y s = -r1, -a u - m w - h x s = -r2, c u + d w = -r3; s eliminated by the first two */
          double c = (0.5 * ay - y * ih - g * x) * is3, d = (x * ih - 0.5 * ax - g * y) * is3;
          double r1 = m * (v[0][l] - z[0][l]) + h * z[2][l] * y, r2 = m * (v[1][l] - z[1][l]) - h * z[2][l] * x;
          double r3 = cross * is3 - k;
          double e = -m * x - a * y, f = a * x - m * y, r = x * r1 + y * r2; /* e u + f w = r, from x row1 + y row2 */
          double id = 1 / (e * d - f * c), u = (r * d - f * r3) * id, t = (e * r3 - c * r) * id;
          double s = (y * (r1 + m * u - a * t) - x * (r2 + a * u + m * t)) * is2 * ih;
          z[0][l] -= u; z[1][l] -= t; z[2][l] -= s;
          double most = larger(larger(fabs(v[0][l]), fabs(v[1][l])), larger(fabs(z[0][l]), fabs(z[1][l])));
          excess[l] = larger(fabs(u), fabs(t)) - tol * most;
        }
        double worst = -1;
        LANES worst = larger(worst, excess[l]);
        total++;
        if (worst <= 0) break;
      }
      for (int i = 0; i < 2; i++) LANES {
        double d = 0.5 * h * (v[i][l] + z[i][l]) - lost[i][l], sum = q[i][l] + d;
        lost[i][l] = (sum - q[i][l]) - d; q[i][l] = sum; v[i][l] = z[i][l];
      }
      memmove(past[1], past[0], 3 * sizeof past[0]);
      memcpy(past[0], z, sizeof past[0]);
      if (known < 4) known++;
    }
    for (int i = 0; i < 2; i++) LANES { Q[i * B + b + l] = q[i][l]; V[i * B + b + l] = v[i][l]; }
  }
  return total;
}

enum { N = 4, n = 8 };

/* Solve the tridiagonal systems; x replaces the right-hand sides. */
static inline __attribute__((always_inline)) void thomas(double lo[N][W], double d[N][W], double up[N][W], double x[N][W]) {
  for (int i = 1; i < N; i++) LANES {
    double f = lo[i][l] / d[i - 1][l];
    d[i][l] -= f * up[i - 1][l]; x[i][l] -= f * x[i - 1][l];
  }
  LANES x[N - 1][l] /= d[N - 1][l];
  for (int i = N - 2; i >= 0; i--) LANES x[i][l] = (x[i][l] - up[i][l] * x[i + 1][l]) / d[i][l];
}

static inline __attribute__((always_inline)) void rods(double q[n][W], double d[n][W]) {
  for (int i = 0; i < n; i++) LANES d[i][l] = q[i][l] - (i > 1 ? q[i - 2][l] : 0);
}

static inline __attribute__((always_inline)) void pull(double d[n][W], double x[N][W], double force[n][W]) {
  for (int i = 0; i < N; i++)
    for (int c = 0; c < 2; c++)
      LANES force[2 * i + c][l] = 2 * d[2 * i + c][l] * x[i][l] - (i + 1 < N ? 2 * d[2 * i + 2 + c][l] * x[i + 1][l] : 0);
}

/* The matrix s * (a_i b_i) of two sets of rods, tridiagonal. */
static inline __attribute__((always_inline)) void product(double s, double a[n][W], double b[n][W], double lo[N][W],
                                                          double d[N][W], double up[N][W]) {
  for (int i = 0; i < N; i++) LANES {
    d[i][l] = (i ? 2 : 1) * s * (a[2 * i][l] * b[2 * i][l] + a[2 * i + 1][l] * b[2 * i + 1][l]);
    lo[i][l] = i ? -s * (a[2 * i][l] * b[2 * i - 2][l] + a[2 * i + 1][l] * b[2 * i - 1][l]) : 0;
    up[i][l] = i + 1 < N ? -s * (a[2 * i][l] * b[2 * i + 2][l] + a[2 * i + 1][l] * b[2 * i + 3][l]) : 0;
  }
}

long chain_batch(long B, long steps, double h, double tol, const double *p, double *Q, double *S) {
  const double gravity = p[0], ll = p[1] * p[1];
  long total = 0;
  for (long b = 0; b < B; b += W) {
    double q[n][W], lost[n][W] = {{0}}, v[n][W], past[4][N][W] = {{{0}}}, left[N][W], right[N][W];
    double d0[n][W], d1[n][W], e[n][W], f[n][W], free[n][W], V[n][W], q1[n][W], lo[N][W], d[N][W], up[N][W], x[N][W];
    for (int i = 0; i < n; i++) LANES { q[i][l] = Q[i * B + b + l]; v[i][l] = S[i * B + b + l]; }
    for (long step = 0, known = 0; step < steps; step++) {
      const double *w = weights[known];
      for (int i = 0; i < N; i++)
        LANES left[i][l] = w[0] * past[0][i][l] + w[1] * past[1][i][l] + w[2] * past[2][i][l] + w[3] * past[3][i][l];
      rods(q, d0);
      for (int i = 0; i < n; i++) LANES free[i][l] = v[i][l] - (i % 2 ? 0.5 * h * gravity : 0);
      for (int it = 0; it < MAX_ITERATIONS; it++) {
        pull(d0, left, f);
        for (int i = 0; i < n; i++) LANES { V[i][l] = free[i][l] + 0.5 * h * f[i][l]; q1[i][l] = q[i][l] + h * V[i][l]; }
        rods(q1, d1);
        for (int i = 0; i < N; i++) LANES x[i][l] = d1[2 * i][l] * d1[2 * i][l] + d1[2 * i + 1][l] * d1[2 * i + 1][l] - ll;
        product(2 * h * h, d1, d0, lo, d, up);
        thomas(lo, d, up, x);
        for (int i = 0; i < N; i++) LANES left[i][l] -= x[i][l];
        pull(d0, x, f);
        double size[W] = {0}, most[W] = {0}, worst = -1;
        for (int i = 0; i < n; i++) LANES {
          size[l] = larger(size[l], fabs(0.5 * h * f[i][l]));
          most[l] = larger(most[l], larger(fabs(V[i][l]), fabs(v[i][l])));
          V[i][l] -= 0.5 * h * f[i][l];
        }
        LANES worst = larger(worst, size[l] - tol * most[l]);
        total++;
        if (worst <= 0) break;
      }
      for (int i = 0; i < n; i++) LANES q1[i][l] = q[i][l] + h * V[i][l];
      rods(q1, d1);
      for (int i = 0; i < n; i++) LANES free[i][l] = V[i][l] - (i % 2 ? 0.5 * h * gravity : 0);
      rods(free, e);
      for (int i = 0; i < N; i++) LANES x[i][l] = -2 * (d1[2 * i][l] * e[2 * i][l] + d1[2 * i + 1][l] * e[2 * i + 1][l]);
      product(2 * h, d1, d1, lo, d, up);
      thomas(lo, d, up, x);
      memcpy(right, x, sizeof x);
      pull(d1, right, f);
      for (int i = 0; i < n; i++) LANES {
        double step_q = h * V[i][l] - lost[i][l], sum = q[i][l] + step_q;
        lost[i][l] = (sum - q[i][l]) - step_q; q[i][l] = sum; v[i][l] = free[i][l] + 0.5 * h * f[i][l];
      }
      memmove(past[1], past[0], 3 * sizeof past[0]);
      memcpy(past[0], left, sizeof past[0]);
      if (known < 4) known++;
    }
    for (int i = 0; i < n; i++) LANES { Q[i * B + b + l] = q[i][l]; S[i * B + b + l] = v[i][l]; }
  }
  return total;
}
