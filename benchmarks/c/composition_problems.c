/* Compositions of the base step for L = |v|^2/2 - V(q) with one linear constraint mu(q) v = 0, for any V: errors are wanted,
   not times. The forces at the end of a base step are found by fixed point iteration to rounding; positions are summed with
   compensation. problem 0: contact oscillator, V = |q|^2/2 + eps x^2 z^2/2, mu = (1, 0, y); 1: nonholonomic particle,
   V = (x^2 + y^2)/2 + eps (x^4 + y^4)/4, mu = (-y, 0, 1). state: q, v, replaced. */
#include <math.h>
#define MOST_ITERATIONS 60

static void slopes(long problem, double eps, const double *q, double *g) {
  if (problem == 0) {
    g[0] = q[0] + eps * q[0] * q[2] * q[2]; g[1] = q[1]; g[2] = q[2] + eps * q[0] * q[0] * q[2];
  } else {
    g[0] = q[0] + eps * q[0] * q[0] * q[0]; g[1] = q[1] + eps * q[1] * q[1] * q[1]; g[2] = 0;
  }
}

static void constraint(long problem, const double *q, double *mu) {
  mu[0] = problem == 0 ? 1 : -q[1]; mu[1] = 0; mu[2] = problem == 0 ? q[1] : 1;
}

/* The velocity after a base step, from the node between and the forces before. */
static void kick(long problem, double eps, double h, const double *node, const double *before, const double *v, double *w) {
  double mu1[3], mu2[3], after[3], end[3], free[3];
  constraint(problem, node, mu1);
  for (int i = 0; i < 3; i++) w[i] = v[i];
  for (int iteration = 0; iteration < MOST_ITERATIONS; iteration++) {
    double left = 0, pull = 0, change = 0;
    for (int i = 0; i < 3; i++) end[i] = node[i] + 0.5 * h * w[i];
    slopes(problem, eps, end, after);
    constraint(problem, end, mu2);
    for (int i = 0; i < 3; i++) {
      free[i] = v[i] - 0.5 * h * (before[i] + after[i]);
      left += mu2[i] * free[i];
      pull += mu2[i] * mu1[i];
    }
    for (int i = 0; i < 3; i++) {
      double next = free[i] - left / pull * mu1[i];
      change = fmax(change, fabs(next - w[i]));
      w[i] = next;
    }
    if (change < 1e-16) break;
  }
}

void composed(long problem, double eps, long steps, long stages, double h, const double *gamma, double *state) {
  double *q = state, *v = state + 3, lost[3] = {0}, node[3], before[3], w[3];
  for (long step = 0; step < steps; step++)
    for (long s = 0; s < stages; s++) {
      double k = gamma[s] * h;
      for (int i = 0; i < 3; i++) node[i] = q[i] + 0.5 * k * v[i];
      slopes(problem, eps, q, before);
      kick(problem, eps, k, node, before, v, w);
      for (int i = 0; i < 3; i++) {
        double d = 0.5 * k * (v[i] + w[i]) + lost[i], sum = q[i] + d;
        lost[i] = d - (sum - q[i]);
        q[i] = sum;
        v[i] = w[i];
      }
    }
}
