"""The rows of a task → the partial sums it returns.

Pure. Merging the partials of any split of the lines gives the partials of all of them. The only
exception are top lists that had to be cut: what was cut is counted under the key "", so that sums
stay exact, and a key that was cut in a task is too low by at most the count of the last one kept.
"""

from __future__ import annotations

import polars as pl

from streaming.attacks.attack_partials import attack_partial
from streaming.attacks.behaviour import count_clients
from streaming.load.partial_table import Table
from streaming.load.url_template import url_template
from streaming.load.windows import duration_bucket, window_start

METHODS = (
    *("GET", "HEAD", "POST", "PUT", "DELETE"),
    *("PATCH", "OPTIONS", "CONNECT", "TRACE", "PROPFIND"),
)
"""Methods that are counted by name; the rest is `other`."""
UNKNOWN = "-"
REST = ""
KEY_LENGTH = 300
UNKNOWN_STATUS = 0

_PLACE = {"window": pl.Int64(), "service": pl.String()}
LOAD = Table(
    keys={**_PLACE, "vhost": pl.String(), "method": pl.String(), "status": pl.Int32()},
    sums=dict.fromkeys(("requests", "bytes", "duration_count", "duration_us_sum"), pl.Int64()),
    maxima={"duration_us_max": pl.Int64()},
)
LATENCY = Table(
    keys={**_PLACE, "vhost": pl.String(), "bucket": pl.Int16()}, sums={"count": pl.Int64()}
)
TOPS = Table(
    keys={**_PLACE, "kind": pl.String(), "key": pl.String()},
    sums={"requests": pl.Int64(), "bytes": pl.Int64()},
)

Partials = dict[str, pl.DataFrame]


def summarise(frame: pl.DataFrame, top_entries: int) -> Partials:
    """Every table of a task's rows; at most `top_entries` keys in each top list.

    Whoever shows N entries asks for several times N here: that is what makes cut lists exact in
    practice. Without `match_lines` before it, the table of attacks is empty.
    """
    rows = access_rows(frame)
    clients, behaviour = count_clients(rows)
    return {
        "load": _load(rows),
        "latency": _latency(rows),
        "tops": _tops(rows, clients, top_entries),
        "attacks": attack_partial(rows),
        "behaviour": behaviour,
    }


def summarise_whole(frame: pl.DataFrame, top_entries: int) -> Partials:
    """The same with load, latency and tops over all time, as one window that starts at 0."""
    rows = access_rows(frame)
    clients, behaviour = count_clients(rows)
    whole = rows.with_columns(window=pl.lit(0, pl.Int64))
    all_time = clients.with_columns(window=pl.lit(0, pl.Int64))
    return {
        "load": _load(whole),
        "latency": _latency(whole),
        "tops": _tops(whole, _summed(all_time), top_entries),
        "attacks": attack_partial(rows),
        "behaviour": behaviour,
    }


def access_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that are access-log lines, with their `window`."""
    rows = frame if frame["ok"].all() else frame.filter("ok")
    return rows.with_columns(window=window_start(pl.col("time")))


def _load(rows: pl.DataFrame) -> pl.DataFrame:
    method = pl.col("method")
    return LOAD.shaped(
        rows.group_by(
            "window",
            "service",
            "vhost",
            pl.when(method.is_in(METHODS)).then(method).otherwise(pl.lit("other")).alias("method"),
            pl.col("status").fill_null(UNKNOWN_STATUS),
        ).agg(
            requests=pl.len(),
            bytes=pl.col("bytes").sum(),
            duration_count=pl.col("duration_us").count(),
            duration_us_sum=pl.col("duration_us").sum(),
            duration_us_max=pl.col("duration_us").max(),
        )
    )


def _latency(rows: pl.DataFrame) -> pl.DataFrame:
    timed = rows.filter(pl.col("duration_us").is_not_null())
    bucketed = timed.with_columns(duration_bucket(timed["duration_us"]))
    return LATENCY.shaped(
        bucketed.group_by("window", "service", "vhost", "bucket").agg(count=pl.len())
    )


def _tops(rows: pl.DataFrame, clients: pl.DataFrame, top_entries: int) -> pl.DataFrame:
    by_client = clients.select("window", "service", _key("client"), "requests", "bytes")
    by_path = _counted(rows, "path")
    lists = {
        "url": by_path.with_columns(key=url_template(pl.col("key"))),  # of distinct paths only
        "client": by_client,
        "agent": _counted(rows, "agent"),
    }
    return TOPS.shaped(
        pl.concat(
            _cut(_recounted(counted) if kind == "url" else counted, top_entries).with_columns(
                kind=pl.lit(kind)
            )
            for kind, counted in lists.items()
        )
    )


def _key(column: str) -> pl.Expr:
    return pl.col(column).fill_null(UNKNOWN).str.head(KEY_LENGTH).alias("key")


def _counted(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    return rows.group_by("window", "service", _key(column)).agg(
        requests=pl.len().cast(pl.Int64), bytes=pl.col("bytes").sum()
    )


def _summed(clients: pl.DataFrame) -> pl.DataFrame:
    return clients.group_by("window", "service", "client").agg(pl.col("requests", "bytes").sum())


def _recounted(counted: pl.DataFrame) -> pl.DataFrame:
    return counted.group_by("window", "service", "key").agg(pl.col("requests", "bytes").sum())


def cut_tops(tops: pl.DataFrame, top_entries: int) -> pl.DataFrame:
    """A merged top table cut again to `top_entries` keys for each window, service and kind."""
    lists = tops.partition_by("kind", include_key=True)
    cut = [_cut(one, top_entries).with_columns(kind=pl.lit(one["kind"][0])) for one in lists]
    return TOPS.shaped(pl.concat(cut)) if cut else tops


def _cut(counted: pl.DataFrame, top_entries: int) -> pl.DataFrame:
    """The most requested keys of each window and service; the others together under `REST`."""
    # Equal counts are ordered by hash: as repeatable as by text, and several times faster.
    weight = pl.col("requests") * 2**32 + (pl.col("key").hash() % 2**32).cast(pl.Int64)
    place = weight.rank("ordinal", descending=True).over("window", "service")
    kept = pl.when(place <= top_entries).then("key").otherwise(pl.lit(REST))
    return _recounted(counted.with_columns(key=kept))
