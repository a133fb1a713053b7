/* Free rigid body on SO(3), l = 1/2 w.Iw, I diagonal: drift-kick-drift with Cayley's map, unknown w;
   p+(v) = (1 - y^ + yy'/2 - |y|^2/4) Iv with y = hv/2, and p-(w) = p+ with y = -hw/2. Parameters: I. */
#include "common.h"
DEFINE_SOLVE(3)

static inline void cross(const double *a, const double *b, double *c) {
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}

/* q += q (tau(kv) - 1), to first order back to length 1 if last */
static inline void turn(double *q, double *way, const double *v, double k) {
  double s = 0.25 * k * k * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), root = sqrt(1 + s);
  double d0 = -s / (root * (1 + root)), f = 0.5 * k / root, d[3], c[3], x[4];
  for (int i = 0; i < 4; i++) x[i] = q[i] + way[i];
  for (int i = 0; i < 3; i++) d[i] = f * v[i];
  cross(x + 1, d, c);
  way[0] += x[0] * d0 - (x[1] * d[0] + x[2] * d[1] + x[3] * d[2]);
  for (int i = 0; i < 3; i++) way[i + 1] += x[0] * d[i] + d0 * x[i + 1] + c[i];
}

long rigid_body(long steps, double h, double tol, const double *I, const double *q0, const double *v0, double *out) {
  double q[4], lost[4] = {0}, v[3], past[4][3] = {{0}}, A[3][3], b[3], k = 0.5 * h;
  memcpy(q, q0, sizeof q);
  memcpy(v, v0, sizeof v);
  long total = 0, known = 0;
  for (long step = 0; step < steps; step++) {
    double z[3], left[3], m[3], c[3], way[4] = {0};
    memcpy(z, v, sizeof v);
    if (known) PREDICT(3, z, past, known);
    for (int i = 0; i < 3; i++) m[i] = I[i] * v[i];
    cross(v, m, c);
    double e = v[0] * m[0] + v[1] * m[1] + v[2] * m[2], s = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    for (int i = 0; i < 3; i++) left[i] = m[i] - k * c[i] + 0.5 * k * k * e * v[i] - 0.25 * k * k * s * m[i];
    for (int it = 0; it < MAX_ITERATIONS; it++) {
      for (int i = 0; i < 3; i++) m[i] = I[i] * z[i];
      cross(z, m, c);
      e = z[0] * m[0] + z[1] * m[1] + z[2] * m[2];
      s = z[0] * z[0] + z[1] * z[1] + z[2] * z[2];
      for (int i = 0; i < 3; i++) {
        b[i] = m[i] + k * c[i] + 0.5 * k * k * e * z[i] - 0.25 * k * k * s * m[i] - left[i];
        for (int j = 0; j < 3; j++) A[i][j] = k * k * (z[i] * m[j] - 0.5 * m[i] * z[j]);
        A[i][i] += I[i] + 0.5 * k * k * e - 0.25 * k * k * s * I[i];
      }
      A[0][1] += k * (m[2] - z[2] * I[1]); A[0][2] += k * (-m[1] + z[1] * I[2]);
      A[1][0] += k * (-m[2] + z[2] * I[0]); A[1][2] += k * (m[0] - z[0] * I[2]);
      A[2][0] += k * (m[1] - z[1] * I[0]); A[2][1] += k * (-m[0] + z[0] * I[1]);
      solve3(A, b);
      double size = 0, most = 0;
      for (int i = 0; i < 3; i++) {
        z[i] -= b[i];
        size = dmax(size, fabs(b[i]));
        most = dmax(most, dmax(fabs(z[i]), fabs(v[i])));
      }
      total++;
      if (size <= tol * most) break;
    }
    turn(q, way, v, k);
    turn(q, way, z, k);
    double x[4], off = -1;
    for (int i = 0; i < 4; i++) { x[i] = q[i] + way[i]; off += x[i] * x[i]; }
    double *row = out + 11 * step;
    for (int i = 0; i < 4; i++) { add(&q[i], &lost[i], way[i] - 0.5 * off * x[i]); row[i] = q[i]; }
    for (int i = 0; i < 3; i++) { row[4 + i] = v[i] = z[i]; row[7 + i] = 0; }
    row[10] = step;
    REMEMBER(3, z, past, known);
  }
  return total;
}
