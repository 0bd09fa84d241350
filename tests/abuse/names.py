"""A process that calls itself as one of NVIDIA's daemons, by prctl or by the name of its program, is ended as any other process beside MPS
where the policy says so; one that runs with the rights of such a daemon is named and left alone."""

import os, shutil, subprocess, sys

from bed import Node, main, wait_for
from tenancy import into, pod_group, removed

CONFIG = Node.CONFIG.replace("replicas: 10", "replicas: 2").replace("leave\n", "leave\n    guard: {foreignProcesses: terminate}\n")
WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all")


def run(bed, checks):
    group = pod_group()
    if os.geteuid() != 0 or group is None:
        return print("   skip: needs root and a control group")
    if not shutil.which("setpriv"):
        return print("   skip: setpriv is not installed")
    program, name = f"{bed.machine.standins}/sim-cuda", bed.path("dcgm-link")
    copy = bed.path("dcgm-exporter")
    os.symlink(program, name)  # the process's name, as prctl(PR_SET_NAME) gives it
    shutil.copy(program, copy)  # the program's
    env = {**bed.machine.env, "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}

    def start(*words):
        return subprocess.Popen(into(group, *words, "--allocate", "1G", "--hold"), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def named(process):
        return any(p["pid"] == process.pid for p in bed.status()["guard"]["foreignProcesses"])

    daemon = start(copy)
    checks.check("one with a daemon's rights is named", wait_for(lambda: named(daemon)))
    by_name, by_program = start(name), start(*WITHOUT_RIGHTS, copy)
    checks.check("one with a daemon's name is ended", wait_for(lambda: by_name.poll() is not None), bed.status()["guard"]["acts"])
    checks.check("one with a daemon's program is ended", wait_for(lambda: by_program.poll() is not None), bed.status()["guard"]["acts"])
    checks.check("one with a daemon's rights runs on", daemon.poll() is None and named(daemon))
    for process in (daemon, by_name, by_program):
        process.kill()
        process.wait()
    wait_for(lambda: removed(group))


if __name__ == "__main__":
    sys.exit(main(run, __doc__, slots=2, config=CONFIG))
