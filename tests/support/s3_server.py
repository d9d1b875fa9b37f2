"""An object store as Amazon's: moto, in a separate process, with requests one at a time."""

from __future__ import annotations

import io
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from support.served import Served, say

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

KEY = "test"
REGION = "us-east-1"

_numbers = itertools.count()


class S3Server(Served):
    """The store, empty at first. Only its test sees its buckets: it ends with the process that started it."""

    def __init__(self) -> None:
        super().__init__("support.s3_server")

    def make_bucket(self) -> str:
        """A new bucket; its name was never given before."""
        bucket = f"bucket-{os.getpid()}-{next(_numbers)}"
        self.client().create_bucket(Bucket=bucket)
        return bucket

    def client(self) -> S3Client:
        """A plain client, to look at what is stored without Lance."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
            region_name=REGION,
        )

    @property
    def storage_options(self) -> dict[str, str]:
        return storage_options(self.endpoint)


def storage_options(endpoint: str) -> dict[str, str]:
    """Return the options with which Lance reaches the test store, or a proxy before it."""
    return {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": KEY,
        "aws_endpoint": endpoint,
        "aws_region": REGION,
        "allow_http": "true",
    }


def one_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The same application, where no request begins before the one before it is done.

    moto checks whether an object exists and then writes it, in two steps: two conditional PUTs at once could both
    succeed, which a real store never allows. Bodies are read outside the lock, so that a slow client holds up
    nobody.
    """
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        with lock:
            answer = app(environ, start_response)
            try:
                return list(answer)
            finally:
                getattr(answer, "close", lambda: None)()

    return serve


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(endpoint=f"http://127.0.0.1:{server.port}")
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
