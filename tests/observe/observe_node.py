"""What is seen of a node with tenants: the page, the metrics (read by promtool where it is there), `tranche top` on a terminal and `tranche why`."""

import base64, hashlib, html.parser, http.client, json, os, re, shutil, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
from bed import PATIENCE, main, resident_kib, wait_for  # noqa: E402
from cluster import Cluster  # noqa: E402
from screen import Screen  # noqa: E402

TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "span", "bdi", "svg", "rect", "table", "tr", "th", "td", "meter",
        "div", "ul", "li", "a"}
CLOSED = {"html", "head", "title", "style", "body", "main", "h1", "h2", "p", "span", "bdi", "svg", "table", "meter", "div", "ul", "a"}


def address(bed):
    found = wait_for(lambda: re.search(r"http\.listening\s+address=(\S+)", bed.log("node")))
    return found.group(1)


def ask(bed, path, method="GET"):
    connection = http.client.HTTPConnection(address(bed), timeout=PATIENCE)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.wrong, self.attributes, self.style, self.links = set(), [], [], set(), "", set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.links |= {value for name, value in attributes if name == "href"}
        if tag in CLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_endtag(self, tag):
        if tag in CLOSED and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data


def the_page(bed, checks):
    # Promise: page: The page of a node runs no script and asks for nothing else.
    status, headers, text = ask(bed, "/")
    page = Page(text)
    policy = headers.get("Content-Security-Policy", "")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    checks.check("the page is served, as HTML", status == 200 and headers["Content-Type"].startswith("text/html"), status)
    checks.check("its policy allows nothing but its own style sheet", policy.startswith("default-src 'none'; style-src 'sha256-" + digest + "'"), policy[:90])
    checks.check("it has no markup but its own, and closes it", not page.wrong and not page.open and page.tags | {"title"} <= TAGS, (page.wrong, page.open, page.tags - TAGS))
    checks.check("it has no script, address or style attribute, and leads to itself only", not page.attributes & {"src", "style", "onerror", "onclick"} and page.links == {"/live"}, (page.attributes, page.links))
    live = ask(bed, "/live")[2]
    checks.check("it reloads by itself only where that was chosen", "http-equiv=refresh" not in text and "http-equiv=refresh" in live and Page(live).links == {"/"})
    shown = lambda: re.search(r"default/train/main</bdi><td class=n>1<td class=n>2\d{3} of 3594\d<td><meter", ask(bed, "/")[2])
    checks.check("it shows the tenant with its use, of its limit", wait_for(shown, every=0.5))
    checks.check("it shows the configuration in force", "Configuration in effect" in text and "of a file" in text)
    checks.check("it changes nothing: POST is refused", ask(bed, "/", "POST")[0] == 405)


def the_metrics(bed, checks):
    figures = lambda: ask(bed, "/metrics")[2]
    shown = wait_for(lambda: "tranche_gpu_sm_active_ratio{" in figures(), every=1.1)
    checks.check("GPUs are measured after the first scrape", shown)
    text = figures()
    for name in ("gpu_power_watts", "gpu_energy_joules_total", "gpu_temperature_celsius", "gpu_clock_hertz", "gpu_utilization_ratio", "tenant_clients"):
        checks.check(f"tranche_{name} is there", f"\ntranche_{name}{{" in text)
    labels = r'tranche_tenant_memory_used_bytes\{namespace="default",pod="train",container="main",gpu="GPU-[^"]+",resource="nvidia.com/gpu"\} (\d+)\n'
    found = re.search(labels, text)
    checks.check("the tenant's memory is there, with its names", found and int(found.group(1)) > 1 << 30, found and found.group(1))
    share = lambda: [float(v) for v in re.findall(r'tranche_tenant_share_held_seconds_total\{namespace="default",pod="train".*\} (\S+)', figures())]
    first = share()
    checks.check("the share that it holds is counted while it holds it", first and wait_for(lambda: share()[0] > first[0], every=1.1), first)
    dcgm = ask(bed, "/metrics/dcgm")[2]
    found = re.findall(r'^DCGM_FI_DEV_FB_USED_BYTES\{.*pod="train"\} (\d+)$', dcgm, re.MULTILINE)
    checks.check("under DCGM's names, the tenant has one row with its memory", len(found) == 1 and int(found[0]) > 1 << 30, found)
    checks.check("and the GPU has rows of its own, of no pod", re.search(r'^DCGM_FI_PROF_SM_UTIL_RATIO\{gpu="0",[^}]*modelName="NVIDIA H200"\} ', dcgm, re.MULTILINE), dcgm[:400])
    checks.check("no series comes twice", len(set(lines := [line.rsplit(" ", 1)[0] for line in text.splitlines() if line and line[0] != "#"])) == len(lines))
    heads = re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
    checks.check("no family comes twice", len(heads) == len(set(heads)))
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        remarks = [line for line in (done.stdout + done.stderr).splitlines() if line and "tranche_pool_limit_threads_percent" not in line]
        read = subprocess.run(["promtool", "check", "metrics"], input=dcgm, capture_output=True, text=True, check=False).returncode
        checks.check("promtool can read the page of DCGM's names (whose style is not Prometheus's)", read in (0, 3), read)
        checks.check("promtool has no remark (but on the older name with percent)", not remarks, remarks[:3])
    else:
        print("   --   promtool is not there (Debian's package prometheus)")


def the_status(bed, checks):
    used = lambda: next(g["devices"][0].get("usedMiB", 0) for g in json.loads(ask(bed, "/status")[2])["grants"] if g["pod"] == "train")
    checks.check("the status page says how much memory a grant uses, and names no process", wait_for(lambda: used() > 1024, every=0.5) and '"pid":' not in ask(bed, "/status")[2].replace('"pid":%d' % bed.pid("node"), ""), used())


def the_top(bed, checks):
    top = [f"{bed.machine.bin}/tranche", "top", "--socket", bed.path("run/node.sock")]
    once = bed.machine.run(*top, "--once")
    checks.check("`top --once` prints plain text", once.returncode == 0 and "default/train/main" in once.stdout and "\x1b" not in once.stdout, once.stderr)
    wait_for(lambda: json.loads(bed.machine.run(*top, "--json").stdout)["tenants"][0]["usedMiB"])
    document = json.loads(bed.machine.run(*top, "--json").stdout)
    train = next(t for t in document["tenants"] if "train" in t["name"])
    checks.check("`top --json` has the same tenants with their use", train["usedMiB"] > 1024 and train["processes"] == 1, train)

    # Promise: top: The live view fits the terminal, follows its size and gives it back as it was.
    screen = Screen([*top, "--interval", "0.3"], env=bed.machine.env)
    checks.check("it shows GPUs, tenants and limits at 80 columns", screen.until("default/train/main") and screen.until("LIMIT") and "GPU 0" in screen.text(), screen.text())
    checks.check("no line is wider than the terminal", all(len(row) <= 80 for row in screen.rows))
    checks.check("it is coloured on a terminal", screen.colours > 0)
    screen.press("h")
    checks.check("h shows the help", screen.until("sort by memory"))
    screen.press("h")
    screen.press("/train\r")
    checks.check("/ filters", screen.until(lambda text: "filter: train" in text and "default/x" not in text), screen.text())
    screen.press("\x1b")
    checks.check("Esc lifts the filter", screen.until("default/x"), screen.text())
    screen.press("N")
    checks.check("N sorts by name", screen.until("by name"))
    screen.resize(120, 10)
    checks.check("it follows the terminal's size", screen.until(lambda text: "TENANT" in text and len(screen.rows) == 10) and all(len(r) <= 120 for r in screen.rows))
    screen.resize(50, 30)
    checks.check("and fits a narrow one", screen.until("TENANT") and all(len(row) <= 50 for row in screen.rows), screen.text())
    screen.press("q")
    checks.check("q ends it", screen.end() == 0)
    checks.check("no control sequence but its own reached the terminal", not screen.unknown, screen.unknown[:3])
    plain = Screen([*top], env={**bed.machine.env, "NO_COLOR": "1"})
    checks.check("NO_COLOR is followed", plain.until("default/train/main") and plain.colours == 0)
    plain.press("\x03")
    checks.check("Ctrl-C ends it", plain.end() == 0)


def the_top_of_a_cluster(bed, checks):
    document = json.loads(ask(bed, "/status")[2])
    names = [f"ip-10-0-0-{i}.eu-central-1.compute.internal" for i in range(40)]
    cluster = Cluster({name: document if i % 5 else None for i, name in enumerate(names)})
    screen = Screen([f"{bed.machine.bin}/tranche", "top", "--cluster", "--kubeconfig", cluster.kubeconfig(bed.path("kubeconfig"))], env=bed.machine.env)
    fits = lambda: all(len(row) <= 80 for row in screen.rows) and sum(bool(row) for row in screen.rows) == 24
    checks.check("more nodes than lines: it says which are shown", screen.until("nodes 1-") and screen.until("of 40") and fits(), screen.text())
    checks.check("what is known of a tenant fits into 80 columns", re.search(r"PROCS\ndefault/\S+ +ip-10-0-0-\d+ +0 +1 +2193 +3594\d +25% +-$", screen.text(), re.MULTILINE), screen.text())
    seen = set()
    screen.press("\t")
    checks.check("tab scrolls the nodes", screen.until("scroll tenants"), screen.text())
    for _ in range(40):
        seen |= set(re.findall(r"^(ip-[\d-]+)\.", screen.text(), re.MULTILINE))
        if "-40 of 40" in screen.text():
            break
        before = screen.text()
        screen.press("\x1b[6~")
        screen.until(lambda text, before=before: text != before and "of 40" in text)
    checks.check("every node is reached by page down", len(seen) == 40, sorted(set(name.split(".")[0] for name in names) - seen))
    screen.press("\x1b[H")
    checks.check("home leads back to the first", screen.until("nodes 1-"))
    screen.press("\t\x1b[F")
    checks.check("tab and end: the last tenant", screen.until("-64  (h: help"), screen.text())
    screen.press("\x1b[5~")
    checks.check("page up", screen.until(lambda text: "64 tenants" in text and "-64  (h" not in text) and fits(), screen.text())
    screen.press("q")
    checks.check("q ends it", screen.end() == 0)
    cluster.server.shutdown()


def the_why(bed, checks):
    why = lambda *words: bed.machine.run(f"{bed.machine.bin}/tranche", "why", "--socket", bed.path("run/node.sock"), *words)
    pod = why("train")
    checks.check("`why POD` says what it holds, with limits and use", pod.returncode == 0 and re.match(r"pod default/train: holds 1 slot", pod.stdout) and "in 1 process" in " ".join(pod.stdout.split()), pod.stdout)
    device = json.loads(why("0", "--json").stdout)[0]
    checks.check("`why GPU --json` says who holds it", device["kind"] == "device" and "default/train/main" in device["causes"][0]["what"], device)
    slots = bed.status()["devices"][0]["slots"]
    states = [why(slot["id"]).stdout.split("\n")[0] for slot in slots]
    checks.check("`why SLOT` says whether it is held or free", any(": held by default/x/main" in s for s in states) and any(s.endswith(": free") for s in states), states)
    unknown = why("trains")
    checks.check("an unknown name gets the nearest", unknown.returncode == 1 and "Did you mean train?" in unknown.stderr, unknown.stderr)


def run(bed, checks):
    tenants = [bed.tenant("train", 1), bed.tenant("x", 1)]
    client = tenants[0].client()
    checks.check("a tenant computes", client.ready() and client.ask("alloc 2048").get("code") == 0)
    wait_for(lambda: len(bed.status()["grants"]) == 2)
    before = resident_kib(bed.pid("node"))
    the_page(bed, checks)
    the_metrics(bed, checks)
    the_status(bed, checks)
    the_top(bed, checks)
    the_top_of_a_cluster(bed, checks)
    the_why(bed, checks)
    for _ in range(100):
        ask(bed, "/"), ask(bed, "/metrics")
    after = resident_kib(bed.pid("node"))
    checks.check("being looked at costs less than 4 MiB of memory", after - before < 4096, f"{before} to {after} KiB")
    client.leave()
    for tenant in tenants:
        tenant.delete()


if __name__ == "__main__":
    sys.exit(main(run, __doc__, more_node=("--listen", "127.0.0.1:0", "--dcgm-names", "new")))
