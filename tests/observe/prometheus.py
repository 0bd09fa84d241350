"""A real Prometheus (Debian's package prometheus) that scrapes a node agent as the chart's PodMonitor has it scraped, with the chart's rules."""

import http.client, json, os, shutil, socket, subprocess, tempfile, time, urllib.parse

RULES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "helm", "tranche", "files", "rules.yaml")


def program():
    return shutil.which("prometheus")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Prometheus:
    def __init__(self, target, node):
        """target: the address of the agent's pages; node: the name of its node."""
        self.folder = tempfile.mkdtemp(prefix="prometheus.", dir="/tmp")
        self.port = free_port()
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [os.path.abspath(RULES)],
                  "scrape_configs": [{"job_name": "tranche", "honor_labels": True, "static_configs": [{"targets": [target], "labels": {"node": node}}]}]}
        with open(os.path.join(self.folder, "prometheus.yml"), "w") as file:
            json.dump(config, file)  # which is YAML
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.process = subprocess.Popen([program(), f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def ask(self, path, **parameters):
        """What the API returns; an error is raised."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/api/v1/{path}?" + urllib.parse.urlencode(parameters, doseq=True))
        answer = json.loads(connection.getresponse().read())
        if answer["status"] != "success":
            raise RuntimeError(answer.get("error", answer["status"]))
        return answer["data"]

    def instant(self, query, at):
        return self.ask("query", query=query, time=at)["result"]

    def series(self, query, begin, end, step):
        return self.ask("query_range", query=query, start=begin, end=end, step=step)["result"]

    def label_values(self, label, match, begin):
        return self.ask(f"label/{label}/values", **{"match[]": match, "start": begin, "end": time.time()})

    def scraped(self):
        """Whether the target has been scraped, and how often."""
        try:
            result = self.instant("count_over_time(up[1h])", time.time())
        except (OSError, http.client.HTTPException):
            return 0
        return int(float(result[0]["value"][1])) if result else 0

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
