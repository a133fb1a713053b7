"""Functions of NumPy's, SciPy's and JAX's vocabulary, of four numbers each, as a user may write them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

import dalembert  # noqa: F401  turns 64 bit mode on

T = jnp.array([1.5, 2.5, 0.5, -3.0, 4.0])
M = jnp.array([[2.0, 0.3, -0.7, 0.1], [0.4, -1.1, 0.2, 0.5], [-0.3, 0.8, 0.6, 1.7], [1.2, 0.9, -0.4, 0.3]])


def spd(x):
    """A positive definite matrix that depends on x."""
    return jnp.outer(jnp.sin(x), jnp.sin(x)) + M @ M.T


def at(x):
    """Integers that move with x, inside and outside of what they index."""
    return jnp.floor(3 * x).astype(int)


def whole(x, kind):
    """Integers of another type."""
    return at(x).astype(kind)


CONTINUOUS = {  # functions of real numbers
    **{name: getattr(jnp, name) for name in (
        "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "exp", "exp2", "expm1", "cbrt",
        "square", "negative", "positive", "abs", "fabs", "reciprocal", "sinc", "deg2rad", "rad2deg", "i0",
    )},
    **{f.__name__: lambda x, f=f: f(0.9 * jnp.sin(x)) for f in (jnp.arcsin, jnp.arccos, jnp.arctanh)},
    **{f.__name__: lambda x, f=f: f(1.1 + x * x) for f in (jnp.log, jnp.log2, jnp.log10, jnp.log1p, jnp.sqrt, jnp.arccosh)},
    "hypot": lambda x: jnp.hypot(x, x[::-1]), "logaddexp": lambda x: jnp.logaddexp(x, x[::-1]),
    "arctan2": lambda x: jnp.arctan2(x, 1.5), "power": lambda x: jnp.power(jnp.abs(x) + 0.5, x),
    "float_power": lambda x: jnp.float_power(jnp.abs(x) + 0.5, 1.7),
    "integer powers": lambda x: x**2 - x**5 + (x + 5) ** -2, "ldexp": lambda x: jnp.ldexp(x, jnp.array([1, -2, 3, 0])),
    "sum": jnp.sum, "prod": jnp.prod, "mean": jnp.mean, "var": jnp.var, "std": jnp.std, "max": jnp.max, "min": jnp.min,
    "ptp": jnp.ptp, "norm": jnp.linalg.norm, "norm 1": lambda x: jnp.linalg.norm(x, 1),
    "average": lambda x: jnp.average(x, weights=T[:4] ** 2), "cumsum": jnp.cumsum, "cumprod": jnp.cumprod,
    "cummax": lax.cummax, "cummin": lax.cummin, "logsumexp": jsp.special.logsumexp, "cumlogsumexp": lax.cumlogsumexp,
    "maximum": lambda x: jnp.maximum(x, x[::-1]), "minimum": lambda x: jnp.minimum(x, 0.2),
    "clip": lambda x: jnp.clip(x, -0.5, 0.5), "relu": jax.nn.relu, "softplus": jax.nn.softplus, "silu": jax.nn.silu,
    "gelu": jax.nn.gelu, "sigmoid": jax.nn.sigmoid, "softmax": jax.nn.softmax, "elu": jax.nn.elu,
    "leaky_relu": jax.nn.leaky_relu, "log_softmax": jax.nn.log_softmax, "hard_tanh": jax.nn.hard_tanh,
    "erf": jsp.special.erf, "erfc": jsp.special.erfc, "erfinv": lambda x: jsp.special.erfinv(0.9 * jnp.sin(x)),
    "gammaln": lambda x: jsp.special.gammaln(1.5 + x * x), "digamma": lambda x: jsp.special.digamma(1.5 + x * x),
    "gammainc": lambda x: jsp.special.gammainc(1.5, x * x),
    "betainc": lambda x: jsp.special.betainc(1.5, 2.5, jnp.sin(x) ** 2), "xlogy": lambda x: jsp.special.xlogy(x, 1 + x * x),
    "ndtr": jsp.special.ndtr, "i0e": jsp.special.i0e, "i1e": jsp.special.i1e,
    "reshape": lambda x: x.reshape(2, 2).T.ravel(), "roll": lambda x: jnp.roll(x, 1), "flip": jnp.flip,
    "tile": lambda x: jnp.tile(x, 2), "rot90": lambda x: jnp.rot90(x.reshape(2, 2)), "repeat": lambda x: jnp.repeat(x, 2),
    "stack": lambda x: jnp.stack([x, 2 * x], 1), "split": lambda x: jnp.split(x, 2)[1],
    "pad": lambda x: jnp.pad(x, 2, mode="reflect"), "diff": jnp.diff, "gradient": jnp.gradient,
    "meshgrid": lambda x: jnp.meshgrid(x[:2], x[2:])[1], "diag": jnp.diag, "tril": lambda x: jnp.tril(jnp.outer(x, x)),
    "trace": lambda x: jnp.trace(spd(x)), "kron": lambda x: jnp.kron(x[:2], x),
    "einsum": lambda x: jnp.einsum("i,ij,j", x, M, x), "tensordot": lambda x: jnp.tensordot(spd(x), M),
    "cross": lambda x: jnp.cross(x[:3], x[1:]), "vander": jnp.vander, "convolve": lambda x: jnp.convolve(x, T),
    "polyval": lambda x: jnp.polyval(T, x), "matmul": lambda x: M @ x, "vmap": lambda x: jax.vmap(lambda a: a * x)(x),
    "jit": jax.jit(lambda x: x + jnp.sin(x)), "checkpoint": jax.checkpoint(jnp.sin),
    "solve": lambda x: jnp.linalg.solve(spd(x), x), "inv": lambda x: jnp.linalg.inv(spd(x)),
    "det": lambda x: jnp.linalg.det(spd(x)), "slogdet": lambda x: jnp.linalg.slogdet(spd(x))[1],
    "cholesky": lambda x: jnp.linalg.cholesky(spd(x)),
    "cho_solve": lambda x: jsp.linalg.cho_solve(jsp.linalg.cho_factor(spd(x)), x),
    "matrix_power": lambda x: jnp.linalg.matrix_power(spd(x), 3), "eigh": lambda x: jnp.linalg.eigvalsh(spd(x)),
    "qr": lambda x: jnp.linalg.qr(spd(x))[1], "svd": lambda x: jnp.linalg.svd(spd(x))[1],
    "pinv": lambda x: jnp.linalg.pinv(spd(x)), "expm": lambda x: jsp.linalg.expm(0.1 * spd(x)),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y + jnp.cos(y) * i, x),
    "scan": lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x)[1], "map": lambda x: lax.map(jnp.sin, x),
    "associative_scan": lambda x: lax.associative_scan(jnp.multiply, x),
    "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID"), "sort": jnp.sort,
    "median": jnp.median, "quantile": lambda x: jnp.quantile(x, 0.3), "top_k": lambda x: lax.top_k(x, 2)[0],
    "interp": lambda x: jnp.interp(x, jnp.arange(5.0), T), "fft": lambda x: jnp.abs(jnp.fft.fft(x)) ** 2,
    "set": lambda x: x.at[1].set(5.0), "add at": lambda x: x.at[np.array([2, 2])].add(x[:2]),
    "max at": lambda x: x.at[3].max(2.0), "stop_gradient": lambda x: lax.stop_gradient(x) * x,
}  # fmt: skip

JUMPING = {  # with truth values, integers, choices
    **{name: getattr(jnp, name) for name in (
        "sign", "floor", "ceil", "trunc", "rint", "round", "isnan", "isinf", "isfinite", "argmax", "argmin",
        "count_nonzero", "signbit", "nan_to_num", "nanmax", "nansum", "nanargmin", "argsort",
    )},
    "fmax": lambda x: jnp.fmax(x, x[::-1]), "mod": lambda x: jnp.mod(x, 0.4), "fmod": lambda x: jnp.fmod(x, -0.4),
    "floor_divide": lambda x: x // 0.3, "divmod": lambda x: jnp.divmod(x, -0.3), "modf": jnp.modf, "frexp": jnp.frexp,
    "copysign": lambda x: jnp.copysign(x, x[::-1]), "heaviside": lambda x: jnp.heaviside(x, 0.5),
    "nextafter": lambda x: jnp.nextafter(x, 9.0), "all": lambda x: jnp.all(x > -2), "any": lambda x: jnp.any(x > 1.2),
    "where": lambda x: jnp.where((x > 0) & ~(x > 1), x, -2 * x), "xor": lambda x: (x > 0) ^ (x < 1),
    "select": lambda x: jnp.select([x > 1, x > 0], [x, 2 * x], -1.0),
    "select of integers": lambda x: jnp.select([x > 1, x > 0], [at(x), 2 * at(x)], 7),
    "compare truth": lambda x: (x > 0) >= (x > 1), "sum of truth": lambda x: jnp.sum(x > 0),
    "max of truth": lambda x: jnp.max(x > 0), "cumsum of truth": lambda x: jnp.cumsum(x > 0),
    "piecewise": lambda x: jnp.piecewise(x, [x < 0, x > 1], [lambda y: -y, lambda y: y**2, 0.5]),
    "choose": lambda x: jnp.choose(at(x), [x, 2 * x], mode="clip"),
    "digitize": lambda x: jnp.digitize(x, np.array([0.0, 0.5, 1.0])),
    "searchsorted": lambda x: jnp.searchsorted(np.array([0.0, 0.5, 1.0]), x),
    "searchsorted all": lambda x: jnp.searchsorted(np.array([0.0, 0.5]), x, method="compare_all"),
    "histogram": lambda x: jnp.histogram(x, np.array([-1.0, 0.0, 2.0]))[0], "unique": lambda x: jnp.unique(at(x), size=4),
    "nonzero": lambda x: jnp.nonzero(x > 0, size=4), "one_hot": lambda x: jax.nn.one_hot(at(x), 3, dtype=float),
    "bincount": lambda x: jnp.bincount(jnp.abs(at(x)), length=4), "index": lambda x: T[at(x)],
    "pairs": lambda x: T[jnp.stack([at(x), at(x) + 1])], "row": lambda x: M[at(x)[0]], "column": lambda x: M[:, at(x)[1]],
    "element": lambda x: M[1, at(x)], "two indices": lambda x: M[at(x), at(x)[::-1]], "truth at": lambda x: (x > 0)[at(x)],
    "take clip": lambda x: jnp.take(T, at(x), mode="clip"), "take fill": lambda x: jnp.take(T, at(x), mode="fill"),
    "take wrap": lambda x: jnp.take(T, at(x), mode="wrap"),
    "take fill value": lambda x: jnp.take(T, at(x), mode="fill", fill_value=7.0),
    "take integers": lambda x: jnp.take(jnp.arange(4), at(x), mode="fill"),
    "take bytes": lambda x: jnp.take(jnp.arange(4, dtype=jnp.uint8), at(x), mode="fill"),
    "known outside": lambda x: jnp.take(x, np.array([1, 9, -9]), mode="fill"),
    "at get": lambda x: x.at[at(x)].get(mode="fill", fill_value=-1.0),
    "take_along_axis": lambda x: jnp.take_along_axis(M, at(x)[None] % 4, 1),
    "promise_in_bounds": lambda x: T[0] + T.at[at(x)].get(mode="promise_in_bounds"),
    "dynamic_slice": lambda x: lax.dynamic_slice(T * x[0], (at(x)[1],), (2,)),
    "dynamic_index": lambda x: lax.dynamic_index_in_dim(M, at(x)[0]),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:2] * 3, (at(x)[0],)),
    "set at": lambda x: jnp.zeros(4).at[at(x)[0]].set(x[1]), "scatter add": lambda x: jnp.ones(4).at[at(x)].add(x),
    "scatter mul": lambda x: jnp.ones(4).at[at(x)].mul(x), "scatter min": lambda x: jnp.ones(4).at[at(x)].min(x),
    "scatter clip": lambda x: jnp.zeros(4).at[at(x)].add(x, mode="clip"),
    "scatter apply": lambda x: x.at[at(x)[0]].apply(jnp.sin),
    "set in a row": lambda x: jnp.zeros((4, 4)).at[1, at(x)[0]].set(x[1]),
    "segment_sum": lambda x: jax.ops.segment_sum(x, at(x), 3), "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: lax.switch(at(x)[0], [jnp.sin, jnp.cos, jnp.exp], x),
    "switch by truth": lambda x: lax.switch((x[0] > 0).astype(int), [jnp.sin, jnp.cos], x),
    "derivative of cond": jax.grad(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x) @ x),
    "cond on integers": lambda x: lax.cond(x[0] > 0, lambda i: i + 1, lambda i: -i, at(x)),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1],
    "while of the state": lambda x: lax.while_loop(lambda y: jnp.sum(y * y) < 9, lambda y: 2 * y, x + 1.1),
    **{kind: lambda x, kind=kind: 100 * whole(x, kind) * whole(x[::-1], kind) + whole(x, kind)
       for kind in ("int8", "int16", "int32", "uint8", "uint16", "uint32")},
    "uint64": lambda x: (at(x).astype("uint64") >> 3).astype(float), "int32 products": lambda x: whole(x, "int32") * 2**30,
    "int64 wraps": lambda x: (at(x) + 2**62) * 2 // 2**40, "int64 is exact": lambda x: (at(x) + 2**53 + 1) - 2**53,
    "to uint8": lambda x: (300 * x).astype("uint8"), "to int8": lambda x: (300 * x).astype("int8"),
    "to int32": lambda x: (1e10 * x).astype("int32"), "to int64": lambda x: (1e19 * x).astype(int) // 2**32,
    "quotients": lambda x: at(x) // jnp.array([2, -3, 1, 5]), "remainders": lambda x: at(x) % jnp.array([2, -3, 1, 5]),
    "divided by zero": lambda x: lax.div(at(x), 0 * at(x)) + lax.rem(at(x), 0 * at(x)),
    "by unsigned": lambda x: whole(x, "uint8") // jnp.uint8(7),
    "unsigned compare": lambda x: whole(x, "uint32") > whole(x[::-1], "uint32"),
    "sign of unsigned": lambda x: jnp.sign(whole(x, "uint16")),
    "abs of bytes": lambda x: jnp.abs((whole(x, "int8") - jnp.int8(1)) * jnp.int8(64)),
    "neg of bytes": lambda x: -whole(x, "uint8"), "power of integers": lambda x: at(x) ** 3,
    "integer maximum": lambda x: jnp.maximum(at(x), at(x)[::-1]), "sum of bytes": lambda x: jnp.sum(100 * whole(x, "int8")),
    "prod of integers": lambda x: jnp.prod(at(x) + 2**31), "dot of integers": lambda x: at(x) @ (at(x) + 2**31),
    "dot of bytes": lambda x: lax.dot(whole(x, "int8"), 90 * whole(x, "int8")),
    "cumsum of bytes": lambda x: jnp.cumsum(100 * whole(x, "int8"), dtype="int8"),
    "integer mean": lambda x: jnp.mean(at(x)), "bitwise": lambda x: at(x) & 3, "shift": lambda x: at(x) << 2,
    "population_count": lambda x: lax.population_count(at(x)), "argmax of integers": lambda x: jnp.argmax(at(x)),
    "max of integers": lambda x: jnp.max(at(x)), "float of integers": lambda x: (at(x) + 2**60).astype(float),
    "integers times numbers": lambda x: at(x) * x,
    "pure_callback": lambda x: jax.pure_callback(np.asarray, jax.ShapeDtypeStruct((4,), float), x),
    "float32": lambda x: x.astype("float32") * 3, "float16": lambda x: x.astype("float16"),
    "complex": lambda x: jnp.real(jnp.exp(1j * x)), "normal": lambda x: x + jax.random.normal(jax.random.PRNGKey(0), (4,)),
    "random by state": lambda x: jax.random.uniform(jax.random.fold_in(jax.random.key(1), at(x)[0]), (2,)),
    "bitcast": lambda x: lax.bitcast_convert_type(x, jnp.int64) // 2**52,
}  # fmt: skip
