#!/usr/bin/env python3
"""Jaeger, Prometheus and, where the machine has it, Grafana beside a sandbox, with nothing but this machine.

    cargo build --release
    python3 observability/see.py [-f MANIFESTS…] [--seconds N] [--screenshot FOLDER]

Jaeger 2 is built from its Go module (minutes, once), and Prometheus comes out of Debian's package (tests/real/build.py). Both
are there without their pages: these are built by npm, or lie in other packages. Grafana is in neither registry: a `grafana` in
the PATH is started with the dashboards of observability/grafana. Without one a page of our own (board.html) draws the same
dashboards from Prometheus, and traces from Jaeger. Everything listens on loopback and ends with this program (Ctrl-C).
"""

import argparse
import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tests/real"), str(ROOT / "tests/console")]

import build  # noqa: E402
from parts import free_ports  # noqa: E402

PATIENCE = 60
EXAMPLES = ("deploy/examples/spot.yaml", "deploy/examples/inflate-400.yaml")


def answers(url):
    """Waits until something answers there; what it says."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.read().decode()
        except OSError as why:
            if time.monotonic() > until:
                sys.exit(f"see.py: {url} does not answer: {why}")
            time.sleep(0.2)


def boards():
    """The dashboards, by name."""
    return sorted(path.stem for path in (HERE / "grafana").glob("*.json"))


def page(prometheus, jaeger):
    """Serves board.html, the dashboards, and what it asks of Prometheus and Jaeger; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = urllib.parse.urlsplit(self.path).path
            name = path.removeprefix("/grafana/").removesuffix(".json")
            try:
                if path == "/":
                    kind, body = "text/html", (HERE / "board.html").read_bytes()
                elif path == "/boards":
                    kind, body = "application/json", json.dumps(boards()).encode()
                elif path.startswith("/grafana/") and name in boards():
                    kind, body = "application/json", (HERE / f"grafana/{name}.json").read_bytes()
                elif path.startswith("/api/v1/query"):
                    kind, body = "application/json", fetched(f"http://{prometheus}{self.path}")
                elif path.startswith("/jaeger/api/"):
                    kind, body = "application/json", fetched(f"http://{jaeger}{self.path.removeprefix('/jaeger')}")
                else:
                    return self.send_error(404)
            except OSError as why:
                return self.send_error(502, str(why))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"


def fetched(url):
    """What an address answers; also a refusal's text."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as refused:
        return refused.read()


class Seen:
    """What runs."""

    def __init__(self, folder):
        self.folder, self.running = folder, []

    def start(self, name, command, **environment):
        log = open(self.folder / f"{name}.log", "wb")
        self.running.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, env={**os.environ, **environment}))

    def end(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            process.kill()

    def jaeger(self, prometheus):
        """Jaeger 2, which counts spans as the collector of collector/config.yaml does: (its page, where it takes spans, counts)."""
        query, query_grpc, otlp, counted, health = (f"127.0.0.1:{port}" for port in free_ports(5))
        pipelines = {
            "traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter", "spanmetrics"]},
            "metrics/spans": {"receivers": ["spanmetrics"], "exporters": ["prometheus"]},
        }
        normal = {"endpoint": f"http://{prometheus}", "normalize_calls": True, "normalize_duration": True}
        config = {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": otlp}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}, "prometheus": {"endpoint": counted}},
            "extensions": {
                "healthcheckv2": {"use_v2": True, "http": {"endpoint": health}},
                "jaeger_query": {
                    "storage": {"traces": "memory", "metrics": "counts"}, "ui": {"config_file": str(HERE / "jaeger/ui.json")},
                    "http": {"endpoint": query}, "grpc": {"endpoint": query_grpc},
                },
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 50000}}}, "metric_backends": {"counts": {"prometheus": normal}}},
            },
            "service": {
                "extensions": ["healthcheckv2", "jaeger_storage", "jaeger_query"], "pipelines": pipelines,
                "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
            },
        }
        own, connectors = self.folder / "jaeger.yaml", self.folder / "connectors.yaml"
        own.write_text(json.dumps(config))
        # How spans are counted is said once, for the collector of production.
        connectors.write_text(re.search(r"^connectors:\n(?:(?: +|#).*\n|\n)+", (HERE / "collector/config.yaml").read_text(), re.MULTILINE)[0])
        self.start("jaeger", [build.build("jaeger-2"), "--config", own, "--config", connectors])
        answers(f"http://{query}/api/services")
        return query, otlp, counted

    def prometheus(self, at, targets):
        config = self.folder / "prometheus.yaml"
        jobs = [
            {"job_name": job, "scrape_interval": "5s", "static_configs": [{"targets": [target], "labels": {"pod": "sandbox"}}]}
            for job, target in targets.items()
        ]
        config.write_text(json.dumps({"global": {"evaluation_interval": "5s"}, "rule_files": [str(HERE / "prometheus/rules.yaml")], "scrape_configs": jobs}))
        program, data = pathlib.Path(build.promtool()).with_name("prometheus"), self.folder / "prometheus"
        command = [program, f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={at}", "--enable-feature=exemplar-storage"]
        self.start("prometheus", command)
        answers(f"http://{at}/-/ready")

    def grafana(self, prometheus, jaeger):
        """Its address; none where the machine has no Grafana."""
        program = shutil.which("grafana")
        if not program:
            return None
        at, provisioning = free_ports(1)[0], self.folder / "provisioning"
        for kind, content in (
            ("datasources/d.yaml", {"apiVersion": 1, "datasources": [
                {"name": "Prometheus", "uid": "prometheus", "type": "prometheus", "access": "proxy", "url": f"http://{prometheus}", "isDefault": True},
                {"name": "Jaeger", "uid": "jaeger", "type": "jaeger", "access": "proxy", "url": f"http://{jaeger}"}]}),
            ("dashboards/d.yaml", {"apiVersion": 1, "providers": [{"name": "dovetail", "options": {"path": str(HERE / "grafana")}}]}),
        ):
            (provisioning / kind).parent.mkdir(parents=True, exist_ok=True)
            (provisioning / kind).write_text(json.dumps(content))
        settings = {"GF_SERVER_HTTP_ADDR": "127.0.0.1", "GF_SERVER_HTTP_PORT": str(at), "GF_PATHS_DATA": str(self.folder / "grafana"),
                    "GF_PATHS_PROVISIONING": str(provisioning), "GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer"}
        home = os.environ.get("GF_PATHS_HOME", "/usr/share/grafana")
        self.start("grafana", [program, "server", "--homepath", home], **settings)
        answers(f"http://127.0.0.1:{at}/api/health")
        return f"127.0.0.1:{at}"

    def sandbox(self, manifests, collector, jaeger):
        files = [word for one in manifests for word in ("-f", one)]
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector}", "JAEGER_UI_URL": f"http://{jaeger}"}
        self.start("sandbox", [ROOT / "target/release/dovetail", "sandbox", *files], **environment)
        until = time.monotonic() + PATIENCE
        while True:
            said = (self.folder / "sandbox.log").read_text()
            found = re.search(r"^page: http://(\S+?)/", said, re.MULTILINE)
            if found:
                return found[1]
            if self.running[-1].poll() is not None or time.monotonic() > until:
                sys.exit(f"see.py: the sandbox does not start: {said}")
            time.sleep(0.1)


def screenshots(folder, pages):
    """A picture of each page, by Chromium."""
    from browser import Browser

    folder.mkdir(parents=True, exist_ok=True)
    for name, url in pages.items():
        browser = Browser(1300, 900)
        browser.ask("Page.navigate", url=url)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            time.sleep(0.5)
            if browser.ask("Runtime.evaluate", expression="document.body?.dataset.done")["result"].get("value") == "yes":
                break
        picture = browser.ask("Page.captureScreenshot", format="png")["data"]
        (folder / f"{name}.png").write_bytes(base64.b64decode(picture))
        browser.process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-f", dest="manifests", action="append", help="manifests for the sandbox")
    parser.add_argument("--seconds", type=float, help="end after so long, rather than at Ctrl-C")
    parser.add_argument("--screenshot", type=pathlib.Path, help="before the end put pictures of the dashboards into this folder")
    given = parser.parse_args()
    manifests = given.manifests or [str(ROOT / one) for one in EXAMPLES]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="dovetail-see-") as folder:
        seen = Seen(pathlib.Path(folder))
        try:
            prometheus = f"127.0.0.1:{free_ports(1)[0]}"
            jaeger, collector, counted = seen.jaeger(prometheus)
            sandbox = seen.sandbox(manifests, collector, jaeger)
            seen.prometheus(prometheus, {"dovetail": sandbox, "otel-collector": counted})
            grafana = seen.grafana(prometheus, jaeger)
            print(f"console     http://{sandbox}/\nJaeger      http://{jaeger}/   (API: /api/traces?service=dovetail)\nPrometheus  http://{prometheus}/")
            shown = page(prometheus, jaeger)
            print(f"Grafana     http://{grafana}/dashboards" if grafana else "Grafana     none in the PATH")
            print(f"dashboards  http://{shown}/   (traces: /?trace=ID)")
            sys.stdout.flush()
            if given.seconds is None:
                signal.pause()
            time.sleep(given.seconds)
            found = json.loads(answers(f"http://{jaeger}/api/traces?service=dovetail&limit=20&operation=nodeclaim"))["data"]
            if given.screenshot:
                pages = {name: f"http://{shown}/?board={name}&seconds={given.seconds + 20:.0f}" for name in boards()}
                pages |= {"trace": f"http://{shown}/?trace={found[0]['traceID']}"} if found else {}
                screenshots(given.screenshot, pages)
            scraped = json.loads(answers(f"http://{prometheus}/api/v1/query?query=count(dovetail_leader)"))["data"]["result"]
            # What the page "Monitor" asks for.
            asked = "service=dovetail&spanKind=internal&groupByOperation=true&quantile=0.95&lookback=3600000&step=15000&ratePer=60000"
            monitored = json.loads(answers(f"http://{jaeger}/api/metrics/latencies?{asked}")).get("metrics", [])
            operations = sorted({label["value"] for one in monitored for label in one["labels"] if label["name"] == "operation"})
            print(f"{len(found)} traces of nodes in Jaeger; {len(scraped)} series of leadership in Prometheus; durations by operation: {operations}")
            return 0 if found and scraped and operations else 1
        except KeyboardInterrupt:
            return 0
        finally:
            seen.end()


if __name__ == "__main__":
    sys.exit(main())
