"""The page of `tranche node` in a real browser: what it shows, asks for and says, at the widths of a telephone and of a screen, light
and dark. Pictures are left in <build>/pictures. Exit status 77 without Chromium (Debian's package chromium)."""

import os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abuse"))
from bed import main, wait_for  # noqa: E402
from chromium import READABLE, Chromium, program  # noqa: E402
from observe_node import address, ask  # noqa: E402

CONFIG = """version: v1
sharing:
  mps:
    computeMode: leave
    failRequestsGreaterThanOne: false
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
"""
HOSTILE = "<img src=x onerror=document.title='taken'>"
BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"


def axe():
    """The rules of axe-core, of the registry once; None where it cannot be had."""
    folder = os.path.join(BUILD, "axe")
    path = os.path.join(folder, "node_modules/axe-core/axe.min.js")
    if not os.path.exists(path):
        try:
            subprocess.run(["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, "axe-core@4"], timeout=60, check=True, capture_output=True)
        except (OSError, subprocess.SubprocessError):
            return None
    with open(path) as file:
        return file.read()


def looks_right(browser, checks, url, name, rules=None):
    """Everything that does not depend on what the page is about."""
    for width, dark in ((1280, False), (1280, True), (360, False), (360, True)):
        what = f"{name} at {width} px, {'dark' if dark else 'light'}"
        browser.look(width, dark)
        browser.open(url)
        checks.check(f"{what}: it asks for nothing but itself", browser.requests() == [url], browser.requests())
        checks.check(f"{what}: the browser has no complaint", not browser.complaints(), browser.complaints())
        wide = browser.run("document.documentElement.scrollWidth")
        checks.check(f"{what}: it does not scroll sideways", wide <= width, wide)
        wrong = browser.run(READABLE)
        checks.check(f"{what}: it is readable for all", not wrong, wrong[:4])
        browser.picture(os.path.join(BUILD, "pictures", f"{name}-{width}-{'dark' if dark else 'light'}.png"))
        if rules:
            browser.run(rules + ";0")
            broken = browser.run("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html.slice(0, 80)))")
            checks.check(f"{what}: axe finds nothing", not broken, broken[:4])
    browser.look(1280)
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url)
    without = browser.call("DOM.getOuterHTML", nodeId=browser.call("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    checks.check(f"{name}: it is the same without scripts", "<script" not in without and "<table" in without, len(without))


def run(bed, checks):
    tenants = [bed.tenant("train", 2), bed.tenant("serve", 1)]
    client = tenants[0].client()
    client.ready(), client.ask("alloc 2048")
    checks.check("two containers hold slots", wait_for(lambda: len(bed.status()["grants"]) == 2))
    bed.configure(CONFIG + f'"{HOSTILE}": 1\n')  # kubelet refuses such names of pods; a key of a file may be anything
    wait_for(lambda: "&lt;img" in ask(bed, "/")[2] and " of 70.2" in ask(bed, "/")[2], every=0.5)
    url = f"http://{address(bed)}/"
    rules = axe()
    if rules is None:
        print("   --   axe-core cannot be had (npm); the checks of this test's own remain")
    browser = Chromium()
    try:
        looks_right(browser, checks, url, "node", rules)
        text = browser.run("document.body.innerText")
        checks.check("it shows the GPU and its tenants", all(part in text for part in ("GPU 0", "NVIDIA H200", "default/train/main", "default/serve/main")), text[:300])
        checks.check("a hostile name stays text", HOSTILE in text and browser.run("document.images.length") == 0 and browser.run("document.title").startswith("Tranche"), text[:800])
        bar = browser.run("(() => { const b = document.querySelector('svg').getBoundingClientRect(); return [...document.querySelectorAll('svg')[0].querySelectorAll('rect')].slice(1).map(r => r.getBoundingClientRect().width / b.width) })()")
        checks.check("a tenant's part of the bar is as wide as its share", sorted(round(w * 4) for w in bar) == [1, 2], bar)
    finally:
        browser.end()
    client.leave()
    for tenant in tenants:
        tenant.delete()


if __name__ == "__main__":
    if program() is None:
        print("Chromium is not there (Debian's package chromium): the page is not looked at in a browser")
        sys.exit(77)
    sys.exit(main(run, __doc__, config=CONFIG, more_node=("--listen", "127.0.0.1:0")))
