#!/usr/bin/env python3
"""Programs that people run on a share of a GPU, for the hardware scripts: `tenants.py KIND [key=value…]`.

One line of JSON each: {"event": "ready"} when the program has done its first step, {"event": "window", …} every 100 ms with the
steps of that window (serving and training kinds), {"event": "error", …} and status 3 when CUDA fails or an answer is wrong.
With `wait=1` it begins to work when a line comes on its standard input. With `limit=VALUE` it sets CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
inside itself before CUDA is loaded, as a program may by accident. PyTorch, JAX (kind `jax`), NCCL (kind `nccl`), or the driver's own
interface (kinds `spin`, `steps` and `hoard`, which run on the stand-ins too). On SIGUSR1 a PyTorch program says {"event": "memory"}: what
its allocator has reserved, and what CUDA still has free for it. With `ends=HOW` (exception, exit, os_exit, segv, abort, oom, done = exit
after it synchronized) and `wait=1` it ends so, or as the line says, when a second line comes, with all of its work queued (kinds
`products`, `fp8`, `convolutions`). When the first line is `fork`, it forks a child that does nothing, and says {"event": "child"}."""

import ctypes, json, os, signal, subprocess, sys, threading, time

HERE, KIND = os.path.dirname(os.path.abspath(__file__)), sys.argv[1]
OPTIONS = dict(word.split("=", 1) for word in sys.argv[2:])
if "limit" in OPTIONS:
    os.environ["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = OPTIONS["limit"]


def option(name, default):
    return type(default)(OPTIONS.get(name, default))


def say(event, **more):
    print(json.dumps({"event": event, "at": time.monotonic(), **more}), flush=True)


def say_memory(*_):
    import torch
    free, total = torch.cuda.mem_get_info()
    say("memory", reserved=torch.cuda.memory_reserved(), free=free, total=total)


def ready(**more):
    if "torch" in sys.modules:
        signal.signal(signal.SIGUSR1, say_memory)
    say("ready", pid=os.getpid(), **more)
    if option("wait", 0):
        child = os.fork() if sys.stdin.readline().strip() == "fork" else None
        while child == 0:
            time.sleep(1)
        say("begun")
        if child:
            say("child", pid=child)
    if "ends" in OPTIONS:
        threading.Thread(target=listen_for_end, daemon=True).start()


asked_to_end = []


def listen_for_end():
    how, kept = sys.stdin.readline().strip() or OPTIONS["ends"], []
    while how == "oom":  # until the kernel kills it
        kept.append(b"x" * (32 << 20))
    asked_to_end.append(how)


def end_if_asked():
    for how in asked_to_end:
        if how == "done":
            import torch
            torch.cuda.synchronize()
        {"exception": lambda: [][1], "exit": lambda: sys.exit(0), "done": lambda: sys.exit(0), "os_exit": lambda: os._exit(0),
         "abort": os.abort, "segv": lambda: ctypes.string_at(0)}[how]()


class Windows:
    """Says every 100 ms how long the steps took that ended in it."""

    def __init__(self):
        self.begin, self.last, self.steps = time.monotonic(), time.monotonic(), []

    def step(self):
        now = time.monotonic()
        self.steps.append((now - self.last) * 1000)
        self.last = now
        if now - self.begin >= 0.1:
            say("window", since=self.begin, steps=len(self.steps), worst=round(max(self.steps), 3), ms=[round(s, 2) for s in self.steps[:200]])
            self.begin, self.steps = now, []


def matrices(n, dtype):
    import torch
    return [torch.randn(n, n, device="cuda", dtype=torch.float32).to(dtype) for _ in range(2)]


def products(dtype="bfloat16"):
    """Matrix products with `queue` of them in flight at most (shallow by default, 256 or 1024 for a deep queue), or, with `sleep`, kernels
    of so many milliseconds on one thread. It holds `mib` MiB of GPU memory beside them in one piece, and `heap` MiB of its own."""
    import torch
    global kept
    kept = torch.empty(option("mib", 0) << 20, dtype=torch.uint8, device="cuda"), bytearray(b"x") * (option("heap", 0) << 20)
    a, b = matrices(option("n", 8192), getattr(torch, dtype))
    c, queue, sleep = torch.empty_like(a), option("queue", 4), option("sleep", 0)
    torch.mm(a, b, out=c)
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(4):
        torch.mm(a, b, out=c)
    torch.cuda.synchronize()
    ready(queued_ms=round((time.monotonic() - begin) * 250 * queue))
    while True:
        for _ in range(queue):
            torch.cuda._sleep(sleep * 1_980_000) if sleep else torch.mm(a, b, out=c)
        end_if_asked()
        torch.cuda.synchronize()


def early():
    """Deep products; CUDA begins with the line, and tensor cores are the first thing that it uses."""
    import torch
    ready()
    a, b, c = (torch.empty(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    torch.mm(a, b, out=c)
    say("working")
    while True:
        for _ in range(256):
            torch.mm(a, b, out=c)
        torch.cuda.synchronize()


def calls():
    """One call after the other, each a window: `of` alloc (GPU memory), newcomer (the start of a program) or nvml."""
    if OPTIONS["of"] == "newcomer":
        argv = [sys.executable, "-c", "from cuda_client import Cuda; Cuda()"]
        once = lambda: subprocess.run(argv, cwd=HERE, check=True, capture_output=True)
    elif OPTIONS["of"] == "nvml":
        import pynvml
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        once = lambda: (pynvml.nvmlDeviceGetMemoryInfo(gpu), pynvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    else:
        cuda = driver()
        once = lambda: cuda.call("cuMemFree_v2", ctypes.c_uint64(cuda.allocate(64 << 20)))
    ready()
    while True:
        begin = time.monotonic()
        once()
        say("window", since=begin, worst=round((time.monotonic() - begin) * 1000))
        time.sleep(0.005)


def fp8():
    import torch
    n = 8192
    a = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    work = lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    work()
    torch.cuda.synchronize()
    ready()
    while True:
        for _ in range(option("queue", 16)):
            work()
        end_if_asked()
        torch.cuda.synchronize()


def convolutions():
    import torch
    net = torch.nn.Sequential(*[torch.nn.Conv2d(512, 512, 3, padding=1, bias=False) for _ in range(8)]).to("cuda", torch.bfloat16)
    net = net.to(memory_format=torch.channels_last)
    image = torch.randn(64, 512, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    with torch.no_grad():
        net(image)
        torch.cuda.synchronize()
        ready()
        while True:
            for _ in range(option("queue", 4)):
                net(image)
            end_if_asked()
            torch.cuda.synchronize()


def triton_kernels():
    """One kernel of `ms` milliseconds after the other: with tensor cores (tl.dot), or fp32 arithmetic with plain=1. With fresh=1 it is
    compiled, and LLVM installs its signal handlers."""
    import tempfile
    import torch
    folder = tempfile.mkdtemp() if option("fresh", 0) else os.path.join(tempfile.gettempdir(), "tranche-triton")
    os.environ.setdefault("TRITON_CACHE_DIR", folder)
    import triton_kernels as kernels
    n = 132
    a, b = (torch.randn(128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty(n, 128, 128, device="cuda", dtype=torch.float32)
    kernel = kernels.plain_loop if option("plain", 0) else kernels.dot_loop
    launch = lambda turns: kernel[(n,)](a, b, out, turns, num_warps=4)
    launch(10)
    torch.cuda.synchronize()
    begin = time.monotonic()
    launch(20000)
    torch.cuda.synchronize()
    turns = max(1, int(20000 * option("ms", 20) / 1000 / (time.monotonic() - begin)))
    ready(turns=turns)
    while True:
        for _ in range(option("queue", 2)):
            launch(turns)
        torch.cuda.synchronize()


def serve():
    """A small language model by CUDA graph, as inference servers run it; its answers must stay the same."""
    import torch
    torch.manual_seed(1)
    width, layers, batch = 2048, 12, 4
    blocks = [torch.nn.Sequential(torch.nn.RMSNorm(width), torch.nn.Linear(width, 4 * width, bias=False), torch.nn.SiLU(),
                                  torch.nn.Linear(4 * width, width, bias=False)).to("cuda", torch.bfloat16) for _ in range(layers)]
    head = torch.nn.Linear(width, 32000, bias=False).to("cuda", torch.bfloat16)
    tokens = torch.randn(batch, width, device="cuda", dtype=torch.bfloat16)
    out = torch.zeros(batch, 32000, device="cuda", dtype=torch.bfloat16)

    def step():
        x = tokens
        for block in blocks:
            x = x + block(x)
        out.copy_(head(x))

    with torch.no_grad():
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        graph.replay()
        expected = int(out.float().argmax(-1).sum())
        ready()
        windows = Windows()
        while True:
            for _ in range(4):
                graph.replay()
            if int(out.float().argmax(-1).sum()) != expected:
                say("error", why="wrong answer")
                sys.exit(3)
            windows.step()


def train():
    """Mixed-precision training. On SIGTERM it saves a checkpoint to `checkpoint`, reads it back and exits with 0."""
    import torch
    torch.manual_seed(3)
    width = option("width", 1024)
    net = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)).to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    x = torch.randn(4096, width, device="cuda")
    y = torch.sin(x)
    terminated, steps = [], 0
    if "checkpoint" in OPTIONS:
        signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step()
    torch.cuda.synchronize()
    ready()
    windows = Windows()
    while not terminated:
        for _ in range(option("queue", 4)):
            loss = step()
            steps += 1
        value = float(loss)
        if value != value:
            say("error", why="the loss is no number")
            sys.exit(3)
        windows.step()
    path = OPTIONS["checkpoint"]
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}, path + ".part")
    time.sleep(option("slow", 0.0))  # what saving to a slow disk takes
    back = torch.load(path + ".part", map_location="cpu")
    whole = all(torch.equal(back["net"][k], v.cpu()) for k, v in net.state_dict().items()) and back["steps"] == steps
    os.rename(path + ".part", path)
    say("saved", whole=whole, steps=steps)
    sys.exit(0 if whole else 4)


def elementwise():
    """Small plain kernels, and memory that comes from the driver every step with fresh=1."""
    import torch
    x = torch.arange(1 << 22, device="cuda", dtype=torch.float32)
    ready()
    windows, fresh = Windows(), option("fresh", 0)
    while True:
        for _ in range(20):
            y = x * 2 + 1
        if fresh:
            del y
            torch.cuda.empty_cache()
            y = x * 2 + 1
        if float(y[12345]) != 24691.0:
            say("error", why="wrong answer")
            sys.exit(3)
        windows.step()


def grow():
    """Takes `step` MiB at a time, as fast as it can, up to `most` MiB, and keeps it; with `queue` products of tensor cores in flight
    meanwhile. What it holds is said at every step."""
    import torch
    torch.zeros(1, device="cuda")
    queue, n = option("queue", 0), option("n", 4096)
    if queue:
        a, b = matrices(n, torch.bfloat16)
        c = torch.empty_like(a)
        torch.mm(a, b, out=c)
        torch.cuda.synchronize()
    ready()
    held, blocks, begin, marks = 0, [], time.monotonic(), []
    try:
        for _ in range(queue):
            torch.mm(a, b, out=c)
        while held < option("most", 200 << 10):
            blocks.append(torch.empty(option("step", 512) << 20, dtype=torch.uint8, device="cuda"))
            held += option("step", 512)
            marks.append((round((time.monotonic() - begin) * 1000, 1), held))
            say("held", mib=held)
            if queue:
                torch.mm(a, b, out=c)
    except torch.OutOfMemoryError:
        pass
    say("grown", held=held, ms=round((time.monotonic() - begin) * 1000, 1), marks=marks[:: max(1, len(marks) // 20)])
    while True:
        time.sleep(1)


def churn():
    """What asks the MPS server for something all the time: memory, modules, contexts or captured graphs."""
    what = OPTIONS.get("of", "memory")
    if what == "contexts":
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        said = False
        while True:
            for name, *args in (("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0), ("cuDevicePrimaryCtxReset_v2", 0),
                                ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)):
                code = getattr(cuda, name)(*args)
                if code:
                    say("error", why=f"{name}: {code}")
                    sys.exit(3)
            if not said:
                ready()
                said = True
    import torch
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    x @ x
    if what == "memory":
        ready()
        while True:
            blocks = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
            del blocks
            torch.cuda.empty_cache()
    if what == "graphs":
        ready()
        while True:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(20):
                    y = x @ x
            graph.replay()
            torch.cuda.synchronize()
            del graph
    if what == "modules":
        import cupy
        ready()
        turn = 0
        while True:
            turn += 1
            module = cupy.RawModule(code='extern "C" __global__ void f(float* p) { p[threadIdx.x] += 1; }', backend="nvrtc", options=(f"-DT={turn % 64}",))
            module.get_function("f")
    raise SystemExit(f"churn of={what}?")


def nccl():
    """All-reduces and products over all GPUs, one process a GPU; this one starts the others."""
    import torch
    import torch.multiprocessing as mp
    mp.set_start_method("spawn")
    world = option("gpus", torch.cuda.device_count())
    others = [mp.Process(target=rank_of, args=(rank, world)) for rank in range(1, world)]
    for other in others:
        other.start()
    rank_of(0, world)


def rank_of(rank, world):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{option('port', 29511)}", rank=rank, world_size=world)
    a, b = matrices(4096, torch.bfloat16)
    gradient = torch.ones(64 << 20, device="cuda", dtype=torch.bfloat16)
    dist.all_reduce(gradient)
    torch.cuda.synchronize()
    say("ready", pid=os.getpid(), rank=rank)
    while True:
        for _ in range(4):
            a @ b
            dist.all_reduce(gradient)
        gradient.fill_(1)
        torch.cuda.synchronize()


def jax_products():
    import jax, jax.numpy as jnp
    key = jax.random.key(1)
    a = jax.random.normal(key, (8192, 8192), dtype=jnp.bfloat16)
    step = jax.jit(lambda x: (x @ a) * jnp.bfloat16(0.01))
    x = step(a).block_until_ready()
    stats = jax.devices()[0].memory_stats() or {}
    ready(limit_mib=stats.get("bytes_limit", 0) >> 20)
    while True:
        for _ in range(option("queue", 4)):
            x = step(x)
        x.block_until_ready()


def look():
    """One start of a framework in a share: what it sees of the memory, a few products that it checks, and the end."""
    framework = OPTIONS.get("of", "torch")
    say("looked", of=framework, **{"torch": look_torch, "jax": look_jax, "cupy": look_cupy, "onnx": look_onnx, "driver": look_driver}[framework]())


def look_torch():
    import torch
    a, b = (torch.ones(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    right = bool((a @ b == 2048).all())
    free, total = torch.cuda.mem_get_info()
    return {"right": right, "free_mib": free >> 20, "total_mib": total >> 20, "limit_mib": None}


def look_jax():
    import jax, jax.numpy as jnp
    a = jnp.ones((2048, 2048), dtype=jnp.bfloat16)
    right = bool((jax.jit(lambda x: x @ x)(a) == 2048).all())
    stats = jax.devices()[0].memory_stats() or {}
    return {"right": right and jax.devices()[0].platform == "gpu", "free_mib": None, "total_mib": None, "limit_mib": stats.get("bytes_limit", 0) >> 20,
            "environment": {k: v for k, v in os.environ.items() if k.startswith(("XLA_", "JAX_"))}}


def look_cupy():
    import cupy
    a = cupy.ones((2048, 2048), dtype=cupy.float16)
    right = bool((a @ a == 2048).all())
    free, total = cupy.cuda.runtime.memGetInfo()
    return {"right": right, "free_mib": free >> 20, "total_mib": total >> 20, "limit_mib": cupy.get_default_memory_pool().get_limit() >> 20}


def look_onnx():
    import numpy, onnx, onnxruntime
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return {"right": None, "why": "this ONNX Runtime has no CUDA provider", "free_mib": None, "total_mib": None, "limit_mib": None}
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [512, 512])
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "x"], ["y"])], "g", [value("x")], [value("y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    y = session.run(None, {"x": numpy.ones((512, 512), dtype=numpy.float32)})[0]
    right = bool((y == 512).all()) and session.get_providers()[0] == "CUDAExecutionProvider"
    return {"right": right, "free_mib": None, "total_mib": None, "limit_mib": None}


def share():
    """What PyTorch sees of a share, and how fast it multiplies there: {"event": "measured", "sms", "total_mib", "tflops"}."""
    import torch
    seen, (free, total) = torch.cuda.get_device_properties(0), torch.cuda.mem_get_info()
    a, b = matrices(8192, torch.bfloat16)
    c = torch.empty_like(a)
    torch.mm(a, b, out=c)
    torch.cuda.synchronize()
    ready()
    begin, done = time.monotonic(), 0
    while time.monotonic() - begin < option("seconds", 4.0):
        for _ in range(4):
            torch.mm(a, b, out=c)
        torch.cuda.synchronize()
        done += 4
    say("measured", sms=seen.multi_processor_count, total_mib=total >> 20, free_mib=free >> 20,
        tflops=round(done * 2 * 8192 ** 3 / (time.monotonic() - begin) / 1e12, 1))
    sys.stdin.readline()


def share_by_driver():
    """The same by the driver's interface, without a speed."""
    cuda = driver()
    free, total = cuda.memory()
    ready()
    say("measured", sms=cuda.sms, total_mib=total, free_mib=free, tflops=None)
    sys.stdin.readline()


def driver():
    from cuda_client import Cuda
    return Cuda()


def look_driver():
    cuda = driver()
    free, total = cuda.memory()
    return {"right": cuda.step(), "free_mib": free, "total_mib": total, "limit_mib": None}


def spin():
    """Kernels of `ms` milliseconds without tensor cores, with `queue` of them in flight at most."""
    cuda = driver()
    turns = max(1, int(option("ms", 20.0) * cuda.per_ms))
    ready(queued_ms=round(option("ms", 20.0) * option("queue", 4)))
    while True:
        for _ in range(option("queue", 4)):
            cuda.launch(cuda.out, turns)
        cuda.synchronize()


def steps():
    """Short checked kernels, one after the other. On SIGTERM it writes `checkpoint`, reads it back and exits with 0."""
    cuda, terminated = driver(), []
    if "checkpoint" in OPTIONS:
        signal.signal(signal.SIGTERM, lambda number, frame: terminated.append(number))
    right = cuda.step()
    ready()
    windows = Windows()
    while not terminated:
        if not right:
            say("error", why="wrong answer")
            sys.exit(3)
        time.sleep(0.002)
        right = cuda.step()
        windows.step()
    path = OPTIONS["checkpoint"]
    with open(path + ".part", "w") as file:
        file.write(json.dumps({"steps": cuda.steps, "rest": "x" * 100000}))
    time.sleep(option("slow", 0.0))
    with open(path + ".part") as file:
        back = json.load(file)
    whole = back["steps"] == cuda.steps and len(back["rest"]) == 100000
    os.rename(path + ".part", path)
    say("saved", whole=whole, steps=cuda.steps)
    sys.exit(0 if whole else 4)


def hoard():
    """What `grow` does, by the driver's interface."""
    from cuda_client import Failed
    cuda = driver()
    ready()
    held, step, begin = 0, option("step", 512), time.monotonic()
    try:
        for _ in range(option("queue", 0)):
            cuda.launch(cuda.out, max(1, int(5 * cuda.per_ms)))
        while held < option("most", 200 << 10):
            cuda.allocate(step << 20)
            held += step
            say("held", mib=held)
    except Failed as failure:
        if failure.code != 2:  # out of memory is where it ends
            raise
    say("grown", held=held, ms=round((time.monotonic() - begin) * 1000, 1))
    while True:
        time.sleep(1)


KINDS = {"products": products, "fp32": lambda: products("float32"), "fp8": fp8, "convolutions": convolutions, "triton": triton_kernels, "serve": serve,
         "train": train, "elementwise": elementwise, "grow": grow, "churn": churn, "nccl": nccl, "jax": jax_products, "look": look,
         "share": share, "share_by_driver": share_by_driver, "spin": spin, "steps": steps, "hoard": hoard, "early": early, "calls": calls}

if __name__ == "__main__":
    try:
        if "device" in OPTIONS:
            import torch
            torch.cuda.set_device(option("device", 0))
        KINDS[KIND]()
    except Exception as error:
        if asked_to_end:
            raise
        say("error", why=f"{type(error).__name__}: {error}"[:300])
        sys.stdout.flush()
        os._exit(3)
