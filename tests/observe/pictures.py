"""Pictures for the documents of what people see of a node and of a cluster, made from the programs of a build on the stand-ins:
`tranche top`, `tranche why`, the page of the node agent and that of `tranche web`. All are SVG with the text that is shown as text, so
that a change is a readable difference; a page's picture holds the page itself.

    python3 tests/observe/pictures.py build            # fails where docs/pictures shows a different text
    UPDATE_PICTURES=1 python3 tests/observe/pictures.py build   # writes docs/pictures

Without Chromium (Debian's package chromium), the pictures of pages are left out."""

import json, os, re, signal, subprocess, sys
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
from bed import PATIENCE, find, main, wait_for  # noqa: E402
from chromium import Chromium, program  # noqa: E402
from cluster import Cluster  # noqa: E402
from observe_node import address, ask  # noqa: E402
from screen import Screen  # noqa: E402

PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "pictures")
UPDATE = os.environ.get("UPDATE_PICTURES") == "1"
GPUS, SLOTS = 3, 10
CONFIG = f"""version: v1
sharing:
  mps:
    failRequestsGreaterThanOne: false
    resources:
    - {{name: nvidia.com/gpu, replicas: {SLOTS}}}
"""
# name, slots, how much each of its processes allocates
PODS = [("train", 6, ["60GiB"]), ("finetune", 5, ["42GiB"]), ("inference-0", 2, ["12GiB"]), ("inference-1", 2, ["12GiB", "10GiB"]),
        ("notebook-0", 1, ["2GiB"]), ("notebook-1", 1, ["13500MiB"]), ("greedy", 1, ["9GiB", "9GiB"])]  # the guard stops a process of greedy
# What changes from run to run, as the pictures show it.
STEADY = [(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d", r"2026-11-25\g<1>09:00:00"), (r"read \d+ s ago", "read 1 s ago"),
          (r"http://127\.0\.0\.1:\d+", "https://cluster.example:6443"), (r"Tranche \d+\.\d+\.\d+", "Tranche"),
          (r"for \d+s\b", "for 2s"), (r"\d+s ago: ", "1s ago: "), (r"process \d+ \(", "process 21798 ("),
          (r"waited \d+ ms", "waited 2000 ms")]


def steady(text):
    for pattern, value in STEADY:
        text = re.sub(pattern, value, text)
    return text


def text_of(svg):
    """The words that a picture shows, without its measures and colours."""
    return re.sub(r"<style>.*?</style>|<[^>]*>", " ", svg, flags=re.DOTALL).split()


def keep(checks, name, svg):
    path = os.path.join(PICTURES, name)
    if UPDATE:
        with open(path, "w") as file:
            file.write(svg)
    try:
        with open(path) as file:
            kept = file.read()
    except OSError:
        kept = ""
    old, new = text_of(kept), text_of(svg)
    at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    where = slice(max(0, at - 6), at + 6)
    checks.check(f"docs/pictures/{name} is current (if not: ./dev pictures)", old == new, "" if old == new else f"it shows {' '.join(old[where])!r}, now it is {' '.join(new[where])!r}")
    checks.check(f"docs/pictures/{name} is small", 0 < len(kept) < 60_000, len(kept))


def described(title):
    """`title`: "what it is: what it shows"."""
    what, shows = title.split(": ")
    return f"<title>{escape(what)}</title>\n<desc>{escape(shows)}</desc>"


# Of a terminal with a light text on a dark ground; the numbers are those of the "m" sequence.
COLOURS = {"": "#d0d7de", "1": "#ffffff", "2": "#8b949e", "31": "#ff8a80", "32": "#67d68a", "33": "#f0c36a", "7": "#14171b"}
CELL_WIDTH, CELL_HEIGHT, MARGIN = 7.8, 17, 12


def terminal_picture(screen, title):
    """The rows of a Screen: a <text> for each run of one style, as wide as its columns."""
    rows = [steady(row).rstrip() for row in screen.rows]
    while rows and not rows[-1]:
        rows.pop()
    width, height = round(screen.columns * CELL_WIDTH) + 2 * MARGIN, len(rows) * CELL_HEIGHT + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">\n{described(title)}',
           f'<rect x="0" y="0" width="{width}" height="{height}" rx="8" fill="#14171b"/>']
    for y, row in enumerate(rows):
        parts, at = [], 0
        while at < len(row):
            style, end = screen.styles[y].get(at, ""), at + 1
            while end < len(row) and screen.styles[y].get(end, "") == style:
                end += 1
            shown = row[at:end].rstrip() if style != "7" else row[at:end]
            left, top = MARGIN + at * CELL_WIDTH, MARGIN + y * CELL_HEIGHT
            if style == "7":
                parts.append(f'<rect x="{left:.1f}" y="{top}" width="{(end - at) * CELL_WIDTH:.1f}" height="{CELL_HEIGHT}" fill="#9aa4ae"/>')
            if shown.strip():
                blank = len(shown) - len(shown.lstrip())
                bold = ' font-weight="700"' if style == "1" else ""
                parts.append(f'<text x="{left + blank * CELL_WIDTH:.1f}" y="{top + 13}" textLength="{len(shown.strip()) * CELL_WIDTH:.1f}" fill="{COLOURS.get(style, COLOURS[""])}"{bold} '
                             f'xml:space="preserve">{escape(shown.strip())}</text>')
            at = end
        out.append("".join(parts))
    return "\n".join(out) + "\n</svg>\n"


# The page as a picture: its own markup and style sheet in an SVG that is as high as the page is at this width.
SERIALIZE = """(() => {
  const style = document.querySelector('style').textContent, body = document.body.cloneNode(true);
  for (const a of body.querySelectorAll('a')) a.removeAttribute('href');
  body.insertAdjacentHTML('afterbegin', '<style></style>');
  body.firstChild.textContent = style + 'body{box-sizing:border-box;min-height:100%}';
  return [document.body.scrollHeight, new XMLSerializer().serializeToString(body)];
})()"""


def page_picture(browser, url, title, width=1080):
    browser.look(width, height=100)
    browser.open(url)
    height, body = browser.run(SERIALIZE)
    height += 12
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" style="width:{width}px;height:{height}px" role="img">\n'
            f'{described(title)}\n<foreignObject width="{width}" height="{height}">\n{steady(body).strip()}\n</foreignObject>\n</svg>\n')


def shows(browser, svg, text, checks, name):
    """A browser takes the picture for one, and shows the page in it."""
    path = os.path.join(browser.folder, "picture.svg")
    with open(path, "w") as file:
        file.write(svg)
    browser.open(f"file://{path}")
    found = browser.run("document.documentElement.textContent")
    checks.check(f"{name} is a picture that a browser shows", text in found and not browser.complaints(), browser.complaints() or "")
    browser.picture(os.path.join(sys.argv[1] if len(sys.argv) > 1 else "build", "pictures", f"{name}.png"))


def scene(bed, checks):
    """Seven pods on two GPUs; the third is unhealthy, and the guard has stopped a process."""
    sim = lambda *words: bed.machine.run(f"{bed.machine.standins}/sim-node", *words)
    sim("gpu", "2", "xid", "79")
    checks.check("a GPU is unhealthy", wait_for(lambda: bed.healthy() == (GPUS - 1) * SLOTS))
    tenants = []
    for name, slots, sizes in PODS:
        each = " & ".join(f"sim-cuda --allocate {size} --hold" for size in sizes)
        tenants.append(bed.tenant(name, slots, command=("sh", "-c", f"until test -e {bed.path('go')}; do sleep 0.1; done; {each} & wait")))
        wait_for(lambda: len(bed.status()["grants"]) == len(tenants))
    # The stop of a process names its pod only if the agent knows the pod by then.
    checks.check("all pods are known by name", wait_for(lambda: len([t for t in top_of(bed)["tenants"] if "/" in t["name"]]) == len(PODS)))
    with open(bed.path("go"), "w"):
        pass
    for gpu, (busy, celsius, watts) in enumerate([(86, 61, 512), (37, 48, 287), (0, 33, 78)]):
        sim("gpu", str(gpu), "utilization", str(busy), str(busy // 2))
        sim("gpu", str(gpu), "temperature", str(celsius)), sim("gpu", str(gpu), "power", str(watts))
    return tenants


def top_of(bed):
    return json.loads(bed.machine.run(f"{bed.machine.bin}/tranche", "top", "--socket", bed.path("run/node.sock"), "--json").stdout)


def driver_memory(bed):
    """MiB in use of each GPU, as the driver has it now: also what the keeper holds of a program that has ended."""
    shown = bed.machine.run(f"{bed.machine.standins}/sim-node", "show").stdout
    return [float(amount) * (1024 if unit == "GiB" else 1) for amount, unit in re.findall(r"^  memory (\S+) (GiB|MiB) of", shown, re.MULTILINE)]


def settled(bed):
    """Whether every program holds all its memory, the guard's culprit has ended and its memory is free, and nobody else holds any, by
    the driver's figures and by those that are shown."""
    top = top_of(bed)
    used = {t["name"].split("/")[1]: t for t in top["tenants"] if t["usedMiB"]}
    of_gpu = lambda gpu: sum(t["usedMiB"] for t in used.values() if t["device"] == str(gpu["index"]))
    for name, _, sizes in PODS:
        sizes = sizes[:1] if name == "greedy" else sizes
        wanted = sum(int(size[:-3]) << (10 if size.endswith("GiB") else 0) for size in sizes)
        if name not in used or used[name]["processes"] != len(sizes) or not wanted <= used[name]["usedMiB"] < wanted + 1024:
            return False
    figures = zip(top["devices"], driver_memory(bed), strict=True)
    return top["stops"] and all(max(gpu["usedMiB"] or 0, driver) - of_gpu(gpu) < 1024 for gpu, driver in figures)


def protection(bed):
    return {client["protected"] for client in find(bed.mps(), lambda each: "protected" in each)}


def several(status):
    """The node's report for two nodes of a cluster; the second has fewer pods, the third does not answer."""
    second = json.loads(json.dumps(status))
    for number, device in enumerate(second["devices"]):
        device["uuid"] = device["uuid"].replace("GPU-1e7462", "GPU-2f8573")
        device.update(healthy=True, reason="")
        if number == 1:
            for slot in device["slots"]:
                slot.pop("holder", None)
    free = status["devices"][1]["uuid"]
    second["grants"] = [g for g in second["grants"] if g["devices"][0]["uuid"] != free]
    for grant in second["grants"]:
        grant["devices"][0]["uuid"] = grant["devices"][0]["uuid"].replace("GPU-1e7462", "GPU-2f8573")
    return {"gpu-node-1": status, "gpu-node-2": second, "gpu-node-3": None}


def run(bed, checks):
    tenants = scene(bed, checks)
    checks.check("all pods use their GPU", wait_for(lambda: settled(bed)))
    root = os.geteuid() == 0  # who sees the nvidia-uvm device in /proc/devices: the keeper holds all clients
    checks.check("the keeper has looked at all clients", wait_for(lambda: protection(bed) == {"yes" if root else "no"}), protection(bed))
    tranche, node = f"{bed.machine.bin}/tranche", ["--socket", bed.path("run/node.sock")]
    top = Screen([tranche, "top", "--interval", "0.5", *node], columns=100, lines=24, env=bed.machine.env)
    checks.check("top shows its figures", top.until(lambda text: all(part in text for part in ("default/train/main", "SMs  86%", "SMs  37%", "SMs   0%", "Last stops"))), "" if top.rows[0] else top.text())
    keep(checks, "top.svg", terminal_picture(top, "tranche top: GPUs as bars, tenants with memory against their limits"))
    top.press("q"), top.end()

    both = "; ".join(f"echo '$ tranche why {name}'; {tranche} why {name} {' '.join(node)}" for name in ("2", "greedy"))
    why = Screen(["sh", "-c", both], columns=100, lines=30, env=bed.machine.env)
    checks.check("why explains a GPU and a pod", why.until("pod default/greedy") and why.end() == 0)
    if root:
        keep(checks, "why.svg", terminal_picture(why, "tranche why: the causes of the state of a GPU and of a pod"))

    if not root:
        print("   --   not root: tranche-keeper holds no client of a stand-in, so the pictures of why and of pages would differ")
    elif program() is None:
        print("   --   Chromium is not there (Debian's package chromium): no pictures of pages")
    else:
        pages(bed, checks, tranche)
    for tenant in tenants:
        tenant.delete()


def pages(bed, checks, tranche):
    def shows_what_is():
        """The figures of GPUs are read ahead for who looks again and again, so the page's can be older than those of tranche top."""
        page = ask(bed, "/")[2]
        memory = [int(shown) for shown in re.findall(r"memory (\d+) MiB in use", page)]
        near = all(abs(shown - driver) < 64 for shown, driver in zip(memory, driver_memory(bed)))
        return "SMs active 86 %" in page and "SMs active 37 %" in page and len(memory) == GPUS and near

    checks.check("the page of the node shows the figures of now", wait_for(shows_what_is, every=1.5))
    cluster = Cluster(several(json.loads(ask(bed, "/status")[2])))
    web = subprocess.Popen([tranche, "web", "--kubeconfig", cluster.kubeconfig(bed.path("kubeconfig")), "--port", "0"], stdout=subprocess.PIPE, text=True, env=bed.machine.env)
    at = re.search(r"at (http://\S+)", web.stdout.readline()).group(1)
    browser = Chromium()
    try:
        for name, url, title, part in (
            ("node-page", f"http://{address(bed)}/", "the page of a node: GPUs as bars with their tenants, limits and use, recent stops, and what is enforced", "default/train/main"),
            ("cluster-page", at, "the page of tranche web: capacity, nodes and GPUs as a map, what would fit, pods", "gpu-node-3")):
            svg = page_picture(browser, url, title)
            shows(browser, svg, part, checks, name)
            keep(checks, f"{name}.svg", svg)
    finally:
        browser.end()
        web.send_signal(signal.SIGINT)
        web.wait(PATIENCE)
        cluster.server.shutdown()


if __name__ == "__main__":
    sys.exit(main(run, __doc__, gpus=GPUS, slots=GPUS * SLOTS, config=CONFIG, bounded=False, uvm=True, more_node=("--listen", "127.0.0.1:0")))
