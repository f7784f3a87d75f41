"""What stands in front of a cluster of Amazon OpenSearch Service, as far as it is documented: checks the signature of
each request with the signer of botocore, which is nobody's of spinney, and passes it on. Also the places where
credentials come from: the instance metadata service (version 2), the container's, and the token service.

    service.py CLUSTER          a line with its URL on standard output

PUT /__control {"skew": SECONDS, "known": {ID: [SECRET, TOKEN or null]}, "service": NAME} sets what it checks by;
GET /__control tells what it has seen.
"""

import hashlib
import json
import sys
import threading
import time
import urllib.parse
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REGION = "eu-central-1"
CLUSTER = urllib.parse.urlsplit(sys.argv[1])
LOCK = threading.Lock()
STATE = {"skew": 0, "known": {}, "service": "es", "lifetime": 3600}
SEEN = {"admitted": 0, "refused": [], "given": [], "callers": []}


class Refused(Exception):
    pass


def now():
    return datetime.now(timezone.utc) + timedelta(seconds=STATE["skew"])


def check(method, target, headers, body):
    """Raises Refused if the signature does not fit."""
    authorization = headers.get_all("Authorization") or []
    if len(authorization) != 1 or not authorization[0].startswith("AWS4-HMAC-SHA256 "):
        raise Refused("Missing Authentication Token")
    parts = dict(part.strip().split("=", 1) for part in authorization[0].split(" ", 1)[1].split(","))
    access_key, date, region, service, end = parts["Credential"].split("/")
    if (region, service, end) != (REGION, STATE["service"], "aws4_request"):
        raise Refused(f"Credential should be scoped to a valid region and service, not {region} {service}")
    if access_key not in STATE["known"]:
        raise Refused("The security token included in the request is invalid.")
    secret, token = STATE["known"][access_key]
    signed = parts["SignedHeaders"].split(";")
    for name in ["host", "x-amz-content-sha256", "x-amz-date"] + (["x-amz-security-token"] if token else []):
        if name not in signed or len(headers.get_all(name) or []) != 1:
            raise Refused(f"{name} has to be signed, and to be there once")
    if token and headers["x-amz-security-token"] != token:
        raise Refused("The security token included in the request is invalid.")
    if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        raise Refused("The body is not the one that was signed")
    stamp = headers["x-amz-date"]
    at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if abs(now() - at) > timedelta(minutes=5):
        word, order = ("expired", "earlier") if at < now() else ("not yet current", "later")
        raise Refused(f"Signature {word}: {stamp} is now {order} than {now():%Y%m%dT%H%M%SZ}")
    if date != stamp[:8]:
        raise Refused("Date in Credential scope does not match")
    request = AWSRequest(method, f"http://{headers['Host']}{target}", {name: headers[name] for name in signed}, body)
    request.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(access_key, secret, token), service, region)
    canonical = signer.canonical_request(request)
    if signer.signature(signer.string_to_sign(request, canonical), request) != parts["Signature"]:
        raise Refused(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method. Consult the service documentation for details.\n\n"
            f"The Canonical String for this request should have been\n'{canonical}'"
        )


def credentials():
    """New ones, of a limited time."""
    with LOCK:
        number = len(SEEN["given"])
        given = {
            "AccessKeyId": f"ASIA{number:016}",
            "SecretAccessKey": f"secret/of+{number}",
            "Token": f"token/{number}+" + "t" * 900,
            "Expiration": f"{datetime.now(timezone.utc) + timedelta(seconds=STATE['lifetime']):%Y-%m-%dT%H:%M:%SZ}",
        }
        STATE["known"][given["AccessKeyId"]] = [given["SecretAccessKey"], given["Token"]]
        SEEN["given"].append(given["AccessKeyId"])
    return given


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def answer(self, status, body, kind="application/json", headers=()):
        self.send_response_only(status)
        self.send_header("Date", format_datetime(now(), usegmt=True))
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def source(self, body):
        """Answers what is no request to the cluster; whether it did."""
        path = self.path
        if path == "/__control":
            with LOCK:
                if self.command == "PUT":
                    STATE.update(json.loads(body))
                answer = json.dumps(SEEN)
            self.answer(200, answer.encode())
        elif path == "/latest/api/token" and self.command == "PUT":
            self.answer(200, b"metadata-token", "text/plain", [("x-aws-ec2-metadata-token-ttl-seconds", "21600")])
        elif path.startswith("/latest/"):
            if self.headers.get("x-aws-ec2-metadata-token") != "metadata-token":
                self.answer(401, b"")
            elif path.rstrip("/").endswith(("/security-credentials", "/security-credentials-extended")):
                self.answer(200, b"the-role", "text/plain")
            elif path.endswith("/the-role"):
                given = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": f"{now():%Y-%m-%dT%H:%M:%SZ}"}
                self.answer(200, json.dumps(given | credentials()).encode())
            else:
                self.answer(404, b"")
        elif path == "/container":
            if self.headers.get("Authorization") != "container-token":
                self.answer(403, b"")
            else:
                self.answer(200, json.dumps(credentials() | {"RoleArn": "arn:aws:iam::1:role/x"}).encode())
        elif self.command == "POST" and path == "/" and b"Action=AssumeRoleWithWebIdentity" in body:
            given = credentials()
            xml = (
                '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                "<AssumeRoleWithWebIdentityResult><Credentials>"
                f"<AccessKeyId>{given['AccessKeyId']}</AccessKeyId>"
                f"<SecretAccessKey>{given['SecretAccessKey']}</SecretAccessKey>"
                f"<SessionToken>{given['Token']}</SessionToken><Expiration>{given['Expiration']}</Expiration>"
                "</Credentials><AssumedRoleUser><AssumedRoleId>A:s</AssumedRoleId><Arn>arn:aws:sts::1:x</Arn>"
                "</AssumedRoleUser></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            )
            self.answer(200, xml.encode(), "text/xml")
        else:
            return False
        return True

    def handle_any(self):
        body = self.body()
        if self.source(body):
            return
        try:
            check(self.command, self.path, self.headers, body)
        except Refused as refused:
            with LOCK:
                SEEN["refused"].append(f"{self.command} {self.path}: {refused}")
            message = json.dumps({"message": str(refused)}).encode()
            return self.answer(403, message, headers=[("x-amzn-ErrorType", "InvalidSignatureException")])
        with LOCK:
            SEEN["admitted"] += 1
            SEEN["callers"] += [self.headers[name] for name in ["X-Caller", "Cookie"] if self.headers[name]]
        passed = {
            name: value
            for name, value in self.headers.items()
            if not name.lower().startswith("x-amz-")
            and name.lower() not in ["host", "authorization", "connection", "transfer-encoding", "content-length"]
        }
        connection = HTTPConnection(CLUSTER.hostname, CLUSTER.port, timeout=120)
        connection.request(self.command, self.path, body or None, passed)
        answer = connection.getresponse()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() in ["content-encoding", "warning"]]
        text = answer.read()
        if self.command == "HEAD":
            text = b"x" * int(answer.getheader("Content-Length", 0))
        self.answer(answer.status, text, answer.getheader("Content-Type"), kept)
        connection.close()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
