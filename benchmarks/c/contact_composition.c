/* Contact oscillator, L = |v|^2/2 - |q|^2/2, dx + y dz = 0: symmetric compositions of the base step of order 2
     q1 = q + h/2 v,  v' = v - h/2 (q + q') + h lambda mu(q1),  q' = q1 + h/2 v',  mu(q') v' = 0,  mu = (1, 0, y).

   y decouples: the trapezoidal rule, a rotation of (y, vy). With a = (1-h^2/4)/(1+h^2/4), b = h/(1+h^2/4), which are constants
   of a stage, and y1, y' known, what is left is linear; on the constraint it reduces to one unknown:
     vz' = (w_z - y1 w_x)/(1 + y1 y'),  vx' = -y' vz',  w = a v - b q.
   Every function returns the number of base steps. state: x, y, z, vx, vy, vz, replaced. gamma: (stages,). The state of the
   end only is wanted, as from simulate(save_every=None). */
#include <math.h>
#define MOST 64
#ifndef STAGES /* given, the stages of a step are written out */
#define STAGES 0
#endif

typedef struct { double half, a, b; } Stage;

static int prepare(Stage *stage, int stages, double h, const double *gamma) {
  for (int s = 0; s < stages; s++) {
    double k = gamma[s] * h, d = 1 / (1 + 0.25 * k * k);
    stage[s] = (Stage){0.5 * k, (1 - 0.25 * k * k) * d, k * d};
  }
  return stages;
}

/* As it is written first: lambda from one linear equation, all three velocities. With rounded a and b the rotation of (y, vy)
   is not of determinant one, and the error it leaves grows with time. */
long plain(long steps, int stages, double h, const double *gamma, double *state) {
  Stage stage[MOST];
  prepare(stage, stages, h, gamma);
  double x = state[0], y = state[1], z = state[2], vx = state[3], vy = state[4], vz = state[5];
  for (long step = 0; step < steps; step++)
    for (int s = 0; s < stages; s++) {
      double half = stage[s].half, a = stage[s].a, b = stage[s].b;
      double y1 = y + half * vy, wy = a * vy - b * y, y2 = y1 + half * wy;
      double wx = a * vx - b * x, wz = a * vz - b * z;
      double force = (wx + y2 * wz) / (1 + y1 * y2);
      double ux = wx - force, uz = wz - force * y1;
      x += half * (vx + ux);
      z += half * (vz + uz);
      y = y2; vx = ux; vy = wy; vz = uz;
    }
  double end[6] = {x, y, z, vx, vy, vz};
  for (int i = 0; i < 6; i++) state[i] = end[i];
  return steps * stages;
}

/* The same in a better order: all is written about the node between, w = v - b q1 and q' = q1 + h/2 v', which makes the motion
   of (y, vy) a product of shears, of determinant one however b is rounded; and the quotient is taken before x and z need it. */
long ordered(long steps, int stages, double h, const double *gamma, double *state) {
  Stage stage[MOST];
  prepare(stage, stages, h, gamma);
  const int count = STAGES ? STAGES : stages;
  double x = state[0], y = state[1], z = state[2], vx = state[3], vy = state[4], vz = state[5];
  for (long step = 0; step < steps; step++)
    for (int s = 0; s < count; s++) {
      double half = stage[s].half, b = stage[s].b;
      double x1 = x + half * vx, y1 = y + half * vy, z1 = z + half * vz;
      vy -= b * y1;
      y = y1 + half * vy;
      double over = 1 / (1 + y1 * y), wx = vx - b * x1, wz = vz - b * z1;
      double force = (wx + y * wz) * over;
      vx = wx - force;
      vz = wz - force * y1;
      x = x1 + half * vx;
      z = z1 + half * vz;
    }
  double end[6] = {x, y, z, vx, vy, vz};
  for (int i = 0; i < 6; i++) state[i] = end[i];
  return steps * stages;
}

/* The same with what rounding cuts off positions and velocities kept. */
#define ADD(q, d) { double total = (d) + lost_##q, sum = q + total; lost_##q = total - (sum - q); q = sum; }
long compensated(long steps, int stages, double h, const double *gamma, double *state) {
  Stage stage[MOST];
  prepare(stage, stages, h, gamma);
  double x = state[0], y = state[1], z = state[2], vx = state[3], vy = state[4], vz = state[5];
  double lost_x = 0, lost_y = 0, lost_z = 0, lost_vy = 0, lost_vz = 0;
  for (long step = 0; step < steps; step++)
    for (int s = 0; s < stages; s++) {
      double half = stage[s].half, b = stage[s].b;
      double y1 = y + half * vy, y2;
      double dvy = -b * y1, dwx = -b * (x + half * vx), dwz = -b * (z + half * vz); /* a v - b q = v - b (q + h/2 v) */
      double old_x = vx, old_y = vy, old_z = vz;
      ADD(vy, dvy)
      ADD(y, half * (old_y + vy))
      y2 = y;
      double force = ((old_x + dwx) + y2 * (old_z + dwz)) / (1 + y1 * y2);
      ADD(vz, dwz - force * y1)
      vx = -y2 * vz;
      ADD(x, half * (old_x + vx))
      ADD(z, half * (old_z + vz))
    }
  double end[6] = {x, y, z, vx, vy, vz};
  for (int i = 0; i < 6; i++) state[i] = end[i];
  return steps * stages;
}

/* Reduced by hand: x and z are kept at the nodes between the two halves of a step, where two half drifts make one, and the
   new vz is written with those of the node before, which are known earlier:
     w_z - y1 w_x = (1 - b d)(1 + y1 y) vz + b (y1 x - z),  d the time from node to node.
   The quotient and all that y is needed for do not wait for vz; from vz to vz it is one operation, from y1 to y1 two. */
long reduced(long steps, int stages, double h, const double *gamma, double *state) {
  Stage stage[MOST];
  prepare(stage, stages, h, gamma);
  const int count = STAGES ? STAGES : stages;
  double x = state[0], y = state[1], z = state[2], vy = state[4], vz = state[5];
  double drift[MOST], factor[MOST], to_next[MOST];
  for (int s = 0; s < count; s++) {
    drift[s] = stage[s].half + stage[s ? s - 1 : count - 1].half;
    to_next[s] = stage[s].half + stage[s + 1 < count ? s + 1 : 0].half;
    factor[s] = 1 - stage[s].b * drift[s];
  }
  double y1 = y + stage[0].half * vy;
  drift[0] = stage[0].half;
  factor[0] = 1 - stage[0].b * drift[0];
  for (long step = 0; step < steps; step++) {
#pragma GCC unroll 64
    for (int s = 0; s < count; s++) {
      double b = stage[s].b;
      vy -= b * y1;
      double y2 = y1 + stage[s].half * vy, over = 1 / (1 + y1 * y2);
      double new = over * (factor[s] * (1 + y1 * y)) * vz + (over * b) * (y1 * x - z);
      x -= drift[s] * y * vz;
      z += drift[s] * vz;
      vz = new;
      y = y2;
      y1 += to_next[s] * vy;
    }
    drift[0] = to_next[count - 1];
    factor[0] = 1 - stage[0].b * drift[0];
  }
  double half = stage[count - 1].half;
  double end[6] = {x - half * y * vz, y, z + half * vz, -y * vz, vy, vz};
  for (int i = 0; i < 6; i++) state[i] = end[i];
  return steps * stages;
}
