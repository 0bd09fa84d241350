"""The chart's Grafana dashboards over a node with tenants: a real Prometheus scrapes the agent of a build on the stand-ins, with the chart's
rules, and every query of every panel is asked of it. A query that fails, or gives nothing where the scene has something, fails the test.
Chromium takes a picture of each dashboard. The panels are drawn here and not by Grafana, which is under a licence that keeps it out of
this project's tests: their places, titles, queries, units, columns and legends are the dashboard's, the look is not.

    python3 tests/observe/dashboards.py build                        # leaves build/pictures/dashboard-*.png
    UPDATE_PICTURES=1 python3 tests/observe/dashboards.py build      # writes docs/pictures/dashboard-*.png; takes seven minutes

Exit status 77 without Prometheus or Chromium (Debian's packages prometheus and chromium)."""

import glob, json, os, re, shutil, sys, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
import prometheus  # noqa: E402
from bed import main, wait_for  # noqa: E402
from board_page import page  # noqa: E402
from chromium import Chromium, program  # noqa: E402
from observe_node import address  # noqa: E402
from pictures import CONFIG, GPUS, PICTURES, SLOTS, UPDATE, scene, settled  # noqa: E402

BOARDS = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "helm", "tranche", "dashboards", "*.json")))
NODE = "gpu-node-1"
SECONDS = 60  # that the pictures show
# In this scene, these panels are empty for the reason given, and all others have data.
EMPTY = {
    ("node", "MIG devices: SMs active"): "no GPU is in MIG mode",
    ("node", "MPS pools that do not serve"): "all pools serve",
    ("node", "Clocks reduced"): "the clocks of no GPU are reduced",
}
LARGEST = 400_000  # bytes of a picture


def live(bed, scraped, tenants):
    """What happens in the minute of the pictures: the stand-in driver's values move, a pod ends, another one starts, and the guard stops its
    second process."""
    sim = lambda *words: bed.machine.run(f"{bed.machine.standins}/sim-node", *words)
    curves = [[86, 91, 78, 95, 88, 64, 90, 93], [37, 22, 48, 55, 31, 40, 18, 44], [0] * 8]
    sim("gpu", "2", "xid", "79")  # again: after a quiet period the GPU may be healthy
    begin, step, begun = time.time(), 0, {}
    while scraped() < SECONDS + 5 and time.time() - begin < 3 * SECONDS:
        for gpu, curve in enumerate(curves):
            busy = curve[step % len(curve)]
            sim("gpu", str(gpu), "utilization", str(busy), str(busy // 2))
            sim("gpu", str(gpu), "temperature", str(33 + busy // 3))
        if scraped() > 15 and tenants:
            tenants.pop().delete()
        if scraped() > 25 and not begun:
            begun["burst"] = bed.tenant("burst", 1, command=("sh", "-c", "sim-cuda --allocate 9GiB --hold & sleep 10; sim-cuda --allocate 9GiB --hold & wait"))
        step += 1
        wait_for(lambda: scraped() >= min(SECONDS + 5, 6 * step), every=0.5)
    return list(begun.values())


def values_of(variables, server, begin):
    """What Grafana puts in place of a dashboard's variables: the first value, or all."""
    chosen = {}
    for variable in variables:
        if variable["type"] != "query":
            continue
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", filled(variable["query"]["query"], chosen)).groups()
        found = sorted(server.label_values(label, selector, begin))
        chosen[variable["name"]] = variable["allValue"] if variable["includeAll"] else found[0] if found else ""
    return chosen


def filled(query, chosen):
    return re.sub(r"\$(\w+)", lambda word: chosen[word.group(1)], query)


def panel_data(panel, chosen, server, end):
    """A result for each query of the panel."""
    results = []
    for target in panel["targets"]:
        query = filled(target["expr"], chosen)
        results.append(server.instant(query, end) if target.get("instant") else server.series(query, end - SECONDS, end, 1))
    return results


def asked(checks, name, board, server, begin, end):
    """{panel id: results} of a dashboard; every query is checked."""
    chosen = values_of(board["templating"]["list"], server, begin)
    checks.check(f"{name}: its variables have values", all(chosen.values()), chosen)
    data, failed, empty, unexpected = {}, [], [], []
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        try:
            data[panel["id"]] = panel_data(panel, chosen, server, end)
        except RuntimeError as error:
            failed.append(f"{panel['title']}: {error}")
            continue
        if all(data[panel["id"]]) == ((name, panel["title"]) in EMPTY):
            (unexpected if all(data[panel["id"]]) else empty).append(panel["title"])
    checks.check(f"{name}: Prometheus accepts all queries of its {len(data)} panels", data and not failed, failed or "")
    checks.check(f"{name}: each query gives something where the scene has something", not empty, empty or "")
    checks.check(f"{name}: what is listed as empty is empty", not unexpected, unexpected or "")
    return data


def run(bed, checks):
    tenants = scene(bed, checks)
    checks.check("all pods use their GPU", wait_for(lambda: settled(bed)))
    begin, last = time.time(), [tenants.pop()]
    server, browser = prometheus.Prometheus(address(bed), NODE), Chromium()
    try:
        checks.check("Prometheus scrapes the agent", wait_for(server.scraped, every=0.5))
        # A rate over five minutes is right after five minutes only: the documents' pictures are of an agent that was scraped for so long.
        if UPDATE:
            wait_for(lambda: server.scraped() > 310, 400, every=1)
        earlier = server.scraped()
        tenants += live(bed, lambda: server.scraped() - earlier, last)
        checks.check("it has done so for the time that the pictures show", server.scraped() > SECONDS, server.scraped())
        end = time.time() - 1
        for path in BOARDS:
            name = os.path.basename(path).removesuffix(".json")
            with open(path) as file:
                board = json.load(file)
            data = asked(checks, name, board, server, begin, end)
            if name == "cluster":
                drawn = [float(server.instant(query, end)[0]["value"][1]) for query in ("sum(rate(tranche_gpu_energy_joules_total[50s]))", "sum(avg_over_time(tranche_gpu_power_watts[1m]))")]
                checks.check("the power by the energy's counter is that of the gauge", 0.8 < drawn[0] / drawn[1] < 1.25, drawn)
            if name == "tenant":
                stops = server.instant("sum(increase(tranche_tenant_stops_total[1m]))", end)
                checks.check("the guard's stop is in the tenants' figures", stops and float(stops[0]["value"][1]) > 0, stops)
            html = os.path.join(browser.folder, f"{name}.html")
            with open(html, "w") as file:
                file.write(page(board, data, end - SECONDS, end))
            browser.look(1240, height=100)
            browser.open(f"file://{html}")
            titles = [panel["title"] for panel in board["panels"]]
            shown = browser.run("document.body.innerText")
            checks.check(f"{name}: a browser shows every panel", all(title in shown for title in titles) and not browser.complaints(), browser.complaints() or "")
            picture = os.path.join(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build"), "pictures", f"dashboard-{name}.png")
            browser.picture(picture)
            kept = os.path.join(PICTURES, f"dashboard-{name}.png")
            if UPDATE:
                shutil.copyfile(picture, kept)
            checks.check(f"docs/pictures/dashboard-{name}.png is there, and not too large (if not: ./dev pictures)", os.path.exists(kept) and os.path.getsize(kept) < LARGEST)
    finally:
        browser.end()
        server.end()
    for tenant in tenants:
        tenant.delete()


if __name__ == "__main__":
    if program() is None or prometheus.program() is None:
        print("Chromium or Prometheus is not there (Debian's packages chromium and prometheus)")
        sys.exit(77)
    sys.exit(main(run, __doc__, gpus=GPUS, slots=GPUS * SLOTS, config=CONFIG, bounded=False, more_node=("--listen", "127.0.0.1:0")))
