"""moto's server, with the answers that never change kept in a file, and an EC2 that may run out of instance types.

    serve.py PORT ANSWERS REFUSED

moto spends five seconds of a core on writing down all instance types, or all spot prices, and the same again for the next
who asks. It never runs out of capacity either: what a glob in the file REFUSED matches is answered as EC2 answers it.

What else it lacks of AWS is put in: the SSM parameters that name images of EKS (any image of moto's of that architecture
will do), spot prices of today that grow with the instance type, the security groups that a launch template gives to the
instances of a fleet, and EC2's quotas of virtual CPUs.
"""

import collections
import datetime
import fnmatch
import hashlib
import io
import json
import pathlib
import re
import sys
import threading
import urllib.parse

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends, launch_templates
from moto.ec2.models.instance_types import INSTANCE_TYPES
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
        answer = path.read_bytes()
        return [spot_prices(answer.decode()).encode() if b"spotPriceHistorySet" in answer else answer]


#: moto's one price of all types, twenty years old.
SPOT = re.compile(r"(<instanceType>)([^<]*)(</instanceType>.*?<spotPrice>)[^<]*(</spotPrice>.*?<timestamp>)[^<]*(</timestamp>)", re.S)
SPOT_PER_CPU = 0.015


def spot_prices(answer):
    """An answer of DescribeSpotPriceHistory with prices of now, by the types' virtual CPUs."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    def priced(found):
        cpus = INSTANCE_TYPES.get(found[2], {}).get("VCpuInfo", {}).get("DefaultVCpus", 4)
        return f"{found[1]}{found[2]}{found[3]}{SPOT_PER_CPU * cpus:.5f}{found[4]}{now}{found[5]}"
    return SPOT.sub(priced, answer)


class Images:
    """Answers for the SSM parameters of EKS's standard images."""

    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start):
        if environ.get("HTTP_X_AMZ_TARGET") != "AmazonSSM.GetParameter":
            return self.app(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        name = json.loads(body).get("Name", "")
        if not re.match("/aws/service/(eks|bottlerocket)/", name) or re.search("nvidia|neuron|gpu", name):
            return self.app(environ, start)
        region = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split(",")[0].split("/")[2]
        arch = "arm64" if "arm64" in name else "x86_64"
        every = ec2_backends[DEFAULT_ACCOUNT_ID][region].describe_images()
        image = min(one.id for one in every if one.architecture == arch and (one.name or "").startswith("al20"))
        start("200 OK", [("content-type", "application/x-amz-json-1.1")])
        return [json.dumps({"Parameter": {"Name": name, "Type": "String", "Value": image, "Version": 1}}).encode()]


class Quotas:
    """Answers for EC2's quotas in Service Quotas: the same for each."""

    VCPUS = 640.0

    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start):
        if environ.get("HTTP_X_AMZ_TARGET") != "ServiceQuotasV20190624.GetServiceQuota":
            return self.app(environ, start)
        code = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))).get("QuotaCode", "")
        start("200 OK", [("content-type", "application/x-amz-json-1.1")])
        return [json.dumps({"Quota": {"ServiceCode": "ec2", "QuotaCode": code, "Value": self.VCPUS, "Unit": "None"}}).encode()]


def heed_security_groups():
    """moto gives a fleet's instances the groups that a template names as its fleets read them, and no template does."""
    made = launch_templates.LaunchTemplateVersion.__init__
    def version(self, template, number, data, description):
        groups = [group for one in data.get("NetworkInterfaces", [])[:1] for group in one.get("Groups", [])]
        made(self, template, number, data | ({"GroupSet": groups} if groups else {}), description)
    launch_templates.LaunchTemplateVersion.__init__ = version


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
heed_security_groups()
run_simple("127.0.0.1", PORT, Kept(Images(Quotas(RunsOut(DomainDispatcherApplication(create_backend_app))))), threaded=True)
