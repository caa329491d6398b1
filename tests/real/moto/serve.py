"""moto's server, with the answers that never change kept in a file, and an EC2 that may run out of instance types.

    serve.py PORT ANSWERS REFUSED

moto spends five seconds of a core on writing down all instance types, or all spot prices, and the same again for the next
who asks. It never runs out of capacity either: what a glob in the file REFUSED matches is answered as EC2 answers it.
"""

import collections
import fnmatch
import hashlib
import io
import pathlib
import re
import sys
import threading
import urllib.parse

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

STATIC = ("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory")
#: moto does not heed these, and they are others each time.
UNHEEDED = ("StartTime", "EndTime")
PORT, ANSWERS, REFUSED = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
CONFIG, OVERRIDE = re.compile(r"LaunchTemplateConfigs\.(\d+)\.(.*)"), re.compile(r"Overrides\.(\d+)\.(.*)")
NO_ROOM = "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone})."


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


class RunsOut:
    """Takes out of a CreateFleet what there is none of, and tells of it as EC2 does."""

    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        asked = dict(urllib.parse.parse_qsl(body.decode(errors="replace")))
        globs = REFUSED.read_text().split() if REFUSED.exists() else []
        if asked.get("Action") != "CreateFleet" or not globs:
            environ["wsgi.input"] = io.BytesIO(body)
            return self.app(environ, start)
        configs, rest = collections.defaultdict(dict), {}
        for name, value in asked.items():
            config = CONFIG.fullmatch(name)
            (configs[int(config[1])] if config else rest)[config[2] if config else name] = value
        gone, number = [], 0
        for _, config in sorted(configs.items()):
            overrides, fields = collections.defaultdict(dict), {}
            for name, value in config.items():
                override = OVERRIDE.fullmatch(name)
                (overrides[int(override[1])] if override else fields)[override[2] if override else name] = value
            there = []
            for _, override in sorted(overrides.items()):
                refused = any(fnmatch.fnmatch(override["InstanceType"], glob) for glob in globs)
                (gone if refused else there).append(override)
            if not there:
                continue
            number += 1
            prefix = f"LaunchTemplateConfigs.{number}."
            rest |= {prefix + name: value for name, value in fields.items()}
            for at, override in enumerate(there, 1):
                rest |= {f"{prefix}Overrides.{at}.{name}": value for name, value in override.items()}
        answer = '<?xml version="1.0" encoding="UTF-8"?><CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"></CreateFleetResponse>'
        status = ["200 OK"]
        if number:
            text = urllib.parse.urlencode(rest).encode()
            environ |= {"wsgi.input": io.BytesIO(text), "CONTENT_LENGTH": str(len(text))}
            answer = b"".join(self.app(environ, lambda line, *_: status.__setitem__(0, line))).decode()
        told = "".join(refusal(one) for one in gone)
        answer = re.sub(r"<errorSet\s*/>|<errorSet>\s*</errorSet>", "", answer)
        answer = answer.replace("</CreateFleetResponse>", f"<errorSet>{told}</errorSet></CreateFleetResponse>")
        start(status[0], [("content-type", "text/xml")])
        return [answer.encode()]


def refusal(override):
    """An item of CreateFleet's errorSet."""
    kind, subnet, zone = (override.get(name, "") for name in ("InstanceType", "SubnetId", "AvailabilityZone"))
    text = NO_ROOM.format(type=kind, zone=zone)
    where = (f"<overrides><instanceType>{kind}</instanceType><subnetId>{subnet}</subnetId>"
             f"<availabilityZone>{zone}</availabilityZone></overrides>")
    return (f"<item><errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>{text}</errorMessage>"
            f"<launchTemplateAndOverrides>{where}</launchTemplateAndOverrides><lifecycle>on-demand</lifecycle></item>")


ANSWERS.mkdir(parents=True, exist_ok=True)
run_simple("127.0.0.1", PORT, Kept(RunsOut(DomainDispatcherApplication(create_backend_app))), threaded=True)
