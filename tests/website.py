"""A folder as a web site, on loopback."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Served:
    """A folder over HTTP: its address, what was asked, and what is answered in its place."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    status: list[int] = field(default_factory=list)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    served = Served()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            if served.status:
                self.send_error(served.status.pop(0))
            else:
                super().do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
