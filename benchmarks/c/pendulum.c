/* N-fold pendulum in angles: L = 1/2 sum w_ij cos(q_i - q_j) v_i v_j + g sum w_ii cos q_i with w_ij = N - max(i, j).
   Drift-kick-drift with the mid-point action, unknown v'; the Jacobian has no zeros. Parameters: g. */
#include "common.h"

#define DEFINE_PENDULUM(N)                                                                                     \
  DEFINE_SOLVE(N)                                                                                              \
  /* momenta P = m(q) v and slopes G = dL/dq; C, S: w_ij cos and sin of q_i - q_j; c: cos q_i */               \
  static inline __attribute__((always_inline)) void at##N(                                                     \
      const double *q, const double *v, double g, double *P, double *G, double C[N][N], double S[N][N],        \
      double *c) {                                                                                             \
    double s[N];                                                                                               \
    for (int i = 0; i < N; i++) { c[i] = cos(q[i]); s[i] = sin(q[i]); }                                        \
    for (int i = 0; i < N; i++) {                                                                              \
      double sum = 0, other = 0;                                                                               \
      for (int j = 0; j < N; j++) {                                                                            \
        double w = N - (i > j ? i : j);                                                                        \
        C[i][j] = w * (c[i] * c[j] + s[i] * s[j]);                                                             \
        S[i][j] = w * (s[i] * c[j] - c[i] * s[j]);                                                             \
      }                                                                                                        \
      for (int j = 0; j < N; j++) { sum += C[i][j] * v[j]; other += S[i][j] * v[j]; }                          \
      P[i] = sum;                                                                                              \
      G[i] = -v[i] * other - g * (N - i) * s[i];                                                               \
    }                                                                                                          \
  }                                                                                                            \
  long pendulum##N(long steps, double h, double tol, const double *p, const double *q0, const double *v0,      \
                   double *out) {                                                                              \
    double q[N], lost[N] = {0}, v[N], past[4][N] = {{0}}, P[N], G[N], c[N], known_part[N], x[N], n[N];         \
    double C[N][N], S[N][N], A[N][N], b[N], g = p[0], k = 0.5 * h;                                             \
    memcpy(q, q0, sizeof q);                                                                                   \
    memcpy(v, v0, sizeof v);                                                                                   \
    long total = 0, known = 0;                                                                                 \
    for (long step = 0; step < steps; step++) {                                                                \
      double z[N];                                                                                             \
      memcpy(z, v, sizeof v);                                                                                  \
      if (known) PREDICT(N, z, past, known);                                                                   \
      at##N(q, v, g, P, G, C, S, c);                                                                           \
      for (int i = 0; i < N; i++) { known_part[i] = P[i] + k * G[i]; n[i] = q[i] + k * v[i]; }                 \
      for (int it = 0; it < MAX_ITERATIONS; it++) {                                                            \
        for (int i = 0; i < N; i++) x[i] = n[i] + k * z[i];                                                    \
        at##N(x, z, g, P, G, C, S, c);                                                                         \
        for (int i = 0; i < N; i++) {                                                                          \
          b[i] = known_part[i] - P[i] + k * G[i];                                                              \
          for (int j = 0; j < N; j++)                                                                          \
            A[i][j] = (k * k * z[i] * z[j] - 1) * C[i][j] - k * (z[i] + z[j]) * S[i][j];                       \
          double w = N - i;                                                                                    \
          A[i][i] = -w - k * k * (z[i] * (P[i] - w * z[i]) + g * w * c[i]);                                    \
        }                                                                                                      \
        solve##N(A, b);                                                                                        \
        double size = 0, most = 0;                                                                             \
        for (int i = 0; i < N; i++) {                                                                          \
          z[i] -= b[i];                                                                                        \
          size = dmax(size, fabs(b[i]));                                                                       \
          most = dmax(most, dmax(fabs(z[i]), fabs(v[i])));                                                     \
        }                                                                                                      \
        total++;                                                                                               \
        if (size <= tol * most) break;                                                                         \
      }                                                                                                        \
      double *row = out + (3 * N + 1) * step;                                                                  \
      for (int i = 0; i < N; i++) {                                                                            \
        add(&q[i], &lost[i], k * (v[i] + z[i]));                                                               \
        row[i] = q[i];                                                                                         \
        row[N + i] = v[i] = z[i];                                                                              \
        row[2 * N + i] = 0;                                                                                    \
      }                                                                                                        \
      row[3 * N] = step;                                                                                       \
      REMEMBER(N, z, past, known);                                                                             \
    }                                                                                                          \
    return total;                                                                                              \
  }
DEFINE_PENDULUM(8)
