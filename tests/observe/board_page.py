"""A Grafana dashboard with the results of its queries as an HTML page: stat, table and time series panels, in the dashboard's grid."""

import re, time
from html import escape

COLUMN, ROW, GAP = 50, 30, 8  # of the grid, in pixels; Grafana's rows are as high
COLOURS = ["#2f6fd0", "#0f8a7e", "#9a5fc4", "#b8652a", "#b42318", "#1a6b34", "#57606a", "#8a6d00"]
STYLE = """body{margin:0;padding:16px;width:1208px;font:13px/1.35 DejaVu Sans,sans-serif;color:#1b1f24;background:#f4f5f7}
h1{font-size:19px;margin:0}p{margin:2px 0 12px;color:#57606a}main{position:relative}
section{position:absolute;box-sizing:border-box;background:#fff;border:1px solid #d0d7de;border-radius:3px;padding:5px 8px;overflow:hidden}
section.row{background:none;border:0;border-bottom:1px solid #d0d7de;border-radius:0}
h2{font-size:12.5px;margin:0 0 2px;font-weight:600}
.big{font-size:34px;font-weight:600;text-align:center;margin-top:6px}.none{color:#57606a;text-align:center;margin-top:24px}
table{border-collapse:collapse;width:100%;font-size:11.5px}th,td{text-align:left;padding:2px 8px 2px 0;border-bottom:1px solid #e2e7ec;white-space:nowrap}
.key{font-size:10.5px;line-height:14px;max-height:42px;overflow:hidden}.key span{margin-right:10px;white-space:nowrap}.key i{display:inline-block;width:9px;height:3px;margin:0 4px 3px 0}
svg text{font-size:10px;fill:#57606a}"""
THRESHOLDS = {"green": "#1a6b34", "red": "#b42318", "orange": "#b8652a", "yellow": "#8a6d00", "text": "#1b1f24"}


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:.0f}"


def in_unit(value, unit):
    if unit in ("bytes", "Bps"):
        for name in ("B", "KiB", "MiB", "GiB", "TiB"):
            if abs(value) < 1024 or name == "TiB":
                return f"{number(value)} {name}" + ("/s" if unit == "Bps" else "")
            value /= 1024
    if unit == "percentunit":
        return f"{number(value * 100)} %"
    return number(value) + {"watt": " W", "celsius": " °C", "h": " h", "s": " s"}.get(unit, "")


def unit_of(panel, column=None):
    field = panel["fieldConfig"]
    for override in field["overrides"]:
        if override["matcher"] == {"id": "byName", "options": column}:
            return next((p["value"] for p in override["properties"] if p["id"] == "unit"), field["defaults"]["unit"])
    return field["defaults"]["unit"]


def stat(panel, results):
    defaults = panel["fieldConfig"]["defaults"]
    if not results[0]:
        return f'<div class=none>{escape(defaults.get("noValue", "No data"))}</div>'
    value, colour = float(results[0][0]["value"][1]), "#1b1f24"
    for step in defaults.get("thresholds", {}).get("steps", []):
        if step["value"] is None or value >= step["value"]:
            colour = THRESHOLDS.get(step["color"], colour)
    return f'<div class=big style="color:{colour}">{escape(in_unit(value, defaults["unit"]))}</div>'


def rows_of(panel, results):
    """Column names and rows, as the panel's transformations make them: merged by the labels that all results have, chosen, ordered, renamed."""
    frames = [[{**{k: v for k, v in one["metric"].items() if k != "__name__"}, (f"Value #{target['refId']}" if len(results) > 1 else "Value"): float(one["value"][1])} for one in result]
              for target, result in zip(panel["targets"], results) if result]
    steps = {step["id"]: step["options"] for step in panel["transformations"]}
    common = set.intersection(*({key for row in frame for key in row} for frame in frames)) if frames else set()
    rows = []
    for row in (row for frame in frames for row in frame):
        same = next((known for known in rows if "merge" in steps and len(frames) > 1 and all(known.get(k) == row.get(k) for k in common) and all(known.get(k, v) == v for k, v in row.items())), None)
        same.update(row) if same is not None else rows.append(dict(row))
    names = steps["filterFieldsByName"]["include"]["names"]
    organize = steps.get("organize", {"indexByName": {}, "renameByName": {}})
    names = sorted(names, key=lambda name: organize["indexByName"].get(name, len(names)))
    return [(name, organize["renameByName"].get(name, name)) for name in names], rows


def table(panel, results):
    columns, rows = rows_of(panel, results)
    if not rows:
        return "<div class=none>No data</div>"
    cell = lambda row, name, shown: "" if name not in row else in_unit(row[name], unit_of(panel, shown)) if isinstance(row[name], float) else row[name]
    head = "".join(f"<th>{escape(shown)}" for _, shown in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell(row, name, shown))}" for name, shown in columns) for row in rows)
    return f"<table><tr>{head}{body}</table>"


def named(series, target):
    if not target["legendFormat"]:
        return ", ".join(f"{k}={v}" for k, v in sorted(series["metric"].items()))
    return re.sub(r"\{\{(\w+)\}\}", lambda label: series["metric"].get(label.group(1), ""), target["legendFormat"])


def nice(top):
    size = 1
    while size * 10 <= top:
        size *= 10
    while size > top and size > 1e-6:
        size /= 10
    return next(step * size for step in (1, 2, 2.5, 5, 10) if step * size >= top)


def timeseries(panel, results, begin, end, width, height):
    lines = [(named(series, target), [(float(t), float(v)) for t, v in series["values"]]) for target, result in zip(panel["targets"], results) for series in result]
    if not lines:
        return "<div class=none>No data</div>"
    defaults = panel["fieldConfig"]["defaults"]
    highest = max([value for _, points in lines for _, value in points if value == value] or [0])
    scale = 1
    while defaults["unit"] in ("bytes", "Bps") and scale * 1024 <= highest:
        scale *= 1024
    top = max(defaults.get("max", 0), nice(highest / scale) * scale if highest > 0 else 1)
    left, bottom = 58, 14
    height -= 24 + 54  # title and legend
    x = lambda t: left + (t - begin) / (end - begin) * (width - left - 6)
    y = lambda v: 6 + (1 - v / top) * (height - bottom - 6)
    out = [f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(panel["title"])}">']
    for part in range(5):
        value = top * part / 4
        out.append(f'<line x1="{left}" x2="{width - 6}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e2e7ec"/><text x="{left - 5}" y="{y(value) + 3.5:.1f}" text-anchor="end">{escape(in_unit(value, defaults["unit"]))}</text>')
    for part in (0, 1, 2, 3, 4) if width > 340 else (0, 2, 4):
        at = begin + (end - begin) * part / 4
        out.append(f'<text x="{x(at):.1f}" y="{height - 2}" text-anchor="{("start", "middle", "middle", "middle", "end")[part]}">{time.strftime("%H:%M:%S", time.gmtime(at))}</text>')
    for number_of, (_, points) in enumerate(lines):
        path = " ".join(f"{x(t):.1f},{y(min(v, top)):.1f}" for t, v in points if v == v)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[number_of % len(COLOURS)]}" stroke-width="1.6"/>')
    legend = "".join(f'<span><i style="background:{COLOURS[n % len(COLOURS)]}"></i>{escape(name)}</span> ' for n, (name, _) in enumerate(lines))
    return "".join(out) + f"</svg><div class=key>{legend}</div>"


def page(board, data, begin, end):
    """data: {panel id: a result of Prometheus for each of its queries}"""
    out, last = [], 0
    for panel in board["panels"]:
        at = panel["gridPos"]
        width, height = at["w"] * COLUMN - GAP, at["h"] * ROW - GAP
        last = max(last, (at["y"] + at["h"]) * ROW)
        if panel["type"] == "row":
            inside = ""
        elif panel["id"] not in data:
            inside = "<div class=none>the query failed</div>"
        else:
            results = data[panel["id"]]
            inside = stat(panel, results) if panel["type"] == "stat" else table(panel, results) if panel["type"] == "table" else timeseries(panel, results, begin, end, width - 18, height)
        out.append(f'<section class="{panel["type"]}" style="left:{at["x"] * COLUMN}px;top:{at["y"] * ROW}px;width:{width}px;height:{height}px"><h2>{escape(panel["title"])}</h2>{inside}</section>')
    return (f'<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>{escape(board["title"])}</title><style>{STYLE}</style></head><body><h1>{escape(board["title"])}</h1>'
            f"<p>Drawn by Tranche's tests from the results of a real Prometheus, on a simulated node. Grafana shows the same panels in its own look.</p>"
            f'<main style="height:{last}px">{"".join(out)}</main></body></html>')
