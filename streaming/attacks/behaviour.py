"""What clients do over a minute: log-in failures, floods, sweeps.

Pure. A task returns counts for each 10 s window and client; windows of several batches are added up
and looked at together. Bounded: a task leaves out clients with fewer than five requests in a window
and nothing refused, so a count is too low by at most 4 for each task and window; and it keeps at
most `MAX_CLIENTS` clients a window and service, those with most refused and most requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import polars as pl

from streaming.attacks.detector import BehaviourRule, Detector
from streaming.load.partial_table import Table
from streaming.load.windows import WINDOW_SECONDS

MAX_CLIENTS = 5_000
FEW_REQUESTS = 5
_BITS = 63
_BIT_VALUES = pl.Series([1 << bit for bit in range(_BITS)], dtype=pl.Int64)
_COUNTED = (
    *("requests", "dynamic_requests", "not_found", "login_failures"),
    *("bytes", "duration_us_sum", "errors_5xx", "pages_2xx"),
)
BEHAVIOUR = Table(
    keys={"window": pl.Int64(), "service": pl.String(), "client": pl.String()},
    sums=dict.fromkeys(_COUNTED, pl.Int64()),
    bit_sets={"not_found_paths": pl.Int64()},
)
HIT_SCHEMA = {
    "service": pl.String(),
    "client": pl.String(),
    "detector": pl.String(),
    "points": pl.Int64(),
    "requests": pl.Int64(),
    "window": pl.Int64(),
}

_STATIC = (
    r"(?i)\.(?:css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|avif|bmp|woff2?|ttf|otf|eot"
    r"|mp[34]|webm|og[gv]|m3u8|ts|wasm)$"
)
_LOGIN = (
    r"(?i)/(?:[a-z_-]*log-?in|[a-z_-]*sign-?in|auth|authenticate|session|sessions|oauth/token|token"
    r"|account/logon|logon|j_security_check|xmlrpc\.php|wp-login\.php|user/login|admin)(?:[/.;]|$)"
)
_SHOWS_FORM_AGAIN = r"/(?:wp-login|xmlrpc)\.php$"


def count_clients(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """From a task's rows (with `window`): counts of all clients, and the table of those that matter."""
    facts = _facts(rows)
    counted = facts.group_by("window", "service", "client").agg(
        pl.len().cast(pl.Int64).alias("requests"),
        pl.col("bytes").sum(),
        pl.col("duration_us").sum().alias("duration_us_sum"),
        pl.col("dynamic_requests", "not_found", "login_failures", "errors_5xx", "pages_2xx").sum(),
    )
    kept = _that_could_matter(counted.filter(pl.col("client").is_not_null()))
    return counted, BEHAVIOUR.shaped(_with_refused_paths(kept, facts))


def behaviour_hits(behaviour: pl.DataFrame, detectors: Sequence[Detector]) -> pl.DataFrame:
    """Clients that reach a rule's threshold, with the window in which the stretch of time ended."""
    sums: dict[int, pl.DataFrame] = {}
    hits = [pl.DataFrame(schema=HIT_SCHEMA)]
    for detector in detectors:
        if (rule := detector.rule) is not None:
            seconds = rule.window_seconds
            sums[seconds] = sums[seconds] if seconds in sums else _sliding(behaviour, seconds)
            hits.append(_rule_hits(sums[seconds], detector, rule))
    return pl.concat(hits).sort("window", "service", "client", "detector")


def _facts(rows: pl.DataFrame) -> pl.DataFrame:
    status, path = pl.col("status"), pl.col("path")
    posted = pl.when((pl.col("method") == "POST") & status.is_in([200, 401, 403])).then(path)
    failed = status.is_in([401, 403]) | posted.str.contains(_SHOWS_FORM_AGAIN)
    return rows.select(
        *("window", "service", "client", "path", "bytes", "duration_us", "status"),
        dynamic_requests=~path.str.contains(_STATIC).fill_null(value=False),
        login_failures=(posted.str.contains(_LOGIN) & failed).fill_null(value=False),
        errors_5xx=status >= 500,
    ).with_columns(
        not_found=pl.col("dynamic_requests") & status.is_between(400, 499),
        pages_2xx=pl.col("dynamic_requests") & status.is_between(200, 299),
    )


def _with_refused_paths(counted: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Adds a set of 63 bits, one for the hash of each refused path: sets merge, counts would not."""
    keys = ["window", "service", "client"]
    bit = pl.lit(_BIT_VALUES).gather(pl.col("path").fill_null("").hash() % _BITS)
    refused = facts.lazy().filter("not_found").select(*keys, bit.alias("not_found_paths"))
    paths = refused.group_by(keys).agg(pl.col("not_found_paths").bitwise_or()).collect()
    joined = counted.join(paths, on=keys, how="left")
    return joined.with_columns(pl.col("not_found_paths").fill_null(0))


def _that_could_matter(counted: pl.DataFrame) -> pl.DataFrame:
    matters = (
        (pl.col("requests") >= FEW_REQUESTS)
        | (pl.col("not_found") > 0)
        | (pl.col("login_failures") > 0)
    )
    kept = counted.filter(matters)
    weight = pl.col("login_failures") * 1_000_000 + pl.col("not_found") * 1_000 + pl.col("requests")
    return kept.filter(
        weight.rank("ordinal", descending=True).over("window", "service") <= MAX_CLIENTS
    )


def _rule_hits(sums: pl.DataFrame, detector: Detector, rule: BehaviourRule) -> pl.DataFrame:
    share = pl.col(rule.share_count) / pl.col(rule.share_of)
    reached = (pl.col(rule.count) >= rule.at_least) & (share >= rule.share_at_least)
    return sums.filter(reached).select(
        "service",
        "client",
        pl.lit(detector.name).alias("detector"),
        pl.lit(detector.points, pl.Int64).alias("points"),
        "requests",
        "window",
    )


def _sliding(behaviour: pl.DataFrame, seconds: int) -> pl.DataFrame:
    """For each row, the merge of that client's rows of the last `seconds`, its own window included."""
    shifted = [
        behaviour.with_columns(pl.col("window") + shift)
        for shift in range(0, max(seconds, WINDOW_SECONDS), WINDOW_SECONDS)
    ]
    merged = BEHAVIOUR.merge(shifted)
    present = behaviour.select("window", "service", "client")
    return merged.join(present, on=["window", "service", "client"], how="semi").with_columns(
        not_found_paths=distinct_paths(pl.col("not_found_paths"))
    )


def distinct_paths(bits: pl.Expr) -> pl.Expr:
    """About how many paths set these bits (linear counting); 63 full bits mean "many"."""
    estimates = [round(-_BITS * log(max(_BITS - ones, 0.5) / _BITS)) for ones in range(_BITS + 1)]
    ones = bits.bitwise_count_ones().cast(pl.Int64)
    return ones.replace_strict(range(_BITS + 1), estimates, return_dtype=pl.Int64)
