/* Inertia wheel pendulum with a Lyapunov constraint: drift-kick-drift with the trapezoidal action, so that forces and the
   constraint are those at the node between the half drifts. With s = sin(theta), w = sin(psi - n theta) there,
     phi0 = l(v) + rho u tanh u,  l = (f p1 + g p2) M s + chi w (psi' - n theta') + (M e/d) s theta',
   u = g p1 + h p2 and lambda = -phi0/u. Parameters: I, J, M, d, e, chi, n, rho. */
#include "common.h"
DEFINE_SOLVE(3)

typedef struct { double I, J, M, d, e, chi, n, rho, g, h, f, u0, u1; } wheel;

static wheel gains(const double *p) {
  wheel x = {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], 0, 0, 0, 0, 0};
  double a = 1 / x.I, b = -1 / x.I, c = 1 / x.I + 1 / x.J, det = a * c - b * b;
  x.h = x.d * (x.n * b - c) / det;
  x.g = x.d * (x.n * a - b) / det;
  x.f = (x.g * x.g + x.e) / x.h;
  x.u0 = x.g * (x.I + x.J) + x.h * x.J; /* u = u0 theta' + u1 psi' */
  x.u1 = (x.g + x.h) * x.J;
  return x;
}

static void save(double *row, const double *q, const double *v, double lambda, long step) {
  row[0] = q[0]; row[1] = q[1]; row[2] = v[0]; row[3] = v[1];
  row[4] = lambda; row[5] = 0; row[6] = lambda; row[7] = step;
}

/* Unknowns (v', lambda), the quotient -phi0/u as it stands. Where u is lost in rounding, l/u is continued along grad u. */
long wheel_dense(long steps, double h, double tol, const double *p, const double *q0, const double *v0, double *out) {
  const wheel x = gains(p);
  double q[2] = {q0[0], q0[1]}, lost[2] = {0}, v[2] = {v0[0], v0[1]}, past[4][3] = {{0}}, before = 0;
  long total = 0, known = 0, crossings = 0;
  for (long step = 0; step < steps; step++) {
    double z[3] = {v[0], v[1], 0}, u = 0;
    if (known) PREDICT(3, z, past, known);
    double theta = q[0] + 0.5 * h * v[0], psi = q[1] + 0.5 * h * v[1];
    double s = sin(theta), w = sin(psi - x.n * theta), pull = x.M * s;
    double l0 = (x.f * (x.I + x.J) + x.g * x.J) * pull - x.chi * w * x.n + x.M * x.e / x.d * s;
    double l1 = (x.f + x.g) * x.J * pull + x.chi * w;
    for (int it = 0; it < MAX_ITERATIONS; it++) {
      double a = 0.5 * (v[0] + z[0]), b = 0.5 * (v[1] + z[1]);
      u = x.u0 * a + x.u1 * b;
      double l = l0 * a + l1 * b, t = tanh(u), slope = x.rho * (1 - t * t), ratio, r0 = 0, r1 = 0;
      if (fabs(u) < 2e-4 * (fabs(x.u0 * a) + fabs(x.u1 * b))) {
        ratio = (l0 * x.u0 + l1 * x.u1) / (x.u0 * x.u0 + x.u1 * x.u1);
      } else {
        double iu = 1 / u;
        ratio = l * iu;
        r0 = (l0 - ratio * x.u0) * iu;
        r1 = (l1 - ratio * x.u1) * iu;
      }
      double B[3] = {(x.I + x.J) * (v[0] - z[0]) + x.J * (v[1] - z[1]) + h * pull,
                     x.J * (v[0] - z[0] + v[1] - z[1]) + h * z[2], z[2] + ratio + x.rho * t};
      double A[3][3] = {{-(x.I + x.J), -x.J, 0}, {-x.J, -x.J, h},
                        {0.5 * (r0 + slope * x.u0), 0.5 * (r1 + slope * x.u1), 1}};
      solve3(A, B);
      double size = 0, most = dmax(fabs(v[0]), fabs(v[1]));
      for (int i = 0; i < 3; i++) z[i] -= B[i];
      for (int i = 0; i < 2; i++) { size = dmax(size, fabs(B[i])); most = dmax(most, fabs(z[i])); }
      total++;
      if (size <= tol * most) break;
    }
    crossings += u * before < 0;
    before = u;
    for (int i = 0; i < 2; i++) { add(&q[i], &lost[i], 0.5 * h * (v[i] + z[i])); v[i] = z[i]; }
    save(out + 8 * step, q, v, z[2], step);
    REMEMBER(3, z, past, known);
  }
  return crossings < 0 ? crossings : total;
}

/* u divided out on paper, lambda = -(K + rho tanh u), and the equations of motion solved for u, one equation:
   u - fixed + (h/2) h_c (K + rho tanh u) = 0. u is what is extrapolated: lambda is less smooth. */
long wheel_reduced(long steps, double h, double tol, const double *p, const double *q0, const double *v0, double *out) {
  const wheel x = gains(p);
  double q[2] = {q0[0], q0[1]}, lost[2] = {0}, v[2] = {v0[0], v0[1]}, past[4][1] = {{0}}, before = 0;
  double along = x.M * (x.g - x.e / (x.I * x.d)) / x.h, across = x.chi / (x.I * x.J * x.d), gain = 0.5 * h * x.h;
  double iI = 1 / x.I, iJ = 1 / x.J, push = h * (iI + iJ) / gain;
  long total = 0, known = 0, crossings = 0;
  for (long step = 0; step < steps; step++) {
    double u[1] = {x.u0 * v[0] + x.u1 * v[1]};
    if (known) PREDICT(1, u, past, known);
    double theta = q[0] + 0.5 * h * v[0], psi = q[1] + 0.5 * h * v[1];
    double s = sin(theta), pull = x.M * s, K = along * s - across * sin(psi - x.n * theta);
    double fixed = x.u0 * v[0] + x.u1 * v[1] + 0.5 * h * x.g * pull, lambda, first, second;
    for (int it = 0; it < MAX_ITERATIONS; it++) {
      double t = tanh(u[0]), update = (u[0] - fixed + gain * (K + x.rho * t)) / (1 + gain * x.rho * (1 - t * t));
      u[0] -= update;
      lambda = (u[0] - fixed) / gain;
      first = h * iI * (pull - lambda);
      second = h * iJ * lambda - first;
      double most = dmax(dmax(fabs(v[0]), fabs(v[1])), dmax(fabs(v[0] + first), fabs(v[1] + second)));
      total++;
      if (push * fabs(update) <= tol * most) break;
    }
    crossings += u[0] * before < 0;
    before = u[0];
    add(&q[0], &lost[0], h * (v[0] + 0.5 * first));
    add(&q[1], &lost[1], h * (v[1] + 0.5 * second));
    v[0] += first;
    v[1] += second;
    save(out + 8 * step, q, v, lambda, step);
    REMEMBER(1, u, past, known);
  }
  return crossings < 0 ? crossings : total;
}
