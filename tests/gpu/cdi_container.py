#!/usr/bin/env python3
"""Our CDI specification on a real GPU: the program under the name `nvidia-device-plugin` writes it (cdi-cri), kubelet's
double is given a device by it, and a container made of nothing but a C library and what the specification names runs
`tranche plan --inventory-only` (the management library) and `tranche probe` (CUDA). Prints a table and exits 1 when a row does not hold. Needs root, a GPU, and BIN and
STANDINS of a build. Changes no setting of the GPU.

The edits are applied as the CDI specification words them; of the hooks, create-symlinks, update-ldcache (ldconfig) and
disable-device-node-modification are done here, the others are listed and left out. There is no device cgroup."""

import argparse, json, os, re, shutil, signal, subprocess, sys, tempfile

from gpu_bed import wait_for
from rows import parsed, parser, promises

def run(*argv, **kw):
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=60, **kw)


def libraries_of(program):
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", run("ldd", program).stdout, re.MULTILINE)))


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


# --- in the mount namespace of the container ------------------------------------------------------------------------


def put(root, source, target, read_only=True):
    """Binds a file, folder, socket or node of this machine at a path of the container."""
    here = root + target
    os.makedirs(os.path.dirname(here), exist_ok=True)
    if os.path.isdir(source):
        os.makedirs(here, exist_ok=True)
    elif not os.path.lexists(here):
        open(here, "w").close()
    done = run("mount", "--bind", source, here)
    if done.returncode == 0 and read_only:
        run("mount", "-o", "remount,bind,ro", here)
    return done.returncode == 0


def inside(job):
    root = job["root"]
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root], check=True)
    for folder in ("proc", "dev", "tmp", "etc", "usr/bin", "sbin", "run"):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    ldconfig = "/sbin/ldconfig.real" if os.path.exists("/sbin/ldconfig.real") else "/sbin/ldconfig"  # Ubuntu wraps it
    for program in (job["tranche"], ldconfig):
        target = "/usr/bin/tranche" if program == job["tranche"] else "/sbin/ldconfig"
        shutil.copy(program, root + target)
        # A C library is what every container has, with the parts that are empty shells by now.
        shells = [f"/lib/x86_64-linux-gnu/{name}" for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1")]
        for library in libraries_of(program) + [path for path in shells if os.path.exists(path)]:
            os.makedirs(root + os.path.dirname(library), exist_ok=True)
            shutil.copy(os.path.realpath(library), root + library)
    with open(f"{root}/etc/ld.so.conf", "w") as conf:
        conf.write("/usr/local/lib\n")  # where this machine may have libraries of our own program
    subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
    failed, env, left_out = [], {"PATH": "/usr/bin:/bin:/sbin"}, []
    for edits in job["edits"]:
        env.update(item.split("=", 1) for item in edits.get("env", []))
        for mount in edits.get("mounts", []):
            if not put(root, mount["hostPath"], mount["containerPath"], "ro" in mount.get("options", [])):
                failed.append(mount["hostPath"])
        for node in edits.get("deviceNodes", []):
            if not put(root, node.get("hostPath", node["path"]), node["path"], False):
                failed.append(node["path"])
    for edits in job["edits"]:
        for hook in edits.get("hooks", []):
            words = hook["args"]
            if "create-symlinks" in words:
                for link in [words[i + 1] for i, word in enumerate(words) if word == "--link"]:
                    target, _, place = link.partition("::")
                    os.makedirs(os.path.dirname(root + place), exist_ok=True)
                    if not os.path.lexists(root + place):
                        os.symlink(target, root + place)
            elif "update-ldcache" in words:
                folders = [words[i + 1] for i, word in enumerate(words) if word == "--folder"]
                run("chroot", root, "/sbin/ldconfig", *folders)
            elif "disable-device-node-modification" in words:
                # The driver's libraries make the nodes that they miss where they may; the driver's parameters name them.
                with open("/proc/driver/nvidia/params") as params, open(f"{root}/tmp/params", "w") as changed:
                    changed.write(params.read().replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0"))
                run("mount", "--bind", f"{root}/tmp/params", f"{root}/proc/driver/nvidia/params")
            else:
                left_out.append(words[-1] if words[-1].startswith("d") or "=" not in words[-1] else words[-2])
    listed = run("chroot", root, "/usr/bin/tranche", "plan", "--inventory-only", "--json", env=env)
    probe = run("chroot", root, "/usr/bin/tranche", "probe", "--json", env=dict(env, HOME="/tmp"))
    print(json.dumps({"failed": failed, "hooks": left_out, "listed": listed.stdout, "listedError": listed.stderr[-300:],
                      "probe": probe.stdout, "probeStatus": probe.returncode, "probeError": probe.stderr[-600:]}))


# --- outside ----------------------------------------------------------------------------------------------------------


def main():
    made = parser(__doc__)
    made.add_argument("--inside", help=argparse.SUPPRESS)
    args = parsed(made)
    if args.inside:
        return inside(load(args.inside))

    rows = []

    def row(what, seen, holds):
        rows.append((what, "", seen, holds))

    scratch = tempfile.mkdtemp(prefix="trn.", dir="/tmp")
    for name in ("plugins", "run", "cdi", "root"):
        os.mkdir(f"{scratch}/{name}")
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "command": ["/bin/sleep", "100"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}]
    with open(f"{scratch}/pods.yaml", "w") as file:
        file.write("\n---\n".join(json.dumps(pod) for pod in pods))
    plugin = f"{scratch}/nvidia-device-plugin"
    os.symlink(os.path.abspath(f"{args.bin}/tranche"), plugin)
    parts = [
        subprocess.Popen([f"{args.standins}/sim-kubelet", "--plugin-dir", f"{scratch}/plugins", "--pod-resources-socket", f"{scratch}/run/pr.sock",
                          "--pods", f"{scratch}/pods.yaml", "--state-file", f"{scratch}/run/kubelet.json"], stderr=subprocess.DEVNULL),
        subprocess.Popen([plugin, "--plugin-dir", f"{scratch}/plugins", "--run-dir", f"{scratch}/run", "--pod-resources-socket", f"{scratch}/run/pr.sock",
                          "--cdi-root", f"{scratch}/cdi"], env=dict(os.environ, DEVICE_LIST_STRATEGY="cdi-cri"),
                         stderr=open(f"{scratch}/plugin.log", "w"))]
    try:
        spec = wait_for(lambda: load(f"{scratch}/cdi/k8s.device-plugin.nvidia.com-gpu.json"))
        row("the specification is written", f"{len(spec['devices'])} devices, cdiVersion {spec['cdiVersion']}" if spec else "no", bool(spec))

        def devices_of_pod():
            text = json.dumps(load(f"{scratch}/run/kubelet.json") or {})
            return re.findall(r"k8s\.device-plugin\.nvidia\.com/gpu=([^\"\\]+)", text)

        names = wait_for(devices_of_pod) or []
        row("kubelet is answered with its name", names, bool(names))
        if spec and names:
            device = next(each for each in spec["devices"] if each["name"] == names[0])
            edits = [spec.get("containerEdits", {}), device["containerEdits"]]
            with open(f"{scratch}/job.json", "w") as file:
                json.dump({"root": f"{scratch}/root", "tranche": os.path.abspath(f"{args.bin}/tranche"), "edits": edits}, file)
            done = run("unshare", "--mount", "--pid", "--fork", "--propagation", "private", sys.executable, os.path.abspath(__file__), "--inside", f"{scratch}/job.json")
            output = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": [done.stderr[-300:]]}
            row("every path that it names is on this node", f"{sum(len(e.get('mounts', [])) for e in edits)} mounts, "
                f"{sum(len(e.get('deviceNodes', [])) for e in edits)} nodes; failed: {output['failed']}", not output["failed"])
            gpus = [gpu["uuid"] for gpu in json.loads(output.get("listed") or "{}").get("gpus", [])]
            row("the management library in the container sees that GPU and no other", gpus or output.get("listedError"), gpus == names)
            row("tranche probe in the container: a CUDA program computes right", (output.get("probe") or output.get("probeError", ""))[:300].replace("\n", " "), output.get("probeStatus") == 0)
            seen = json.loads(output.get("probe") or "{}").get("device", {})
            row("CUDA in the container sees that GPU and no other", f"{seen.get('visible')} visible: {seen.get('uuid')}", seen.get("visible") == 1 and seen.get("uuid") == names[0])
            row("hooks that this container did without", sorted(set(output.get("hooks", []))), True)
    finally:
        for part in reversed(parts):
            part.send_signal(signal.SIGTERM)
            part.wait(20)
    row("the plugin ends with status 0", parts[1].returncode, parts[1].returncode == 0)
    promises(rows)
    bad = not all(holds for *_, holds in rows)
    if bad:
        print(open(f"{scratch}/plugin.log").read()[-3000:], file=sys.stderr)
    shutil.rmtree(scratch, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
