#!/usr/bin/env python3
"""What the log of an MPS server says of a client's end, on a GPU with a plain MPS control daemon; nothing of Tranche takes part.

  ends_in_log.py [--tries N]

For each way to end: the time from the server's line "Client {PID: p, Context ID: 1} exiting" to the moment when the client's pidfd becomes
readable, while this program holds duplicates of the client's NVIDIA descriptors, as the keeper does. Then the log of a client that destroys
its context and runs on, beside one that uses an illegal address. It changes no setting of the GPU."""

import argparse, datetime, os, select, subprocess, sys, tempfile, time

from deaths import Held

CONTEXT = ("import ctypes, os, signal, sys; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0); context = ctypes.c_void_p(); "
           "cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0); print('up', flush=True); sys.stdin.readline(); ")
TORCH = ("import sys, torch; a = torch.randn(2048, 2048, device='cuda', dtype=torch.bfloat16); b = a @ a; torch.cuda.synchronize(); "
         "print('up', flush=True); sys.stdin.readline(); ")
DESTROY = "cuda.cuCtxDestroy_v2(context); "
FAULT = (CONTEXT + r"""
ptx = b'.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(){.reg .u64 %r; .reg .u32 %v; mov.u64 %r,0x10; mov.u32 %v,1; st.global.u32 [%r],%v; ret;}\0'
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuModuleLoadData(ctypes.byref(module), ptx), cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b'k')
cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None), cuda.cuCtxSynchronize()
""")
ENDS = {"killed": (CONTEXT, True), "returns": (CONTEXT, False), "os._exit": (CONTEXT + "os._exit(0)", False),
        "destroys, os._exit": (CONTEXT + DESTROY + "os._exit(0)", False), "destroys, returns": (CONTEXT + DESTROY, False),
        "PyTorch, killed": (TORCH, True), "PyTorch, returns": (TORCH, False)}


def start(code, env):
    program = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    program.stdout.readline()
    return program


def go_on(program):
    program.stdin.write("\n")
    program.stdin.flush()


def since(log, at, word=""):
    with open(log) as file:
        file.seek(at)
        return [line.strip() for line in file if word in line]


def end(code, killed, env, log):
    program = start(code, env)
    time.sleep(0.3)
    at, pidfd, held = os.path.getsize(log), os.pidfd_open(program.pid), Held(program.pid, "all")
    program.kill() if killed else go_on(program)
    select.select([pidfd], [], [], 60)
    seen = time.time()
    time.sleep(0.5)
    list(held.close("good"))
    program.wait()
    os.close(pidfd)
    line = since(log, at, "Context ID: 1} exiting")[0]
    return round((seen - datetime.datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S.%f").timestamp()) * 1000, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=6)
    tries = parser.parse_args().tries
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, check=True)
        log = f"{folder}/server.log"
        try:
            start(CONTEXT, env).kill()  # makes the server
            time.sleep(1)
            print("| end | ms from the line to the exit |\n| --- | --- |")
            for name, (code, killed) in ENDS.items():
                print(f"| {name} | {sorted(end(code, killed, env, log) for _ in range(tries))} |", flush=True)
            quiet, faulty = start(CONTEXT + DESTROY + "print('gone', flush=True); signal.pause()", env), start(FAULT, env)
            at = os.path.getsize(log)
            go_on(quiet)
            quiet.stdout.readline()
            go_on(faulty)
            faulty.wait()
            time.sleep(1)
            print(f"process {quiet.pid} destroys its context and runs on, {faulty.pid} uses an illegal address:", *since(log, at), sep="\n")
            quiet.kill()
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 5\n", text=True, env=env, check=False)


if __name__ == "__main__":
    main()
