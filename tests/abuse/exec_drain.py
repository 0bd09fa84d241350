"""A drained container stays closed until its first process has exited, also if its client was started by exec, and over a
kill of `tranche mps`."""

import signal, sys

from bed import PATIENCE, main, wait_for


def run(bed, checks):
    if bed.machine.containers != "namespaces":
        return print("   not run: a container of its own needs root")
    tenant = bed.tenant("t")
    client = tenant.client()
    checks.check("a client started by exec connects", client.ready())
    drained = tenant.drain()
    checks.check("it is ended", drained.get("ok") and client.process.wait(PATIENCE) is not None, drained)
    late = tenant.client()
    checks.check("its container is closed", late.refused())
    late.kill()
    bed.end("mps", signal.SIGKILL)
    bed.start("mps")
    checks.check("a killed `tranche mps` serves again", bed.all_healthy())
    late = tenant.client()
    checks.check("its container is still closed", late.refused())
    late.kill()
    checks.check("the container itself goes on", bed.kubelet_pods()["t"]["containers"][0]["state"] == "Running")
    tenant.delete()
    checks.check("it is gone", wait_for(lambda: "t" not in bed.kubelet_pods()))
    after = bed.tenant("after").client()
    checks.check("the next container's client connects", after.ready())
    after.kill()


if __name__ == "__main__":
    sys.exit(main(run, __doc__, slots=1))
