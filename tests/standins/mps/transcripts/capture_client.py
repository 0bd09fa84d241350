#!/usr/bin/env python3
"""A CUDA process for capture.sh, driver API only: attaches, says what it got, then obeys lines on stdin.

Lines: alloc MIB | spin MS | fault | info | exit. Every answer is one line on stdout.
"""
import ctypes, os, sys

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 ns) {
  .reg .u64 %a<4>; .reg .pred %p;
  ld.param.u64 %a0, [ns];
  mov.u64 %a1, %globaltimer;
L: mov.u64 %a2, %globaltimer;
  sub.u64 %a3, %a2, %a1;
  setp.lt.u64 %p, %a3, %a0;
  @%p bra L;
  ret;
}
.visible .entry fault(.param .u64 where) {
  .reg .u64 %a<2>; .reg .u32 %v;
  ld.param.u64 %a0, [where];
  mov.u32 %v, 7;
  st.global.u32 [%a0], %v;
  ret;
}
\0"""

cu = ctypes.CDLL("libcuda.so.1")


def name(code):
    text = ctypes.c_char_p()
    cu.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"?").decode()


def say(*words):
    print(os.getpid(), *words, flush=True)


def must(what, code):
    if code:
        say("FAILED", what, code, name(code))
        sys.exit(1)


must("cuInit", cu.cuInit(0))
device, context, value = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
count = ctypes.c_int()
must("cuDeviceGetCount", cu.cuDeviceGetCount(ctypes.byref(count)))
must("cuDeviceGet", cu.cuDeviceGet(ctypes.byref(device), 0))
must("cuCtxCreate", cu.cuCtxCreate_v2(ctypes.byref(context), 0, device))
cu.cuDeviceGetAttribute(ctypes.byref(value), 16, device)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
must("cuMemGetInfo", cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
module, function = ctypes.c_void_p(), ctypes.c_void_p()
must("cuModuleLoadData", cu.cuModuleLoadData(ctypes.byref(module), PTX))
say("attached", "devices", count.value, "sms", value.value, "free", free.value, "total", total.value)


def launch(which, argument):
    must("get", cu.cuModuleGetFunction(ctypes.byref(function), module, which))
    held = ctypes.c_uint64(argument)
    params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(held), ctypes.c_void_p))
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, None)


for line in sys.stdin:
    words = line.split()
    if not words or words[0] == "exit":
        break
    if words[0] == "alloc":
        where = ctypes.c_uint64()
        code = cu.cuMemAlloc_v2(ctypes.byref(where), ctypes.c_size_t(int(words[1]) << 20))
        say("alloc", words[1], code, name(code))
    elif words[0] == "info":
        code = cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        say("info", code, name(code), free.value, total.value)
    elif words[0] in ("spin", "fault"):
        argument = int(words[1]) * 1000000 if words[0] == "spin" else 0x10
        code = launch(words[0].encode(), argument)
        say(words[0], "launched", code, name(code))
        code = cu.cuCtxSynchronize()
        say(words[0], "done", code, name(code))
