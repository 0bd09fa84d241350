"""A headless Chromium on a pipe, by its DevTools protocol: one page, what it asked for, what it said, and pictures of it."""

import base64, json, os, select, shutil, subprocess, tempfile, time


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="chromium.", dir="/tmp")
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()

        def descriptors():  # the protocol's are 3 and 4
            high = [os.dup(fd) for fd in (read_commands, write_answers)]
            high = [fd if fd > 4 else os.dup(fd) for fd in high]
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", f"--user-data-dir={self.folder}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=descriptors, start_new_session=True)
        os.close(read_commands), os.close(write_answers)
        self.number, self.bytes, self.events, self.session = 0, b"", [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next(60)).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.bytes:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("Chromium does not answer")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self.bytes += data
        message, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(message)

    def open(self, url):
        """Loads a page and forgets what earlier ones did."""
        self.events = []
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next(60))

    def run(self, script):
        """What the script makes of the page; it may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "the script failed"))
        return result["result"].get("value")

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    def complaints(self):
        """Of the console and of the browser: errors, refusals of the page's policy, warnings."""
        said = [event["params"]["entry"]["text"] for event in self.events if event.get("method") == "Log.entryAdded"]
        said += [str(event["params"]["args"]) for event in self.events if event.get("method") == "Runtime.consoleAPICalled"]
        return said + [event["params"]["exceptionDetails"]["text"] for event in self.events if event.get("method") == "Runtime.exceptionThrown"]

    def look(self, width, dark=False, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1})
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def end(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


# What people with a screen reader or weak eyes need, as far as a program sees it; returns what is wrong.
READABLE = r"""(() => {
  const wrong = [], all = s => [...document.querySelectorAll(s)], shown = e => e.getClientRects().length > 0;
  if (!document.documentElement.lang) wrong.push('no language');
  if (!document.title) wrong.push('no title');
  if (all('h1').length !== 1) wrong.push(all('h1').length + ' h1');
  if (!document.querySelector('main')) wrong.push('no main');
  let level = 1;
  for (const h of all('h1,h2,h3,h4')) { const n = +h.tagName[1]; if (n > level + 1) wrong.push('heading level skipped: ' + h.textContent); level = n; }
  for (const t of all('table')) {
    if (!t.querySelector('th')) wrong.push('a table without headings');
    for (const h of t.querySelectorAll('th')) { if (!h.scope) wrong.push('a table heading without scope: ' + h.textContent); if (!h.textContent.trim()) wrong.push('an empty table heading'); }
  }
  for (const i of all('svg:not([aria-hidden=true])')) if (i.getAttribute('role') !== 'img' || !i.getAttribute('aria-label')) wrong.push('a picture without text');
  for (const i of all('input,select')) if (!i.labels.length && !i.getAttribute('aria-label')) wrong.push('an input without a label: ' + i.name);
  for (const m of all('meter')) if (!m.getAttribute('aria-label') && !m.title && !m.labels.length) wrong.push('a meter without a name');
  const ids = all('[id]').map(e => e.id); if (new Set(ids).size !== ids.length) wrong.push('an id comes twice');
  const rgb = c => { const [r, g, b, a] = c.match(/[\d.]+/g).map(Number); return [r, g, b, a === undefined ? 1 : a]; };
  const canvas = matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return canvas; };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  for (const e of all('body *')) {
    if (!shown(e) || e.closest('svg,meter') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) wrong.push('contrast ' + ratio.toFixed(1) + ': ' + e.textContent.slice(0, 40));
  }
  return wrong;
})()"""
