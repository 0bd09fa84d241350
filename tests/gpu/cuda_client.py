#!/usr/bin/env python3
"""A CUDA process that executes commands, a line of stdin each, and answers with a line of JSON each: the tenant in
mps_that_holds.py. It opens libcuda.so.1 itself (driver API, PTX text), so it runs on a GPU and on the stand-ins alike.

  alloc MIB             allocate                                {"event":"alloc","code":0,"held":MIB}
  grow TOTAL STEP LIMIT allocate STEP by STEP up to TOTAL MiB   {"event":"grown","code","held","crossedAt"}: when LIMIT was reached
  launch MS COUNT       start COUNT kernels of MS milliseconds, and do not wait
  run                   from now on: short kernels with checked answers, one after the other; an error or a wrong answer is reported
  context               create a second context and destroy it
  fault                 use an illegal address
  info                  {"event":"info","code","held","free","total","steps","sms"}
  exit                  wait for what is in flight, and end

`code` is CUDA's error number, `at` CLOCK_MONOTONIC in seconds. First line: {"event":"ready","startMs":cuInit and cuCtxCreate} or {"event":"failed","code"}."""

import ctypes, json, os, select, sys, time

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry tranche_spin(.param .u64 tranche_spin_out, .param .u32 tranche_spin_iterations)
{
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [tranche_spin_out];
  ld.param.u32 %r1, [tranche_spin_iterations];
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r3, %r2, %r4;
  mov.u32 %r6, %r5;
  mov.u32 %r7, 1664525;
  mov.u32 %r8, 1013904223;
again:
  mad.lo.u32 %r6, %r6, %r7, %r8;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r6;
  ret;
}
"""
THREADS, SHORT = 1024, 2048  # SHORT iterations take about 0.05 ms: a process that dies in them hurts nobody
MIB = 1 << 20


def say(event, **more):
    print(json.dumps({"event": event, "at": time.monotonic(), **more}), flush=True)


class Failed(Exception):
    def __init__(self, call, code):
        super().__init__(f"{call}: CUDA error {code}")
        self.call, self.code = call, code


class Cuda:
    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.held, self.steps, self.blocks = 0, 0, 1
        begin = time.monotonic()
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, device)
        self.start_ms = (time.monotonic() - begin) * 1000
        sms = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(sms), 16, device)
        self.sms = sms.value
        module, self.spin = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(self.spin), module, b"tranche_spin")
        self.blocks = max(1, self.sms)
        self.out = self.allocate(self.blocks * THREADS * 4, counted=False)
        self.expected = [self.after(i, SHORT) for i in range(THREADS)]
        self.per_ms = self.iterations_per_ms()

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise Failed(name, code)

    @staticmethod
    def after(x, iterations):
        factor, addend, f, a = 1, 0, 1664525, 1013904223
        while iterations:
            if iterations & 1:
                factor, addend = factor * f % 2**32, (f * addend + a) % 2**32
            f, a, iterations = f * f % 2**32, (f * a + a) % 2**32, iterations >> 1
        return (factor * x + addend) % 2**32

    def allocate(self, size, counted=True):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.held += size if counted else 0
        return address.value

    def launch(self, out, iterations):
        address, count = ctypes.c_uint64(out), ctypes.c_uint32(iterations)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(address), ctypes.addressof(count))
        self.call("cuLaunchKernel", self.spin, self.blocks, 1, 1, THREADS, 1, 1, 0, None, parameters, None)

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def iterations_per_ms(self):
        self.launch(self.out, SHORT)
        self.synchronize()
        begin = time.monotonic()
        self.launch(self.out, 64 * SHORT)
        self.synchronize()
        return 64 * SHORT / ((time.monotonic() - begin) * 1000)

    def step(self):
        """One short kernel with its answers looked at."""
        self.launch(self.out, SHORT)
        self.synchronize()
        words = (ctypes.c_uint32 * THREADS)()
        self.call("cuMemcpyDtoH_v2", words, ctypes.c_uint64(self.out), ctypes.c_size_t(4 * THREADS))
        self.steps += 1
        return list(words) == self.expected

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value // MIB, total.value // MIB


def grow(cuda, total, step, limit):
    crossed, code = None, 0
    while cuda.held < total * MIB and code == 0:
        try:
            cuda.allocate(step * MIB)
            if crossed is None and cuda.held >= limit * MIB:
                crossed = time.monotonic()
        except Failed as failure:
            code = failure.code
    say("grown", code=code, held=cuda.held // MIB, crossedAt=crossed)


def obey(cuda, words):
    """Whether to go on running checked kernels: True, False, or None for as before."""
    if words[0] == "alloc":
        cuda.allocate(int(words[1]) * MIB)
        say("alloc", code=0, held=cuda.held // MIB)
    elif words[0] == "grow":
        grow(cuda, *map(int, words[1:4]))
    elif words[0] == "launch":
        for _ in range(int(words[2])):
            cuda.launch(cuda.out, max(1, int(float(words[1]) * cuda.per_ms)))
        say("launched", code=0)
        return False
    elif words[0] == "run":
        say("running", code=0)
        return True
    elif words[0] == "context":
        context, device = ctypes.c_void_p(), ctypes.c_int()
        cuda.call("cuDeviceGet", ctypes.byref(device), 0)
        cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        cuda.call("cuCtxDestroy_v2", context)
        say("context", code=0)
    elif words[0] == "fault":
        cuda.launch(0x10, 1)
        cuda.synchronize()
        say("fault", code=0)
    elif words[0] == "info":
        free, total = cuda.memory()
        say("info", code=0, held=cuda.held // MIB, free=free, total=total, steps=cuda.steps, sms=cuda.sms)
    else:
        say("unknown", code=-1)
    return None


def main():
    for i, word in enumerate(sys.argv):
        if word == "--uid":
            os.setgroups([])
            os.setgid(int(sys.argv[i + 1]))
            os.setuid(int(sys.argv[i + 1]))
    try:
        cuda = Cuda()
    except Failed as failure:
        say("failed", code=failure.code, call=failure.call)
        return 1
    say("ready", pid=os.getpid(), sms=cuda.sms, uid=os.getuid(), startMs=cuda.start_ms)
    running, dead, buffered = False, False, b""
    while True:
        try:
            if running and not dead and not cuda.step():
                say("wrong")
        except Failed as failure:
            dead = True
            say("error", code=failure.code, call=failure.call)
        if not select.select([0], [], [], 0 if running and not dead else None)[0]:
            continue
        piece = os.read(0, 4096)
        if not piece:
            break
        buffered += piece
        while b"\n" in buffered:
            line, buffered = buffered.split(b"\n", 1)
            words = line.decode().split()
            if not words:
                continue
            if words[0] == "exit":
                return leave(cuda)
            try:
                wish = obey(cuda, words)
                running = running if wish is None else wish
            except Failed as failure:
                say(words[0], code=failure.code, call=failure.call, held=cuda.held // MIB)
    return leave(cuda)


def leave(cuda):
    try:
        cuda.synchronize()
        cuda.call("cuCtxDestroy_v2", cuda.context)
    except Failed:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
