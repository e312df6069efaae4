"""Attack episodes of the generated traffic: who attacks, with what, and when. Pure.

Every episode happens within the first minute and comes back every two. Addresses are from the
ranges reserved for documentation, so nothing here points at anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from deploy.local.traffic_request import Request

CYCLE_SECONDS = 120.0
_BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
_INJECTIONS = (
    "/product?id=7%27%20OR%20%271%27%3D%271",
    "/product?id=7%20UNION%20SELECT%20username,password,3%20FROM%20users--%20-",
    "/product?id=7%20UNION%20ALL%20SELECT%20NULL,NULL,CONCAT(0x7171,version(),0x7171)--",
    "/search?q=shoe%27%20AND%20SLEEP(5)--%20-",
    "/search?q=1%27;WAITFOR%20DELAY%20%270:0:5%27--",
    "/product?id=7%20AND%20(SELECT%202*(IF((SELECT%20COUNT(*)%20FROM%20information_schema.tables),1,0)))",
    "/product?id=7%27)%20OR%20EXTRACTVALUE(1,CONCAT(0x5c,database()))--",
)
_SENSITIVE = (
    "/.env",
    "/.git/config",
    "/.git/HEAD",
    "/wp-config.php.bak",
    "/backup.sql",
    "/.aws/credentials",
    "/phpmyadmin/index.php",
    "/server-status",
    "/.htpasswd",
    "/config.php~",
    "/cgi-bin/.%2e/.%2e/.%2e/.%2e/etc/passwd",
    "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
    "/actuator/env",
    "/.ssh/id_rsa",
)


@dataclass(frozen=True, slots=True)
class Episode:
    """An attack from `begins` for `lasts` seconds of every cycle, at `per_second` requests."""

    name: str
    begins: float
    lasts: float
    per_second: float
    attack: Callable[[Random, float], Request]

    def active_seconds(self, since_start: float, until: float) -> float:
        """How much of the slice [since_start, until) falls into the episode (slices are short)."""
        phase = since_start % CYCLE_SECONDS
        length = until - since_start
        overlap = min(phase + length, self.begins + self.lasts) - max(phase, self.begins)
        return max(0.0, overlap)


def _sql_injection(random: Random, at: float) -> Request:
    status = random.choices((200, 500, 403), weights=(6, 3, 1))[0]
    return Request(
        at=at,
        vhost="shop.example",
        client="192.0.2.77",
        line=f"GET {random.choice(_INJECTIONS)} HTTP/1.1",
        status=status,
        size=random.randint(400, 9_000),
        duration_us=random.randint(20_000, 900_000),
        agent="sqlmap/1.8.4#stable (https://sqlmap.org)" if random.random() < 0.5 else _BROWSER,
    )


def _scan(random: Random, at: float) -> Request:
    return Request(
        at=at,
        vhost=random.choice(("shop.example", "blog.example", "api.example")),
        client="192.0.2.66",
        line=f"GET {random.choice(_SENSITIVE)} HTTP/1.1",
        status=random.choices((404, 403, 400), weights=(8, 1, 1))[0],
        size=random.randint(180, 420),
        duration_us=random.randint(200, 3_000),
        agent="Mozilla/5.00 (Nikto/2.5.0) (Evasions:None) (Test:Port Check)",
    )


def _login_attempt(random: Random, at: float) -> Request:
    return Request(
        at=at,
        vhost="shop.example",
        client="2001:db8:bad::5",
        line="POST /login HTTP/1.1",
        status=401 if random.random() < 0.99 else 302,
        size=random.randint(900, 1_100),
        duration_us=random.randint(60_000, 160_000),
        agent="python-requests/2.32.3",
        referer="https://shop.example/login",
    )


def _flood_request(random: Random, at: float) -> Request:
    overloaded = random.random() < 0.3
    return Request(
        at=at,
        vhost="shop.example",
        client=f"203.0.113.{200 + random.randrange(8)}",
        line=f"GET /search?q={random.getrandbits(48):012x} HTTP/1.1",
        status=503 if overloaded else 200,
        size=320 if overloaded else random.randint(12_000, 30_000),
        duration_us=random.randint(400_000, 6_000_000),
        agent=_BROWSER,
    )


EPISODES: tuple[Episode, ...] = (
    Episode("sql injection", begins=5, lasts=14, per_second=6, attack=_sql_injection),
    Episode("scan", begins=14, lasts=12, per_second=15, attack=_scan),
    Episode("login brute force", begins=24, lasts=16, per_second=12, attack=_login_attempt),
    Episode("flood", begins=42, lasts=10, per_second=350, attack=_flood_request),
)
