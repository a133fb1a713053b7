/* Particle of mass m whose path has curvature k: drift-kick-drift, unknowns (v', lambda). */
#include "common.h"
DEFINE_SOLVE(3)

long curvature(long steps, double h, double tol, const double *p, const double *q0, const double *v0, double *out) {
  double m = p[0], k = p[1], q[2] = {q0[0], q0[1]}, lost[2] = {0}, v[2] = {v0[0], v0[1]}, past[4][3] = {{0}};
  double ih = 1 / h;
  long total = 0, known = 0;
  for (long step = 0; step < steps; step++) {
    double z[3] = {v[0], v[1], 0};
    if (known) PREDICT(3, z, past, known);
    for (int it = 0; it < MAX_ITERATIONS; it++) {
      double x = 0.5 * (v[0] + z[0]), y = 0.5 * (v[1] + z[1]), ax = (z[0] - v[0]) * ih, ay = (z[1] - v[1]) * ih;
      double s2 = x * x + y * y, is2 = 1 / s2, is3 = is2 / sqrt(s2), cross = x * ay - ax * y;
      double g = 3 * cross * is2 * 0.5;
      double A[3][3] = {{-m, 0.5 * h * z[2], h * y}, {-0.5 * h * z[2], -m, -h * x},
                        {(0.5 * ay - y * ih - g * x) * is3, (x * ih - 0.5 * ax - g * y) * is3, 0}};
      double b[3] = {m * (v[0] - z[0]) + h * z[2] * y, m * (v[1] - z[1]) - h * z[2] * x, cross * is3 - k};
      /* A[0][1] is d(h lambda y)/dz1 = h lambda / 2 */
      solve3(A, b);
      double size = 0, most = dmax(fabs(v[0]), fabs(v[1]));
      for (int i = 0; i < 3; i++) z[i] -= b[i];
      for (int i = 0; i < 2; i++) { size = dmax(size, fabs(b[i])); most = dmax(most, fabs(z[i])); }
      total++;
      if (size <= tol * most) break;
    }
    double lx = 0.5 * (v[0] + z[0]), ly = 0.5 * (v[1] + z[1]);
    for (int i = 0; i < 2; i++) { add(&q[i], &lost[i], 0.5 * h * (v[i] + z[i])); v[i] = z[i]; }
    double *row = out + 8 * step;
    row[0] = q[0]; row[1] = q[1]; row[2] = v[0]; row[3] = v[1]; row[4] = z[2];
    row[5] = z[2] * ly; row[6] = -z[2] * lx; row[7] = step;
    REMEMBER(3, z, past, known);
  }
  return total;
}
