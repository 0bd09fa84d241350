"""Every file that either program keeps, after every damage: the program starts and serves, the tenant that runs keeps its limit
and its client, and a new client of it comes in. What is lost is that file's own fact, and it is logged."""

import os, shutil, signal, sys

from bed import main, wait_for

BIG, LINES = b"x" * (20 << 20), b"GPU-x x x x x 5 5\n" * 1000


def spoil(path, kind):
    """Puts something in the place of a file; what was there goes."""
    old = b""
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as file:
            old = file.read()
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind == "a directory":
        os.makedirs(f"{path}/below")
    elif kind == "a named pipe":
        os.mkfifo(path)
    elif kind == "a dangling link":
        os.symlink("/no/such/file", path)
    elif kind == "a link to /etc/passwd":
        os.symlink("/etc/passwd", path)
    else:
        with open(path, "wb") as file:
            file.write(KINDS[kind] if KINDS[kind] is not None else old[: len(old) // 2] if kind == "cut in half" else old)
        if kind == "without any rights":
            os.chmod(path, 0)


KINDS = {"empty": b"", "garbage": bytes(range(256)) * 12, "zeros": b"\0" * 4096, "cut in half": None, "20 MB": BIG, "a directory": None,
         "a named pipe": None, "a dangling link": None, "a link to /etc/passwd": None, "without any rights": None, "JSON null": b"null",
         "a JSON list": b"[]", "deep JSON": b"[" * 100000, "lines of another file": LINES}


def files_of(bed, grant):
    """Path below the bed: (who keeps it, whether its loss is the operator's to hear of)."""
    pool = f"mps/pools/{bed.pool()['id']}"
    return {
        "run/grants.txt": "node", "run/stopped.txt": "node", "run/config-in-force.json": "node",
        "run/node.sock": "node", "plugins/nvidia-gpu.sock": "node",
        "mps/compute-mode.json": "mps", "mps/ending.txt": "mps", "mps/other-holders": "mps", "mps/mps.lock": "mps", "mps/mps.sock": "mps",
        f"{pool}/clients.txt": "mps", f"{pool}/limits/{grant}": "mps", f"{pool}/pipe/nvidia-cuda-mps-control.pid": "mps",
        f"{pool}/log/control.log": "mps", f"{pool}/endpoints/{grant}/control": "mps",
        f"{pool}/endpoints/zz": "mps", "mps/pools/gpu-zzzz": "mps",
    }


def limits(bed):
    return sorted((limit["device"], limit["limitMiB"]) for limit in bed.status().get("guard", {}).get("limits", []))


def run(bed, checks):
    tenant = bed.tenant("tenant")
    client = tenant.client()
    checks.check("a tenant's program runs", client.ready() and client.ask("alloc 64").get("code") == 0)
    grant = os.path.basename(tenant.endpoint)
    before = wait_for(lambda: limits(bed))
    daemon = bed.pool()["daemonPid"]
    with open("/etc/passwd", "rb") as file:
        passwd = file.read()
    for name, program in files_of(bed, grant).items():
        failed = []
        for kind in KINDS:
            bed.end(program, signal.SIGKILL)
            spoil(bed.path(name), kind)
            bed.start(program)
            well = bed.all_healthy() and bool(wait_for(lambda: limits(bed) == before))
            if not bed.alive(program):
                failed.append(f"{kind}: {program} ended: {bed.log(program).strip().splitlines()[-1][:200]}")
                shutil.rmtree(bed.path(name), ignore_errors=True)
                bed.start(program)
                bed.all_healthy()
                continue
            if not well:
                failed.append(f"{kind}: {bed.healthy()} healthy, {limits(bed)}, pool {bed.pool().get('reason')}")
            if bed.pool().get("daemonPid") != daemon:
                failed.append(f"{kind}: another daemon")
                daemon = bed.pool().get("daemonPid")
            new = tenant.client()
            if not new.ready():
                failed.append(f"{kind}: a new client does not come in")
            new.leave()
        checks.check(f"{name.replace(grant, 'GRANT')}, spoiled in {len(KINDS)} ways", not failed, "; ".join(failed))
    with open("/etc/passwd", "rb") as file:
        checks.check("what a link leads to is not touched", file.read() == passwd)
    checks.check("the tenant's program has run through it all", client.well())
    logged = bed.log("node").count("state.lost") + bed.log("mps").count("state.lost")
    checks.check("losses are logged", logged > 40, logged)
    client.leave()
    tenant.delete()


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
