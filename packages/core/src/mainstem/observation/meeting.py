"""Where those who look at a run find it: a socket that its checkpoint names, and what its last run left.

The socket is in a folder of the user's own, for a socket's path is short, and a checkpoint's may not be.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from mainstem.durable import write_whole
from mainstem.errors import PipelineError
from mainstem.observation.http import LocalConnection, LocalServer
from mainstem.observation.picture import Picture
from mainstem.observation.reporter import Reporter, Several
from mainstem.observation.samples import Samples
from mainstem.paths import made_user_folder, user_folder
from mainstem.plan.model import Plan

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

#: In a checkpoint: the path of the socket, and the picture of the run that ended last.
SOCKET, LAST = "socket", "last_run.json"
_KILLED = "it ended without a word: its process was killed, or the machine went down"


class NotRunningError(PipelineError):
    """Nobody answers for a checkpoint: nothing runs on it on this machine."""


@contextmanager
def observed(plan: Plan, reporter: Reporter, samples: Samples | None = None) -> Iterator[Reporter]:
    """While it is entered, a run can be looked at; gives the reporter that is to be told of it.

    What is known at the end is kept in the checkpoint. A run goes on where no socket can be made.

    Args:
        samples: where batches leave rows for those who ask.
    """
    samples = samples or Samples()
    picture = Picture(plan, samples=samples)
    server = _serve(picture, samples, plan.checkpoint)
    _keep(picture, plan.checkpoint)  # should it be killed
    try:
        yield Several(picture, reporter)
        picture.ended({})  # also a run that was interrupted before a query started
    except BaseException as error:
        picture.failed(error)
        raise
    finally:
        _keep(picture, plan.checkpoint)
        if server is not None:
            server.close()


def _keep(picture: Picture, checkpoint: Path) -> None:
    with suppress(OSError):
        write_whole(checkpoint / LAST, _text(picture), checked=False)


def _serve(picture: Picture, samples: Samples, checkpoint: Path) -> LocalServer | None:
    folder = made_user_folder()
    if folder is None:
        _warn(f"others can write to {user_folder()}")
        return None
    name = hashlib.sha256(str(checkpoint.absolute()).encode()).hexdigest()[:12]
    path = folder / f"{name}.socket"

    def app(environ: WSGIEnvironment, respond: StartResponse) -> list[bytes]:
        def answer(status: str, content: str) -> list[bytes]:
            respond(status, [("Content-Type", "application/json")])
            return [content.encode()]

        if environ["PATH_INFO"] == "/run":
            return answer("200 OK", _text(picture))
        if environ["PATH_INFO"] != "/rows":
            return answer("404 Not Found", "{}")
        asked = dict(parse_qsl(environ.get("QUERY_STRING", "")))
        try:
            found = samples.ask(asked["of"], int(asked["after"]), int(asked["most"]))
        except PipelineError as error:
            return answer("404 Not Found", json.dumps({"error": str(error)}))
        return answer("200 OK", json.dumps(found))

    try:
        server = LocalServer(app, path)
    except OSError as error:
        _warn(f"{path}: {error}")
        return None
    with suppress(OSError):
        write_whole(checkpoint / SOCKET, str(path), checked=False)
    return server


def _warn(why: str) -> None:
    log = logging.getLogger(__name__)
    log.warning("neither a page nor `top` can show this run, for it has no socket: %s", why)


def _text(picture: Picture) -> str:
    """Return what is known as JSON; what a plugin's helper told that JSON has not, as text."""
    return json.dumps(picture.facts(), default=str)


def look(checkpoint: Path) -> dict[str, Any]:
    """Return what is known of the run on a checkpoint (`Picture.facts`).

    Raises:
        NotRunningError: there is none on this machine.
    """
    return _ask(checkpoint, "/run")


def rows(checkpoint: Path, of: str, after: int, most: int) -> dict[str, Any]:
    """Return rows of a stream of the run on a checkpoint; see `Samples.ask`.

    Raises:
        NotRunningError: there is no run on this machine.
        PipelineError: there is no such stream, or its rows can't be seen.
    """
    found = _ask(checkpoint, f"/rows?{urlencode({'of': of, 'after': after, 'most': most})}")
    if "error" in found:
        raise PipelineError(found["error"])
    return found


def _ask(checkpoint: Path, path: str) -> dict[str, Any]:
    try:
        connection = LocalConnection(Path((checkpoint / SOCKET).read_text()))
        try:
            connection.request("GET", path)
            return dict(json.loads(connection.getresponse().read()))
        finally:
            connection.close()
    except PermissionError:
        raise NotRunningError(f"{checkpoint}, or the run on it, is another user's") from None
    except TimeoutError:
        raise NotRunningError(f"the run on {checkpoint} does not answer") from None
    except (OSError, ValueError, HTTPException):
        raise NotRunningError(f"nothing runs on {checkpoint} on this machine") from None


def last(checkpoint: Path) -> dict[str, Any] | None:
    """Return what was known at the end of the last run, or at the start of one that was killed."""
    with suppress(OSError, ValueError):
        found = dict(json.loads((checkpoint / LAST).read_text()))
        if found["state"] in ("starting", "running"):
            found |= {"state": "failed", "error": {"node": None, "text": _KILLED}, "doing": ""}
        return found
    return None
