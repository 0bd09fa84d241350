"""Triton kernels of tenants.py, in a file of their own because Triton reads their source."""

import triton
import triton.language as tl


@triton.jit
def dot_loop(a, b, out, turns):
    """Products on tensor cores, over and over."""
    row, column = tl.arange(0, 128)[:, None], tl.arange(0, 128)[None, :]
    x, y = tl.load(a + row * 128 + column), tl.load(b + row * 128 + column)
    sum = tl.zeros((128, 128), dtype=tl.float32)
    for _ in range(turns):
        sum = tl.dot(x, y, sum)
    tl.store(out + tl.program_id(0) * 16384 + row * 128 + column, sum)


@triton.jit
def plain_loop(a, b, out, turns):
    """fp32 arithmetic only, over and over."""
    row, column = tl.arange(0, 128)[:, None], tl.arange(0, 128)[None, :]
    x = tl.load(a + row * 128 + column).to(tl.float32)
    for _ in range(turns):
        x = x * 1.0000001 + 0.5
    tl.store(out + tl.program_id(0) * 16384 + row * 128 + column, x)
