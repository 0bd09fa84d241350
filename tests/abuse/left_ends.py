"""A client that a killed `tranche mps` had stopped, in order to end it, is ended when `tranche mps --end` is what comes next; one that its
container has continued meanwhile too."""

import os, signal, subprocess, sys

from bed import main, state, wait_for


def start_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[19]


def run(bed, checks):
    bed.end("node")
    bed.end("mps", signal.SIGKILL)
    client, continued, other = (subprocess.Popen(["sleep", "600"]) for _ in range(3))
    client.send_signal(signal.SIGSTOP)
    wait_for(lambda: state(client.pid) == "T")
    with open(bed.path("mps/ending.txt"), "w") as file:
        file.write(f"{client.pid} {start_ticks(client.pid)}\n{continued.pid} {start_ticks(continued.pid)}\n"
                   f"{other.pid} {int(start_ticks(other.pid)) + 1}\n")
    argv = [word for word in bed.parts["mps"].args if word != "--listen"]
    ended = subprocess.run([*argv, "--end"], env=bed.machine.env, capture_output=True, text=True, timeout=60)
    checks.check("--end succeeds and says so", ended.returncode == 0 and "2 clients that were being ended: finished" in ended.stdout, ended.stdout + ended.stderr)
    checks.check("the client has ended", wait_for(lambda: client.poll() is not None))
    checks.check("and so has the one that was continued", wait_for(lambda: continued.poll() is not None))
    checks.check("a process with a reused number is left alone", other.poll() is None)
    checks.check("the file is gone", not os.path.exists(bed.path("mps/ending.txt")))
    for process in (continued, other):
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
