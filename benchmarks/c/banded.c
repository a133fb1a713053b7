/* Gaussian elimination with partial pivoting of a banded matrix by rows, W numbers each: row r holds the columns
   r - LOWER ... r + UPPER + LOWER. The right-hand side is eliminated together with the matrix. */
#include <math.h>

#define W (2 * LOWER + UPPER + 1)
#define REACH (LOWER + UPPER + 1)

long banded(long n, double *restrict a, double *restrict b) {
    for (long c = 0; c < n; c++) {
        long last = c + LOWER < n - 1 ? c + LOWER : n - 1, p = c;
        double best = fabs(a[c * W + LOWER]);
        for (long r = c + 1; r <= last; r++) {
            double size = fabs(a[r * W + LOWER + c - r]);
            if (size > best) { best = size; p = r; }
        }
        if (best == 0) return c + 1;
        double *pivot = a + c * W + LOWER;
        if (p != c) {
            double *row = a + p * W + LOWER + c - p, t;
            for (int j = 0; j < REACH; j++) { t = pivot[j]; pivot[j] = row[j]; row[j] = t; }
            t = b[c]; b[c] = b[p]; b[p] = t;
        }
        double inverse = 1 / pivot[0];
        for (long r = c + 1; r <= last; r++) {
            double *row = a + r * W + LOWER + c - r, factor = row[0];
            if (factor == 0) continue;
            factor *= inverse;
            row[0] = factor;
            for (int j = 1; j < REACH; j++) row[j] -= factor * pivot[j];
            b[r] -= factor * b[c];
        }
    }
    for (long c = n - 1; c >= 0; c--) {
        double *pivot = a + c * W + LOWER, sum = b[c];
        long reach = n - c < REACH ? n - c : REACH;
        for (int j = 1; j < reach; j++) sum -= pivot[j] * b[c + j];
        b[c] = sum / pivot[0];
    }
    return 0;
}
