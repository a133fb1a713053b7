/* The form discrete_gradient of order 2 on the contact oscillator in a magnetic field (`magnetic` of long_run.py), in the
   precision that is given: what its energy gains is rounding.

     gcc -O2 -DREAL=double gradient.c -lm -o gradient && ./gradient 1e7
     gcc -O2 -DREAL="long double" gradient.c -lm -o gradient && ./gradient 1e7

   v and q are summed as they are, without compensation. Prints, relative to the energy: its largest error, and what the least
   squares line through the means of 100 blocks gains over the run, with the standard error of correlated residuals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
typedef REAL real;
static const real POINT[3] = {0.L, 0.26923465505284154551815721035L, 0.45308992296933199639881343915L};
static const real WEIGHT[3] = {0.28444444444444444444444444444L, 0.23931433524968323402064575742L, 0.11846344252809454375713202036L};

static void mean_force(const real *q, const real *way, real *f) {
  f[0] = f[1] = f[2] = 0;
  for (int k = -2; k <= 2; k++) {
    real share = 0.5L + (k < 0 ? -POINT[-k] : POINT[k]), weight = WEIGHT[abs(k)];
    real x = q[0] + share * way[0], y = q[1] + share * way[1], z = q[2] + share * way[2];
    real c = 0.3L * cosl(x + 2 * y + 3 * z + 0.5L);
    f[0] -= weight * (x + c), f[1] -= weight * (y + 2 * c), f[2] -= weight * (z + 3 * c);
  }
}

static long double energy(const real *q, const real *v) {
  long double sum = 0.3L * sinl((long double)q[0] + 2 * (long double)q[1] + 3 * (long double)q[2] + 0.5L);
  for (int i = 0; i < 3; i++) sum += 0.5L * ((long double)v[i] * v[i] + (long double)q[i] * q[i]);
  return sum;
}

int main(int count, char **words) {
  long steps = count > 1 ? (long)atof(words[1]) : 1000000, block = steps / 100;
  real h = 0.05L, q[3] = {1, 0, 0}, v[3] = {0, 1, 0}, change[3] = {0};
  long double first = energy(q, v), largest = 0, mean[100], all = 0;
  for (int b = 0; b < 100; b++) {
    mean[b] = 0;
    for (long step = 0; step < block; step++) {
      real way[3];
      for (int again = 0; again < 40; again++) { /* fixed points: a contraction by h */
        real w[3], f[3], moved = 0;
        for (int i = 0; i < 3; i++) w[i] = v[i] + 0.5L * change[i], way[i] = h * w[i];
        mean_force(q, way, f);
        f[0] += 0.8L * w[1], f[1] += 0.3L * w[2] - 0.8L * w[0], f[2] -= 0.3L * w[1]; /* the curl of the field */
        real row[3] = {1, 0.25L * h * change[2], q[1] + 0.5L * way[1]}, after = q[1] + way[1];
        real impulse = -(v[0] + h * f[0] + after * (v[2] + h * f[2])) / (1 + after * row[2]);
        for (int i = 0; i < 3; i++) {
          real next = h * f[i] + row[i] * impulse;
          moved = fmaxl(moved, fabsl(next - change[i]));
          change[i] = next;
        }
        if (moved < 1e-21L) break;
      }
      for (int i = 0; i < 3; i++) q[i] += way[i], v[i] += change[i];
      if (step % 100 == 0) {
        long double error = energy(q, v) - first;
        mean[b] += error / ((block + 99) / 100);
        largest = fmaxl(largest, fabsl(error));
      }
    }
    all += mean[b] / 100;
  }
  long double line = 0, rest = 0, next = 0, squares = 83325; /* sum of (b - 49.5)^2 */
  for (int b = 0; b < 100; b++) line += (b - 49.5L) * mean[b] / squares;
  for (int b = 0; b < 100; b++) {
    long double left = mean[b] - all - line * (b - 49.5L), before = b ? mean[b - 1] - all - line * (b - 50.5L) : 0;
    rest += left * left, next += left * before;
  }
  long double correlation = fminl(fmaxl(next / rest, 0), 0.99L);
  long double error = sqrtl(rest / 98 / squares * (1 + correlation) / (1 - correlation));
  printf("largest error %.1Le, drift %.1Le +- %.0Le\n", largest / first, 100 * line / first, 100 * error / first);
}
