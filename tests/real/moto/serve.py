"""moto's server, with the answers that never change kept in a file.

    serve.py PORT ANSWERS

moto spends five seconds of a core on writing down all instance types, or all spot prices, and the same again for the next
who asks.
"""

import hashlib
import io
import pathlib
import sys
import threading
import urllib.parse

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

STATIC = ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory")
#: moto does not heed these, and they are others each time.
UNHEEDED = ("StartTime", "EndTime")
PORT, ANSWERS = int(sys.argv[1]), pathlib.Path(sys.argv[2])


class Kept:
    """Answers a static question from its file, once somebody has asked it."""

    def __init__(self, app):
        self.app, self.one = app, threading.Lock()

    def __call__(self, environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        question = urllib.parse.parse_qs(body.decode(errors="replace"))
        if question.get("Action", [""])[0] not in STATIC:
            return self.app(environ, start)
        scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split(",")[0].split("/")[2:3]
        asked = sorted((name, value) for name, value in question.items() if name not in UNHEEDED)
        with self.one:
            return self.answer(environ, start, asked, scope)

    def answer(self, environ, start, asked, scope):
        path = ANSWERS / hashlib.sha256(repr((asked, scope)).encode()).hexdigest()
        if not path.exists():
            status = []
            answer = b"".join(self.app(environ, lambda line, headers, *_: status.append(line)))
            if not status[0].startswith("200"):
                start(status[0], [("content-type", "text/xml")])
                return [answer]
            unfinished = path.with_suffix(f".{id(answer)}")
            unfinished.write_bytes(answer)
            unfinished.rename(path)
        start("200 OK", [("content-type", "text/xml")])
        return [path.read_bytes()]


ANSWERS.mkdir(parents=True, exist_ok=True)
run_simple("127.0.0.1", PORT, Kept(DomainDispatcherApplication(create_backend_app)), threaded=True)
