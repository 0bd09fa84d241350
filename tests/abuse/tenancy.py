"""A former tenant reaches nothing of its successor: it keeps its endpoint's directory open past its pod's end, and a client, and
the next pod gets the same slots. And a process of a different pod does not come in by an endpoint that it was handed."""

import json, os, sys, uuid

from bed import Client, last_json, line_of, main, wait_for


def clients_of(bed):
    return [pid for endpoint in bed.pool()["endpoints"] for pid in endpoint["clients"]]


def pod_group():
    """A control group that is named as kubelet names those of a pod's container; None where this process may make none."""
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/pids"):
        # Not in the folder of a kubelet of this machine, which removes pods that it does not know.
        path = f"{root}/tranche-test-{os.getpid()}/kubepods/besteffort/pod{uuid.uuid4()}/{uuid.uuid4().hex * 2}"
        try:
            os.makedirs(path)
        except OSError:
            continue
        if os.path.exists(f"{path}/cgroup.procs"):
            return path
        os.removedirs(path)
    return None


# A Python program whose first thread has exited before the rest begins, as with pthread_exit in main.
HEADLESS = """
import ctypes, os, runpy, sys, threading, time
def rest():
    while "State:\\tZ" not in open("/proc/self/status").read():
        time.sleep(0.001)
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def into(group, *then):
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *then)


def removed(group):
    """Whether its processes have exited and it is gone."""
    try:
        os.removedirs(group)
    except OSError:
        return False
    return True


def succession(bed, checks):
    former = bed.tenant("former")
    resident = former.client()
    checks.check("the former tenant's client is in", resident.ready())
    kept = os.open(former.endpoint, os.O_PATH | os.O_DIRECTORY)
    way = {"CUDA_MPS_PIPE_DIRECTORY": f"/proc/{os.getpid()}/fd/{kept}"}
    former.delete()
    wait_for(lambda: "former" not in bed.kubelet_pods())
    late = Client(bed.machine, way)  # into a share that no container holds
    late.take()
    next_one = bed.tenant("next")
    client = next_one.client()
    checks.check("the next tenant's client comes in", client.ready())
    checks.check("with the memory of its share", client.ask("alloc 1000").get("code") == 0)
    checks.check("its endpoint is a directory of its own", next_one.endpoint == former.endpoint and os.fstat(kept).st_nlink == 0)
    checks.check("clients of the former tenant are ended", wait_for(lambda: resident.process.poll() is not None and late.process.poll() is not None))
    checks.check("and are not this tenant's", clients_of(bed) == [client.pid], clients_of(bed))
    again = Client(bed.machine, way)
    again.take()
    checks.check("the directory that was kept leads nowhere", again.pid not in clients_of(bed))
    again.kill()
    client.leave()
    next_one.delete()
    wait_for(lambda: "next" not in bed.kubelet_pods())
    os.close(kept)


def beside_mps(bed, checks):
    """A program of the former tenant that runs beside MPS lives on: the guard must not count it as its successor's."""
    former = bed.tenant("former")
    outsider = Client(bed.machine, {**former.envs, "CUDA_MPS_PIPE_DIRECTORY": "/nonexistent"}, prefix=former.enter)
    checks.check("a program beside MPS holds memory", outsider.ready() and outsider.ask("alloc 40000").get("code") == 0)
    wait_for(lambda: any(p.get("grant") for d in bed.status()["devices"] for p in d["processes"] if p["pid"] == outsider.pid))
    former.delete()
    wait_for(lambda: "former" not in bed.kubelet_pods())
    next_one = bed.tenant("next")
    client = next_one.client()
    checks.check("the next tenant has the same slots", client.ready() and next_one.endpoint == former.endpoint)
    checks.check("and memory within its share", client.ask("alloc 40000").get("code") == 0)
    seen = lambda: any(p["pid"] == client.pid and p["memoryMiB"] >= 40000 for d in bed.status()["devices"] for p in d["processes"])
    checks.check("and keeps it when the guard has seen it", wait_for(seen) and client.ask("info").get("held") == 40000, bed.status()["guard"]["acts"])
    for each in (outsider, client):
        each.kill()
    next_one.delete()
    wait_for(lambda: "next" not in bed.kubelet_pods())


def foreign_pod(bed, checks):
    groups = [pod_group(), pod_group()]
    if None in groups:
        return print("   skip the pods of clients are compared: no control groups can be made here")
    tenant = bed.tenant("holder")
    own = Client(bed.machine, tenant.envs, prefix=into(groups[0], *tenant.enter))
    checks.check("a client of the pod that holds the share is in", own.ready())
    foreign = Client(bed.machine, tenant.envs, prefix=into(groups[1], *tenant.enter))
    checks.check("a process of a different pod is refused", foreign.refused())
    why = next(d["refusedWhy"] for d in bed.pool()["endpoints"] if d["clients"])
    checks.check("with both pods named", all(g.split("/pod")[1].split("/")[0] in why for g in groups), why)
    if os.uname().machine == "x86_64":  # the call's number
        headless = Client(bed.machine, tenant.envs, prefix=into(groups[1], *tenant.enter, sys.executable, "-c", HEADLESS))
        checks.check("and one without its first thread", headless.refused())
        why = next(d["refusedWhy"] for d in bed.pool()["endpoints"] if d["clients"])
        checks.check("with both pods named too", clients_of(bed) == [own.pid] and all(g.split("/pod")[1].split("/")[0] in why for g in groups), why)
        headless.kill()
        headless = Client(bed.machine, tenant.envs, prefix=into(groups[0], *tenant.enter, sys.executable, "-c", HEADLESS))
        checks.check("one of its own pod is let in", headless.ready() and headless.pid in clients_of(bed))
        headless.kill()
        wait_for(lambda: clients_of(bed) == [own.pid])
        lifted = {**tenant.envs, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "zz"}
        headless = Client(bed.machine, lifted, prefix=into(groups[0], *tenant.enter, sys.executable, "-c", HEADLESS))
        why = next(d["refusedWhy"] for d in bed.pool()["endpoints"] if d["clients"]) if headless.refused() else "it came in"
        checks.check("but not with a variable that lifts its limit", "PINNED_DEVICE_MEM_LIMIT" in why, why)
        headless.kill()
    pool = bed.pool()["id"]
    grant = os.path.basename(tenant.endpoint)
    again = {"do": "openEndpoint", "pool": pool, "grant": grant, "newTenant": True}
    answer = last_json(line_of(bed.path("mps/mps.sock"), json.dumps(again)))
    checks.check("a container that runs keeps its share when kubelet, without its checkpoint, asks for it again",
                 answer.get("ok") and own.well() and clients_of(bed) == [own.pid], answer)
    second = Client(bed.machine, tenant.envs, prefix=into(groups[1], *tenant.enter))
    checks.check("and the pod that kubelet gives it to comes in beside it", second.ready() and own.well())
    for client in (own, foreign, second):
        client.kill()
    tenant.delete()
    wait_for(lambda: not clients_of(bed))
    for group in groups:
        wait_for(lambda group=group: removed(group))


def run(bed, checks):
    succession(bed, checks)
    beside_mps(bed, checks)
    foreign_pod(bed, checks)


if __name__ == "__main__":
    sys.exit(main(run, __doc__, slots=2))
