"""The two that are compared: the real parts and the sandbox, each asked in the same way."""

import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests/real")]

from cluster import Cluster, die_with_parent  # noqa: E402
from parts import CLUSTER, REGION  # noqa: E402

#: A server names a writer after its user agent, up to the slash.
AGENT = "conformance/1"
PATCHES = {
    "json": "application/json-patch+json", "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml",
}
PATIENCE = 60


class Answer:
    """What was said."""

    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text
        try:
            self.json = json.loads(text)
        except ValueError:
            self.json = None

    def events(self):
        """The events of a watch that has ended."""
        return [json.loads(line) for line in self.text.splitlines() if line.strip()]


class Side:
    """One of the two; what it is asked is kept in `asked`, as the recorder keeps it."""

    def __init__(self, name, server, tls, aws):
        self.name, self.tls, self.aws, self.accounts = name, tls, aws, name == "real"
        self.server, self.own, self.asked, self.asked_aws = urllib.parse.urlsplit(server), threading.local(), [], []

    def connect(self):
        """A connection to its API server."""
        if self.server.scheme == "https":
            return http.client.HTTPSConnection(self.server.netloc, context=self.tls, timeout=PATIENCE)
        return http.client.HTTPConnection(self.server.netloc, timeout=PATIENCE)

    def ask(self, method, path, body=None, kind=None, accept="application/json", text=None):
        """One request; `kind` is a patch's, or a content type."""
        if body is not None:
            text = json.dumps(body)
        headers = {"accept": accept, "user-agent": AGENT}
        if text is not None:
            headers["content-type"] = PATCHES.get(kind, kind or "application/json")
        self.asked.append({"method": method, "target": path, "headers": headers, "body": (text or "").encode()})
        for attempt in (1, 2):
            connection = getattr(self.own, "connection", None) or self.connect()
            self.own.connection = connection
            try:
                connection.request(method, path, text, headers)
                answer = connection.getresponse()
                said = answer.read().decode(errors="replace")
                return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, said)
            except (OSError, http.client.HTTPException):
                connection.close()
                self.own.connection = None
                if attempt == 2:
                    raise


@contextlib.contextmanager
def sandbox(state):
    """The sandbox alone, with its region, and no replica of the control plane."""
    config, said = state / "sandbox.kubeconfig", state / "log/sandbox.log"
    said.parent.mkdir(parents=True, exist_ok=True)
    command = [
        ROOT / "target/release/dovetail", "sandbox", "--replicas", "0", "--serve-aws", "0", "--region", REGION,
        "--cluster-name", CLUSTER, "--kubeconfig", config,
    ]
    with open(said, "wb") as log:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
    try:
        until = time.monotonic() + PATIENCE
        while not (aws := re.search(r"AWS_ENDPOINT_URL=(\S+)", said.read_text())):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the sandbox does not start: {said.read_text()}")
            time.sleep(0.05)
        yield Side("sandbox", re.search(r'server: "(.*)"', config.read_text())[1], None, aws[1])
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(state):
    """The real parts; the one who asks adds what has to run on them."""
    real = Cluster(state / "cluster", boot=0)
    try:
        real.begin()
        yield real
    finally:
        real.end()


def real(parts):
    """The real parts as a side."""
    return Side("real", parts.parts.server, parts.tls, parts.parts.aws)
