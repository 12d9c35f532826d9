"""A server that speaks S3, on this machine, for tests: moto's, with faults on demand.

`POST /faults` with `{"put": N, "do": "fail"}` lets the N-th object that is sent from then on fail in the middle; with
`"do": "kill", "process": P` that process is killed before the object is there. `{"deny": true}` refuses everybody, and
`{"delay": S}` answers every request so many seconds late.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class Faults:
    """The application, and what it is to do wrong."""

    def __init__(self, app: Any) -> None:
        self.app, self.asked, self.puts = app, {}, 0
        self.log: list[str] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == "/faults":
            size = int(environ.get("CONTENT_LENGTH") or 0)
            if method == "POST":
                self.asked, self.puts, self.log = json.loads(environ["wsgi.input"].read(size)), 0, []
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(self.log).encode()]
        self.log.append(f"{method} {path} {environ.get('HTTP_RANGE', '')}".strip())
        time.sleep(self.asked.get("delay", 0))
        if self.asked.get("deny"):
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]
        if method == "PUT" and path.count("/") > 1 and not path.endswith("/"):
            self.puts += 1
            if self.puts == self.asked.get("put"):
                if self.asked["do"] == "kill":
                    os.kill(self.asked["process"], signal.SIGKILL)
                self.puts -= self.asked["do"] == "fail"  # also when it is tried again
                environ["wsgi.input"].read(min(10, int(environ.get("CONTENT_LENGTH") or 0)))
                start("400 Bad Request", [("Content-Type", "application/xml")])
                return [b"<Error><Code>InvalidRequest</Code><Message>broken on purpose</Message></Error>"]
        return self.app(environ, start)


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Faults(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
