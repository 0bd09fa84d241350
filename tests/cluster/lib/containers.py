"""The processes of a pod's containers, found by their cgroup: who is the first, how it ends, and when."""

import os
import time

from .report import Failed, until


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def is_alive(pid):
    state = read(f"/proc/{pid}/stat").rpartition(") ")[2][:1]
    return state not in ("", "Z", "X")


def of_pod(pod):
    """{pid: words of its command line} of all its containers' processes, without the pause container's."""
    uid = pod["metadata"]["uid"]
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if uid in read(f"/proc/{name}/cgroup").replace("_", "-"):
            words = read(f"/proc/{name}/cmdline").split("\0")[:-1]
            if words and words[:2] != ["/bin/sleep", "1000000"] and is_alive(name):
                found[int(name)] = words
    return found


def called(pod, name):
    """The process of the pod whose first word is `name`."""
    return next((pid for pid, words in of_pod(pod).items() if words[0] == name), None)


def of_daemon_set(api, namespace, name, ready=True):
    """The one pod of a DaemonSet that is not being deleted, once all its containers run; None before. By its owner: NVIDIA's
    chart gives its three DaemonSets the same labels."""
    status, listed = api.call("GET", f"/api/v1/namespaces/{namespace}/pods")
    found = [p for p in (listed["items"] if status == 200 else []) if not p["metadata"].get("deletionTimestamp")
             and any(owner["name"] == name for owner in p["metadata"].get("ownerReferences", []))]
    if len(found) != 1:
        return None
    states = found[0]["status"].get("containerStatuses", [])
    return found[0] if not ready or (states and all(s["ready"] for s in states)) else None


def restarts(pod):
    return {s["name"]: s["restartCount"] for s in pod["status"].get("containerStatuses", [])}


def delete_and_time(api, pod):
    """Deletes the pod as kubectl does; {argv[0]: seconds from the request to the end of that process}."""
    running, ends = of_pod(pod), {}
    if not running:
        raise Failed(f"pod {pod['metadata']['name']} has no process to end")
    meta, began = pod["metadata"], time.monotonic()
    api.call("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")

    def gone():
        for pid, words in running.items():
            if pid not in ends and not is_alive(pid):
                ends[pid] = time.monotonic() - began
        return len(ends) == len(running)

    until(f"the processes of {meta['name']} to end", gone, pause=0.02)
    slowest = {}
    for pid, words in running.items():
        slowest[words[0]] = max(slowest.get(words[0], 0.0), ends[pid])
    return slowest
