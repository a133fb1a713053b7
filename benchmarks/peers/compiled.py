"""The formulas as machine code for packages that call back into Python: a small extension module made by gcc.

A call of such a function costs about as much as the call itself; Jacobians are exact, by a complex step in the same code.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np

HEAD = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>
#include <complex.h>
#include <tgmath.h>
#define DATA(i) ((double *)PyArray_DATA((PyArrayObject *)args[i]))
#define ARGUMENTS PyObject *self, PyObject *const *args, Py_ssize_t nargs
"""
FUNCTION = """
static PyObject *%(name)s(ARGUMENTS) { %(name)s_real(%(data)s); Py_RETURN_NONE; }
static PyObject *%(name)s_jacobian(ARGUMENTS) {
  double complex y[%(n)d], d[%(n)d], out[%(n)d];
  double *given = DATA(1), *slope = DATA(2), *J = DATA(%(matrix)d), cj = %(cj)s;
  for (int i = 0; i < %(n)d; i++) { y[i] = given[i]; d[i] = slope[i]; }
  for (int j = 0; j < %(n)d; j++) {
    y[j] = given[j] + 1e-30 * I;
    d[j] = slope[j] + 1e-30 * cj * I;
    %(name)s_complex(%(complex)s);
    for (int i = 0; i < %(n)d; i++) J[i * %(n)d + j] = cimag(out[i]) * 1e30;
    y[j] = given[j];
    d[j] = slope[j];
  }
  Py_RETURN_NONE;
}
"""
TAIL = """
static PyMethodDef methods[] = {%s{NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "%s", NULL, -1, methods};
PyMODINIT_FUNC PyInit_%s(void) { import_array(); return PyModule_Create(&module); }
"""


class Term:
    """A number in the C program: arithmetic on it appends a line. Common terms are left to gcc."""

    def __init__(self, lines: list[str], text: str):
        self.lines, self.text = lines, text

    def _new(self, text: str) -> Term:
        self.lines.append(f"  T t{len(self.lines)} = {text};")
        return Term(self.lines, f"t{len(self.lines) - 1}")

    def _with(self, sign: str, other, swapped: bool = False) -> Term:
        text = other.text if isinstance(other, Term) else f"({float(other)!r})"
        left, right = (text, self.text) if swapped else (self.text, text)
        return self._new(f"{left} {sign} {right}")

    def __add__(self, other):
        return self._with("+", other)

    def __mul__(self, other):
        return self._with("*", other)

    def __sub__(self, other):
        return self._with("-", other)

    def __rsub__(self, other):
        return self._with("-", other, swapped=True)

    def __truediv__(self, other):
        return self._with("/", other)

    def __rtruediv__(self, other):
        return self._with("/", other, swapped=True)

    def __neg__(self):
        return self._new(f"-{self.text}")

    __radd__, __rmul__ = __add__, __mul__


class Functions:
    """sin, cos, sqrt and tanh of terms."""

    def __getattr__(self, name: str):
        return lambda x: x._new(f"{name}({x.text})")


def body(name: str, formula, n: int, residual: bool) -> str:
    """The C function out = formula(y[, d]) for real and complex numbers."""
    lines: list[str] = []
    y, d = ([Term(lines, f"{a}[{i}]") for i in range(n)] for a in "yd")
    out = formula(y, d, Functions()) if residual else formula(y, Functions())
    store = [f"  out[{i}] = {term.text if isinstance(term, Term) else term};" for i, term in enumerate(out)]
    head = "static void %s_%s(const T *y, const T *d, T *out) {" if residual else "static void %s_%s(const T *y, T *out) {"
    kinds = (("double", "real"), ("double complex", "complex"))
    return "\n".join(
        "\n".join([f"#define T {kind}", head % (name, suffix), *lines, *store, "}", "#undef T"]) for kind, suffix in kinds
    )


def residual(formulas, constraint):
    """ẋ - differential(x, z), constraint(x, z), of y = (x, z) and d = ẏ; size: number of x."""

    def of(size: int):
        def formula(y, d, f):
            x, z = y[:size], y[size:]
            rates = formulas.differential(x, z, f)
            return [*[d[i] - rate for i, rate in enumerate(rates)], *constraint(x, z, f)]

        return formula

    return of


def source(module: str, formulas, n: int, size: int, total: int) -> str:
    """The extension module: rhs(t, y, out), full(…), index1(t, y, d, out), index2(…), the Jacobian of each."""
    jobs = [("rhs", formulas.slope, n, False), ("index1", residual(formulas, formulas.acceleration)(size), total, True)]
    if formulas.velocity is not None:
        jobs.append(("index2", residual(formulas, lambda x, z, f: formulas.velocity(x, f))(size), total, True))
    if hasattr(formulas, "full"):
        jobs.append(("full", formulas.full, size, False))
    text, table = [HEAD], []
    for name, formula, count, is_residual in jobs:
        text.append(body(name, formula, count, is_residual))
        text.append(FUNCTION % {
            "name": name, "n": count, "data": "DATA(1), DATA(2), DATA(3)" if is_residual else "DATA(1), DATA(2)",
            "matrix": 5 if is_residual else 3, "cj": "PyFloat_AsDouble(args[4])" if is_residual else "0",
            "complex": "y, d, out" if is_residual else "y, out",
        })  # fmt: skip
        signatures = ("t, y, d, out", "t, y, d, out, cj, J") if is_residual else ("t, y, out", "t, y, out, J")
        for function, signature in zip((name, f"{name}_jacobian"), signatures, strict=True):
            doc = f"{function}({signature})\\n--\\n\\n"  # the signature that packages look for
            table.append(f'{{"{function}", (PyCFunction){function}, METH_FASTCALL, "{doc}"}}, ')
    return "\n".join([*text, TAIL % ("".join(table), module, module)])


def build(module: str, code: str, folder: Path):
    """Compile and import the extension module."""
    path, library = folder / f"{module}.c", folder / f"{module}.so"
    path.write_text(code)
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    flags = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-w"]
    subprocess.run(["gcc", *flags, *include, str(path), "-o", str(library), "-lm"], check=True)
    spec = importlib.util.spec_from_file_location(module, library)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def extension_for(problem, folder: Path):
    """The extension module of a problem; None, and a line that says so, without gcc or Python's headers."""
    if shutil.which("gcc") is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        print("  gcc or Python.h not installed: skipped")
        return None
    size = len(problem.x0)
    return build(
        problem.name, source(problem.name, problem.formulas, len(problem.y0), size, size + problem.multipliers), folder
    )
