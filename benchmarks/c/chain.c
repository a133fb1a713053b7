/* Planar chain of N unit masses and N rods under gravity: kick-drift-kick (RATTLE), all unknowns at once:
   (V, v1, lambda at the left, lambda at the right), 6 N of them, dense elimination as a first version is written.
   Parameters: g and the length l of the rods. */
#include "common.h"

/* Differences along the chain, and the force of its rods. */
#define DEFINE_RODS(N, n)                                                                                      \
  static void rods##n(const double *q, double *d) {                                                            \
    for (int i = 0; i < N; i++)                                                                                \
      for (int c = 0; c < 2; c++) d[2 * i + c] = q[2 * i + c] - (i ? q[2 * i - 2 + c] : 0);                    \
  }                                                                                                            \
  /* R^T lambda with R = dphi/dq, phi_i = |d_i|^2 - l^2 */                                                     \
  static void pull##n(const double *d, const double *lambda, double *force) {                                  \
    for (int i = 0; i < N; i++)                                                                                \
      for (int c = 0; c < 2; c++)                                                                              \
        force[2 * i + c] = 2 * d[2 * i + c] * lambda[i] - (i + 1 < N ? 2 * d[2 * i + 2 + c] * lambda[i + 1] : 0);\
  }

DEFINE_RODS(1, 2)
DEFINE_RODS(2, 4)
DEFINE_RODS(4, 8)
DEFINE_RODS(6, 12)
DEFINE_RODS(8, 16)
DEFINE_RODS(10, 20)
DEFINE_RODS(12, 24)
DEFINE_RODS(14, 28)
DEFINE_RODS(16, 32)
DEFINE_RODS(18, 36)
DEFINE_RODS(20, 40)

#define DEFINE_CHAIN(N, n, nz)                                                                                 \
  DEFINE_SOLVE(nz)                                                                                             \
  long chain##n(long steps, double h, double tol, const double *p, const double *q0, const double *v0,         \
                double *out) {                                                                                 \
    double q[n], lost[n] = {0}, v[n], past[4][nz] = {{0}}, d0[n], d1[n], f0[n], f1[n], e[n], q1[n];            \
    const double gravity = p[0], ll = p[1] * p[1];                                                             \
    memcpy(q, q0, sizeof q);                                                                                   \
    memcpy(v, v0, sizeof v);                                                                                   \
    long total = 0, known = 0;                                                                                 \
    for (long step = 0; step < steps; step++) {                                                                \
      double z[nz] = {0};                                                                                      \
      memcpy(z, v, sizeof v);                                                                                  \
      memcpy(z + n, v, sizeof v);                                                                              \
      if (known) PREDICT(nz, z, past, known);                                                                  \
      rods##n(q, d0);                                                                                          \
      double *V = z, *w = z + n, *left = z + 2 * n, *right = z + 2 * n + N;                                    \
      for (int it = 0; it < MAX_ITERATIONS; it++) {                                                            \
        double A[nz][nz], b[nz];                                                                               \
        memset(A, 0, sizeof A);                                                                                \
        for (int i = 0; i < n; i++) q1[i] = q[i] + h * V[i];                                                   \
        rods##n(q1, d1);                                                                                       \
        rods##n(w, e);                                                                                         \
        pull##n(d0, left, f0);                                                                                 \
        pull##n(d1, right, f1);                                                                                \
        for (int i = 0; i < n; i++) {                                                                          \
          double g = i % 2 ? 0.5 * h * gravity : 0;                                                            \
          b[i] = v[i] - V[i] - g + 0.5 * h * f0[i];                                                            \
          b[n + i] = V[i] - g + 0.5 * h * f1[i] - w[i];                                                        \
          A[i][i] = -1;                                                                                        \
          A[n + i][i] = 1;                                                                                     \
          A[n + i][n + i] = -1;                                                                                \
        }                                                                                                      \
        for (int i = 0; i < N; i++) {                                                                          \
          int l = 2 * n + i, r = 2 * n + N + i;                                                                \
          b[2 * n + i] = d1[2 * i] * d1[2 * i] + d1[2 * i + 1] * d1[2 * i + 1] - ll;                           \
          b[2 * n + N + i] = 2 * (d1[2 * i] * e[2 * i] + d1[2 * i + 1] * e[2 * i + 1]);                        \
          for (int c = 0; c < 2; c++) {                                                                        \
            int k = 2 * i + c;                                                                                 \
            A[k][l] = h * d0[k];                                                                               \
            A[n + k][r] = h * d1[k];                                                                           \
            A[n + k][k] += h * h * right[i];                                                                   \
            A[l][k] = 2 * h * d1[k];                                                                           \
            A[r][k] = 2 * h * e[k];                                                                            \
            A[r][n + k] = 2 * d1[k];                                                                           \
            if (i) {                                                                                           \
              A[k - 2][l] = -h * d0[k];                                                                        \
              A[n + k - 2][r] = -h * d1[k];                                                                    \
              A[n + k][k - 2] -= h * h * right[i];                                                             \
              A[n + k - 2][k] -= h * h * right[i];                                                             \
              A[n + k - 2][k - 2] += h * h * right[i];                                                         \
              A[l][k - 2] = -2 * h * d1[k];                                                                    \
              A[r][k - 2] = -2 * h * e[k];                                                                     \
              A[r][n + k - 2] = -2 * d1[k];                                                                    \
            }                                                                                                  \
          }                                                                                                    \
        }                                                                                                      \
        solve##nz(A, b);                                                                                       \
        double size = 0, most = 0;                                                                             \
        for (int i = 0; i < nz; i++) z[i] -= b[i];                                                             \
        for (int i = 0; i < 2 * n; i++) { size = dmax(size, fabs(b[i])); most = dmax(most, fabs(z[i])); }      \
        for (int i = 0; i < n; i++) most = dmax(most, fabs(v[i]));                                             \
        total++;                                                                                               \
        if (size <= tol * most) break;                                                                         \
      }                                                                                                        \
      double *row = out + (3 * n + N + 1) * step, middle[n], mean[N];                                          \
      for (int i = 0; i < n; i++) middle[i] = q[i] + 0.5 * h * V[i];                                           \
      for (int i = 0; i < n; i++) { add(&q[i], &lost[i], h * V[i]); v[i] = w[i]; row[i] = q[i]; row[n + i] = v[i]; }\
      for (int i = 0; i < N; i++) row[2 * n + i] = mean[i] = 0.5 * (left[i] + right[i]);                       \
      rods##n(middle, d1);                                                                                     \
      pull##n(d1, mean, row + 2 * n + N);                                                                      \
      row[3 * n + N] = step;                                                                                   \
      REMEMBER(nz, z, past, known);                                                                            \
    }                                                                                                          \
    return total;                                                                                              \
  }
DEFINE_CHAIN(4, 8, 24)
DEFINE_CHAIN(10, 20, 60)

/* The same scheme reduced by hand: V is explicit in the left multipliers, which solve an N by N system by Newton's
   iteration; the right multipliers then solve a linear one. Both matrices are tridiagonal. */
#define DEFINE_RATTLE(N, n)                                                                                    \
  static void thomas##n(double *lo, double *d, double *up, double *x) {                                        \
    for (int i = 1; i < N; i++) { double f = lo[i] / d[i - 1]; d[i] -= f * up[i - 1]; x[i] -= f * x[i - 1]; }  \
    x[N - 1] /= d[N - 1];                                                                                      \
    for (int i = N - 2; i >= 0; i--) x[i] = (x[i] - up[i] * x[i + 1]) / d[i];                                  \
  }                                                                                                            \
  long rattle##n(long steps, double h, double tol, const double *p, const double *q0, const double *v0,        \
                 double *out) {                                                                                \
    double q[n], lost[n] = {0}, v[n], past[4][N] = {{0}}, d0[n], d1[n], f[n], free[n], V[n], q1[n], e[n];      \
    const double gravity = p[0], ll = p[1] * p[1];                                                             \
    memcpy(q, q0, sizeof q);                                                                                   \
    memcpy(v, v0, sizeof v);                                                                                   \
    long total = 0, known = 0;                                                                                 \
    for (long step = 0; step < steps; step++) {                                                                \
      double left[N] = {0}, right[N], lo[N], d[N], up[N], x[N];                                                \
      if (known) PREDICT(N, left, past, known);                                                                \
      rods##n(q, d0);                                                                                          \
      for (int i = 0; i < n; i++) free[i] = v[i] - (i % 2 ? 0.5 * h * gravity : 0);                            \
      for (int it = 0; it < MAX_ITERATIONS; it++) {                                                            \
        pull##n(d0, left, f);                                                                                  \
        for (int i = 0; i < n; i++) { V[i] = free[i] + 0.5 * h * f[i]; q1[i] = q[i] + h * V[i]; }              \
        rods##n(q1, d1);                                                                                       \
        for (int i = 0; i < N; i++) {                                                                          \
          const double *a = d1 + 2 * i, *b = d0 + 2 * i;                                                       \
          double s = 2 * h * h;                                                                                \
          x[i] = a[0] * a[0] + a[1] * a[1] - ll;                                                               \
          d[i] = (i ? 2 : 1) * s * (a[0] * b[0] + a[1] * b[1]);                                                \
          lo[i] = i ? -s * (a[0] * b[-2] + a[1] * b[-1]) : 0;                                                  \
          up[i] = i + 1 < N ? -s * (a[0] * b[2] + a[1] * b[3]) : 0;                                            \
        }                                                                                                      \
        thomas##n(lo, d, up, x);                                                                               \
        for (int i = 0; i < N; i++) left[i] -= x[i];                                                           \
        /* the update of V that belongs to the update of the multipliers, tested as in the other version */    \
        pull##n(d0, x, f);                                                                                     \
        double size = 0, most = 0;                                                                             \
        for (int i = 0; i < n; i++) {                                                                          \
          size = dmax(size, fabs(0.5 * h * f[i]));                                                             \
          most = dmax(most, dmax(fabs(V[i]), fabs(v[i])));                                                     \
          V[i] -= 0.5 * h * f[i];                                                                              \
        }                                                                                                      \
        total++;                                                                                               \
        if (size <= tol * most) break;                                                                         \
      }                                                                                                        \
      for (int i = 0; i < n; i++) q1[i] = q[i] + h * V[i];                                                     \
      rods##n(q1, d1);                                                                                         \
      for (int i = 0; i < n; i++) free[i] = V[i] - (i % 2 ? 0.5 * h * gravity : 0);                            \
      rods##n(free, e);                                                                                        \
      for (int i = 0; i < N; i++) {                                                                            \
        const double *a = d1 + 2 * i;                                                                          \
        right[i] = -(a[0] * e[2 * i] + a[1] * e[2 * i + 1]);                                                   \
        d[i] = (i ? 2 : 1) * h * (a[0] * a[0] + a[1] * a[1]);                                                  \
        lo[i] = i ? -h * (a[0] * a[-2] + a[1] * a[-1]) : 0;                                                    \
        up[i] = i + 1 < N ? -h * (a[0] * a[2] + a[1] * a[3]) : 0;                                              \
      }                                                                                                        \
      thomas##n(lo, d, up, right);                                                                             \
      pull##n(d1, right, f);                                                                                   \
      double *row = out + (3 * n + N + 1) * step, middle[n], mean[N];                                          \
      for (int i = 0; i < n; i++) middle[i] = q[i] + 0.5 * h * V[i];                                           \
      for (int i = 0; i < n; i++) {                                                                            \
        add(&q[i], &lost[i], h * V[i]);                                                                        \
        v[i] = free[i] + 0.5 * h * f[i];                                                                       \
        row[i] = q[i];                                                                                         \
        row[n + i] = v[i];                                                                                     \
      }                                                                                                        \
      for (int i = 0; i < N; i++) row[2 * n + i] = mean[i] = 0.5 * (left[i] + right[i]);                       \
      rods##n(middle, d1);                                                                                     \
      pull##n(d1, mean, row + 2 * n + N);                                                                      \
      row[3 * n + N] = step;                                                                                   \
      REMEMBER(N, left, past, known);                                                                          \
    }                                                                                                          \
    return total;                                                                                              \
  }
DEFINE_RATTLE(1, 2)
DEFINE_RATTLE(2, 4)
DEFINE_RATTLE(4, 8)
DEFINE_RATTLE(6, 12)
DEFINE_RATTLE(8, 16)
DEFINE_RATTLE(10, 20)
DEFINE_RATTLE(12, 24)
DEFINE_RATTLE(14, 28)
DEFINE_RATTLE(16, 32)
DEFINE_RATTLE(18, 36)
DEFINE_RATTLE(20, 40)
