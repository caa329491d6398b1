#!/usr/bin/env python3
"""Jaeger, Prometheus and, where the machine has it, Grafana beside a sandbox, with nothing but this machine.

    cargo build --release
    python3 observability/see.py [-f MANIFESTS…] [--seconds N] [--screenshot FOLDER]

Jaeger is built from its Go module and Prometheus comes out of Debian's package (tests/real/build.py). Grafana is in none of
these registries: a `grafana` in the PATH is started with the dashboards of observability/grafana; without one each dashboard
is a page of Prometheus' own. Everything listens on loopback and ends with this program (Ctrl-C).
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "tests/real"), str(ROOT / "tests/console")]

import build  # noqa: E402
from parts import JAEGER_PORTS, free_ports  # noqa: E402

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


def rules():
    """The alerting and recording rules alone: the file may be one of the Prometheus operator's."""
    return HERE / "prometheus/rules.yaml"


def dashboards():
    """(title, panels as (title, expressions)) of every dashboard."""
    for path in sorted((HERE / "grafana").glob("*.json")):
        board = json.loads(path.read_text())
        panels = [(one["title"], [target["expr"] for target in one.get("targets", [])]) for one in board["panels"]]
        yield board["title"], [(title, expressions) for title, expressions in panels if expressions]


def filled(expression):
    """An expression with Grafana's own variables filled in, as Prometheus takes it."""
    for name, value in (("__rate_interval", "1m"), ("__interval", "15s"), ("__range", "1h")):
        expression = expression.replace(f"${name}", value).replace(f"${{{name}}}", value)
    # A choice of all, for what is left.
    return re.sub(r'=~?"\$\{?\w+(?::\w+)?\}?"', '=~".*"', expression)


def page_of(prometheus, panels, most=6):
    """A dashboard as a page of Prometheus' own: its first panels, each a graph."""
    query = []
    for number, (_, expressions) in enumerate(panels[:most]):
        query += [(f"g{number}.expr", filled(expressions[0])), (f"g{number}.tab", "0"), (f"g{number}.range_input", "5m")]
    return f"http://{prometheus}/graph?{urllib.parse.urlencode(query)}"


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
        ports = dict(zip(JAEGER_PORTS, (f"127.0.0.1:{port}" for port in free_ports(len(JAEGER_PORTS)))))
        flags = [f"--{flag}.host-port={ports[name]}" for name, flag in JAEGER_PORTS.items()]
        flags += [f"--query.ui-config={HERE / 'jaeger/ui.json'}", "--log-level=warn"]
        metrics = {"METRICS_STORAGE_TYPE": "prometheus", "PROMETHEUS_SERVER_URL": f"http://{prometheus}"}
        self.start("jaeger", [build.build("jaeger"), *flags], **metrics)
        answers(f"http://{ports['query']}/api/services")
        return ports["query"], ports["otlp-grpc"]

    def prometheus(self, at, target):
        config = self.folder / "prometheus.yaml"
        job = {"job_name": "dovetail", "scrape_interval": "5s", "static_configs": [{"targets": [target], "labels": {"pod": "sandbox"}}]}
        config.write_text(json.dumps({"global": {"evaluation_interval": "5s"}, "rule_files": [str(rules())], "scrape_configs": [job]}))
        program = pathlib.Path(build.promtool()).with_name("prometheus")
        data, shared = self.folder / "prometheus", program.parents[1] / "share/prometheus/web"
        pages = [f"--web.console.{what}={shared / what}" for what in ("templates", "libraries")] if shared.exists() else []
        command = [program, f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={at}", "--enable-feature=exemplar-storage", *pages]
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
        browser = Browser(1400, 1000)
        browser.ask("Page.navigate", url=url)
        time.sleep(6)
        import base64

        picture = browser.ask("Page.captureScreenshot", format="png")["data"]
        (folder / f"{name}.png").write_bytes(base64.b64decode(picture))


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
            jaeger, collector = seen.jaeger(prometheus)
            sandbox = seen.sandbox(manifests, collector, jaeger)
            seen.prometheus(prometheus, sandbox)
            grafana = seen.grafana(prometheus, jaeger)
            print(f"console     http://{sandbox}/\nJaeger      http://{jaeger}/   (API: /api/traces?service=dovetail)\nPrometheus  http://{prometheus}/")
            pages = {}
            for title, panels in dashboards():
                pages[title.split("/")[-1].strip().lower().replace(" ", "-")] = page_of(prometheus, panels)
            if grafana:
                print(f"Grafana     http://{grafana}/dashboards")
            else:
                print("There is no grafana in the PATH; the dashboards' panels as pages of Prometheus:")
                for name, url in pages.items():
                    print(f"  {name}: {url}")
            sys.stdout.flush()
            if given.seconds is None:
                signal.pause()
            time.sleep(given.seconds)
            if given.screenshot:
                screenshots(given.screenshot, {**pages, "console": f"http://{sandbox}/"})
            found = json.loads(answers(f"http://{jaeger}/api/traces?service=dovetail&limit=5&operation=nodeclaim"))["data"]
            scraped = json.loads(answers(f"http://{prometheus}/api/v1/query?query=count(dovetail_leader)"))["data"]["result"]
            print(f"{len(found)} traces of nodes in Jaeger, {len(scraped)} series of leadership in Prometheus")
            return 0 if found and scraped else 1
        except KeyboardInterrupt:
            return 0
        finally:
            seen.end()


if __name__ == "__main__":
    sys.exit(main())
