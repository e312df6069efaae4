"""One request of the generated traffic, and the line Apache would write for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

LOG_FORMAT = '%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D'
"""Apache's `vhost_combined`, and the time to serve in microseconds."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server sees it; `line` is the request line, exactly as Apache escapes it."""

    at: float
    vhost: str
    client: str
    line: str
    status: int
    size: int
    duration_us: int
    agent: str = "-"
    referer: str = "-"
    user: str = "-"


def access_log_line(request: Request) -> str:
    """The line, with its newline, in `LOG_FORMAT`."""
    return (
        f"{request.vhost}:443 {request.client} - {request.user} [{_apache_time(request.at)}] "
        f'"{request.line}" {request.status} {request.size} "{request.referer}" "{request.agent}" '
        f"{request.duration_us}\n"
    )


def _apache_time(at: float) -> str:
    # Not strftime: month names must not follow the machine's language.
    moment = datetime.fromtimestamp(at, tz=UTC)
    return f"{moment.day:02}/{_MONTHS[moment.month - 1]}/{moment:%Y:%H:%M:%S} +0000"
