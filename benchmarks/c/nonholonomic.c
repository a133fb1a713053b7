/* Particle in a harmonic potential with dz = y dx: drift-kick-drift, unknowns (v', lambda), constraint at the middle.
   Parameter: c of the potential c (x^2 + y^2)/2. */
#include "common.h"
DEFINE_SOLVE(4)

long nonholonomic(long steps, double h, double tol, const double *p, const double *q0, const double *v0, double *out) {
  double q[3], lost[3] = {0}, v[3], past[4][4] = {{0}};
  memcpy(q, q0, sizeof q);
  memcpy(v, v0, sizeof v);
  long total = 0, known = 0;
  for (long step = 0; step < steps; step++) {
    double z[4] = {v[0], v[1], v[2], 0};
    if (known) PREDICT(4, z, past, known);
    double n[3]; /* the node between the two half drifts */
    for (int i = 0; i < 3; i++) n[i] = q[i] + 0.5 * h * v[i];
    for (int it = 0; it < MAX_ITERATIONS; it++) {
      double y = n[1] + 0.5 * h * z[1], f[2];
      for (int i = 0; i < 2; i++) f[i] = 0.5 * p[0] * ((n[i] - 0.5 * h * v[i]) + (n[i] + 0.5 * h * z[i]));
      double c = 1 + 0.25 * p[0] * h * h;
      double b[4] = {v[0] - z[0] - h * f[0] - h * z[3] * n[1], v[1] - z[1] - h * f[1], v[2] - z[2] + h * z[3],
                     z[2] - y * z[0]};
      double A[4][4] = {{-c, 0, 0, -h * n[1]}, {0, -c, 0, 0}, {0, 0, -1, h}, {-y, -0.5 * h * z[0], 1, 0}};
      solve4(A, b);
      double size = 0, most = 0;
      for (int i = 0; i < 4; i++) z[i] -= b[i];
      for (int i = 0; i < 3; i++) {
        size = dmax(size, fabs(b[i]));
        most = dmax(most, dmax(fabs(z[i]), fabs(v[i])));
      }
      total++;
      if (size <= tol * most) break;
    }
    for (int i = 0; i < 3; i++) { add(&q[i], &lost[i], 0.5 * h * (v[i] + z[i])); v[i] = z[i]; }
    double *row = out + 11 * step;
    for (int i = 0; i < 3; i++) { row[i] = q[i]; row[3 + i] = v[i]; }
    row[6] = z[3];
    row[7] = -z[3] * n[1]; row[8] = 0; row[9] = z[3]; row[10] = step;
    REMEMBER(4, z, past, known);
  }
  return total;
}
