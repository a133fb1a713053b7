/* Shared by the hand-written integrators: the schemes are those of the library's default forms.
   Predictor: cubic extrapolation of the unknowns through the last four steps (lower degree at the start). Newton's
   iteration with an analytic Jacobian and dense elimination with partial pivoting, until every |update| of a velocity is
   at most tol times the largest velocity; positions are summed with compensation; every step is stored. */
#include <math.h>
#include <string.h>
#define MAX_ITERATIONS 25

static inline double dmax(double a, double b) { return a > b ? a : b; }

/* Solve A x = b by elimination with partial pivoting, n known when compiled; x replaces b. */
#define DEFINE_SOLVE(n)                                                                    \
  static inline __attribute__((always_inline)) void solve##n(double A[n][n], double b[n]) { \
    for (int k = 0; k < n; k++) {                                                          \
      int p = k;                                                                           \
      double most = fabs(A[k][k]);                                                         \
      for (int i = k + 1; i < n; i++) {                                                    \
        double size = fabs(A[i][k]);                                                       \
        if (size > most) { most = size; p = i; }                                           \
      }                                                                                    \
      if (p != k) {                                                                        \
        for (int j = k; j < n; j++) { double t = A[k][j]; A[k][j] = A[p][j]; A[p][j] = t; } \
        double t = b[k]; b[k] = b[p]; b[p] = t;                                            \
      }                                                                                    \
      double inverse = 1.0 / A[k][k];                                                      \
      for (int i = k + 1; i < n; i++) {                                                    \
        double f = A[i][k] * inverse;                                                      \
        for (int j = k + 1; j < n; j++) A[i][j] -= f * A[k][j];                            \
        b[i] -= f * b[k];                                                                  \
      }                                                                                    \
    }                                                                                      \
    for (int k = n - 1; k >= 0; k--) {                                                     \
      double s = b[k];                                                                     \
      for (int j = k + 1; j < n; j++) s -= A[k][j] * b[j];                                 \
      b[k] = s / A[k][k];                                                                  \
    }                                                                                      \
  }

/* z extrapolated through the known last steps, latest first in past[0]. */
#define PREDICT(nz, z, past, known)                                                        \
  do {                                                                                     \
    static const double weights[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};   \
    const double *w = weights[known];                                                      \
    for (int i = 0; i < nz; i++)                                                           \
      z[i] = w[0] * past[0][i] + w[1] * past[1][i] + w[2] * past[2][i] + w[3] * past[3][i]; \
  } while (0)

#define REMEMBER(nz, z, past, known)                                                       \
  do {                                                                                     \
    memmove(past[1], past[0], 3 * sizeof past[0]);                                         \
    memcpy(past[0], z, sizeof past[0]);                                                    \
    if (known < 4) known++;                                                                \
  } while (0)

/* q += d, with what rounding loses kept in lost. */
static inline void add(double *q, double *lost, double d) {
  double total = d - *lost, sum = *q + total;
  *lost = (sum - *q) - total;
  *q = sum;
}
