"""`tranche web` in a real browser, of a cluster of three nodes: two show what a real agent on the stand-ins reports, one is silent. Exit status 77 without Chromium."""

import copy, http.client, json, os, signal, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
from bed import main, wait_for  # noqa: E402
from browser import CONFIG, axe, looks_right  # noqa: E402
from chromium import Chromium, program  # noqa: E402
from cluster import Cluster  # noqa: E402
from observe_node import ask  # noqa: E402

HOSTILE = "<img src=x onerror=document.title='taken'>"


def several(status):
    """Two nodes of three GPUs in different states, made of the one GPU of a real report."""
    def node(name, states):
        document, device, grants = copy.deepcopy(status), status["devices"][0], status["grants"]
        document["devices"], document["grants"] = [], []
        for index, state in enumerate(states):
            uuid = f"GPU-{name}-{index}"
            one = {**copy.deepcopy(device), "uuid": uuid, "index": str(index)}
            if state == "unhealthy":
                one.update(healthy=False, reason="XID 79 (the GPU has fallen off the bus): receives no new pods")
            if state != "held":
                for slot in one["slots"]:
                    slot.pop("holder", None)
            document["devices"].append(one)
            if state == "held":
                for grant in copy.deepcopy(grants):
                    grant["devices"][0]["uuid"] = uuid
                    document["grants"].append(grant)
        return document

    return {"gpu-node-1": node("1", ["held", "free", "unhealthy"]), "gpu-node-2": node("2", ["held", "held"]), "gpu-node-3": None}


def run(bed, checks):
    tenants = [bed.tenant("train", 2), bed.tenant("serve", 1)]
    checks.check("two containers hold slots", wait_for(lambda: len(json.loads(ask(bed, "/status")[2])["grants"]) == 2))
    statuses = several(json.loads(ask(bed, "/status")[2]))
    statuses["gpu-node-2"]["grants"][0]["pod"] = HOSTILE
    for slot in statuses["gpu-node-2"]["devices"][0]["slots"]:
        if slot.get("holder", "").startswith("default/serve"):
            slot["holder"] = f"default/{HOSTILE}/main"
    cluster = Cluster(statuses)
    words = [f"{bed.machine.bin}/tranche", "web", "--kubeconfig", cluster.kubeconfig(bed.path("kubeconfig"))]
    once = json.loads(bed.machine.run(*words, "--json").stdout)
    of = once["resources"]["nvidia.com/gpu"]
    checks.check("--json has the capacity", (of["slots"], of["free"], of["unhealthy"], of["largestRequest"]) == (20, 7, 4, 4), of)
    fits = {fit["slots"]: (fit["containers"], fit["byNode"]) for fit in of["fits"]}
    checks.check("the simulator says what would fit, and where", fits == {1: (7, {"gpu-node-1": 5, "gpu-node-2": 2}), 2: (2, {"gpu-node-1": 2}), 3: (1, {"gpu-node-1": 1}), 4: (1, {"gpu-node-1": 1})}, of["fits"])
    checks.check("it asked for two lists, and each agent once", len(cluster.asked) == 5, cluster.asked)

    why = bed.machine.run(words[0], "why", "serve", "--cluster", *words[2:])
    heads = [line for line in why.stdout.splitlines() if line.startswith("node ")]
    checks.check("`why --cluster` finds a pod on its nodes, and names the silent one", heads and all("default/serve: holds 1 slot" in h for h in heads) and "node gpu-node-1," in heads[0] and "gpu-node-3 is not known" in why.stderr, (why.stdout, why.stderr))

    top = bed.machine.run(words[0], "top", "--cluster", "--once", *words[2:])
    checks.check("`top --cluster` has a row for each node, and their tenants", all(part in top.stdout for part in ("2 of 3 node agents ready", "gpu-node-3", "NO ANSWER", "gpu-node-2 1", "default/train/main")), (top.stdout, top.stderr))

    web = subprocess.Popen([*words, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=bed.machine.env)
    url = next((word for word in web.stdout.readline().split() if word.startswith("http://127.0.0.1") and not word.endswith(f":{cluster.server.server_port}")), "")
    checks.check("it says where the page is", url.endswith("/"), url)
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
    connection.request("GET", "/", headers={"Host": "attacker.example"})
    checks.check("it answers for its own names only", connection.getresponse().status == 421)
    browser = Chromium()
    try:
        looks_right(browser, checks, url, "cluster", axe())
        text = browser.run("document.body.innerText")
        checks.check("it shows nodes, GPUs and what is not known", all(part in text for part in ("gpu-node-1", "GPU 2", "3 of 4 held", "unhealthy", "not known", "What would fit", "gpu-node-1: 5, gpu-node-2: 2")), text[:600])
        checks.check("its pods are listed", all(part in text for part in ("default/train", "default/serve")), text[-600:])
        checks.check("a hostile name stays text", HOSTILE in text and browser.run("document.images.length") == 0 and browser.run("document.title").startswith("Tranche"), text[:500])
    finally:
        browser.end()
        web.send_signal(signal.SIGINT)
    checks.check("Ctrl-C ends it", web.wait(60) == 0)
    cluster.server.shutdown()
    for tenant in tenants:
        tenant.delete()


if __name__ == "__main__":
    if program() is None:
        print("Chromium is not there (Debian's package chromium): the page is not looked at in a browser")
        sys.exit(77)
    sys.exit(main(run, __doc__, config=CONFIG, more_node=("--listen", "127.0.0.1:0")))
