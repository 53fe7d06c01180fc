"""Stores for tests, on free ports of this machine: S3 as moto plays it, in three tempers, and an HTTP server of files.

    serve.py        prints one line of JSON with what there is, and serves until its standard input ends

    s3      answers, and asks for no credentials; has the bucket "pelton"
    faulty  the same store behind a proxy: every third request is answered 503, every fifth answer breaks off
    signed  another store, which takes the key and secret that are printed and no others
    http    the files of "directory", in ranges
"""

import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request

REGION = "us-east-1"


def start(handler):
    """Serves `handler` from a thread; returns the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that keeps connections and says nothing on standard error."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


def faulty(port):
    """A handler that passes requests to `port` of this machine, most of the time."""
    lock = threading.Lock()
    served = 0

    class Faulty(Quiet):
        def handle_any(self):
            nonlocal served
            with lock:
                served += 1
                number = served
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if number % 3 == 0:
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.headers.get("Content-Length", len(content))
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if number % 5 == 0 and len(content) > 1000:
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)
                return
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    return Faulty


def files(directory):
    """A handler of the files of `directory` that knows ranges."""

    class Files(Quiet):
        def do_HEAD(self):
            self.answer(False)

        def do_GET(self):
            self.answer(True)

        def answer(self, has_body):
            name = urllib.parse.unquote(self.path).lstrip("/")
            path = os.path.join(directory, name)
            if not os.path.isfile(path):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            with open(path, "rb") as file:
                content = file.read()
            size = len(content)
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            self.send_response(206 if wanted else 200)
            if wanted:
                first, last = int(wanted[1]), min(int(wanted[2]), size - 1)
                content = content[first : last + 1]
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Last-Modified", self.date_time_string(os.path.getmtime(path)))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if has_body:
                self.wfile.write(content)

    return Files


def moto():
    """Starts S3 in this process; returns its port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return server.get_host_and_port()[1]


def client(service, port):
    import boto3

    where = f"http://127.0.0.1:{port}"
    return boto3.client(
        service, endpoint_url=where, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )


def signed():
    """Serves a store that checks signatures; for a process of its own, as moto checks all of them or none."""
    port = moto()
    client("s3", port).create_bucket(Bucket="pelton")
    users = client("iam", port)
    users.create_user(UserName="pelton")
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    users.put_user_policy(UserName="pelton", PolicyName="all", PolicyDocument=json.dumps(policy))
    key = users.create_access_key(UserName="pelton")["AccessKey"]
    check_all = f"http://127.0.0.1:{port}/moto-api/reset-auth"
    urllib.request.urlopen(urllib.request.Request(check_all, b"0", {"Content-Type": "text/plain"})).read()
    found = {"signed": f"http://127.0.0.1:{port}", "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}
    print(json.dumps(found), flush=True)
    sys.stdin.read()


def main():
    if sys.argv[1:] == ["--signed"]:
        return signed()
    other = subprocess.Popen(
        [sys.executable, __file__, "--signed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    port = moto()
    client("s3", port).create_bucket(Bucket="pelton")
    with tempfile.TemporaryDirectory() as directory:
        found = {
            "s3": f"http://127.0.0.1:{port}",
            "faulty": f"http://127.0.0.1:{start(faulty(port))}",
            "http": f"http://127.0.0.1:{start(files(directory))}",
            "directory": directory,
            **json.loads(other.stdout.readline()),
        }
        print(json.dumps(found), flush=True)
        sys.stdin.read()
    other.stdin.close()
    other.wait()


if __name__ == "__main__":
    main()
