"""Ordinary visitors of the generated traffic: people, crawlers, API clients. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from deploy.local.traffic_request import Request

_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/131.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.1 Safari/605.1.15",
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/131.0.0.0 Mobile Safari/537.36",
)
_CRAWLERS = (
    ("198.51.100.10", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    ("198.51.100.11", "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"),
    ("198.51.100.12", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"),
    ("198.51.100.13", "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"),
    ("2001:db8:c::7", "Mozilla/5.0 (compatible; Applebot/0.1; +http://www.apple.com/go/applebot)"),
)
_PAGES = {
    "shop.example": (
        "/",
        "/category/shoes",
        "/category/bags",
        "/product?id=7",
        "/product?id=12",
        "/cart",
        "/search?q=shoe",
    ),
    "blog.example": (
        "/",
        "/2026/11/walls-of-logs/",
        "/2026/10/tail-latency/",
        "/archive/",
        "/feed.xml",
        "/about",
    ),
}
_ASSETS = (
    "/static/site.css",
    "/static/site.js",
    "/static/logo.svg",
    "/favicon.ico",
    "/img/hero.webp",
    "/fonts/text.woff2",
)
_API_CALLS = (
    ("GET", "/v1/items?page={n}"),
    ("GET", "/v1/items/{n}"),
    ("POST", "/v1/orders"),
    ("PUT", "/v1/items/{n}"),
    ("DELETE", "/v1/sessions/{n}"),
    ("HEAD", "/v1/health"),
)
# What strangers send to any server: a TLS hello on a plain port, nothing, an ancient request.
_NOISE = (r"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "-", "GET /")


@dataclass(frozen=True, slots=True)
class Person:
    """A visitor who comes back: same address, same browser, same site."""

    client: str
    agent: str
    vhost: str
    user: str


def people(random: Random, count: int) -> list[Person]:
    """A town of visitors; a few are logged in, every fifth comes by IPv6."""
    return [
        Person(
            client=_address(random),
            agent=random.choice(_AGENTS),
            vhost=random.choices(("shop.example", "blog.example"), weights=(3, 1))[0],
            user=f"user{number}" if number % 10 == 0 else "-",
        )
        for number in range(count)
    ]


def _address(random: Random) -> str:
    if random.random() < 0.2:
        return f"2001:db8:{random.randrange(1, 200):x}::{random.randrange(1, 65535):x}"
    return f"{random.choice(('198.51.100', '203.0.113'))}.{random.randrange(20, 190)}"


def page_view(random: Random, person: Person, at: float) -> Iterator[Request]:
    """A page and the assets its browser asks for; a returning browser often has them already."""
    target = random.choice(_PAGES[person.vhost])
    status = random.choices((200, 404, 301, 500), weights=(960, 25, 12, 3))[0]
    yield Request(
        at=at,
        vhost=person.vhost,
        client=person.client,
        line=f"GET {target if status != 404 else target.rstrip('/') + '/old'} HTTP/1.1",
        status=status,
        size=random.randint(6_000, 40_000) if status == 200 else random.randint(200, 900),
        duration_us=latency_us(random, median_ms=45, spread=0.6),
        agent=person.agent,
        user=person.user,
    )
    for asset in random.sample(_ASSETS, random.randint(1, 5)):
        yield _asset(random, person, asset, f"https://{person.vhost}{target}", at)


def _asset(random: Random, person: Person, asset: str, referer: str, at: float) -> Request:
    cached = random.random() < 0.35
    return Request(
        at=at,
        vhost=person.vhost,
        client=person.client,
        line=f"GET {asset} HTTP/1.1",
        status=304 if cached else 200,
        size=180 if cached else random.randint(900, 90_000),
        duration_us=latency_us(random, median_ms=0.8, spread=0.5),
        agent=person.agent,
        referer=referer,
        user=person.user,
    )


def crawl(random: Random, at: float) -> Request:
    """A search engine or a model's crawler reads one page."""
    client, agent = random.choice(_CRAWLERS)
    vhost = random.choice(tuple(_PAGES))
    return Request(
        at=at,
        vhost=vhost,
        client=client,
        line=f"GET {random.choice((*_PAGES[vhost], '/robots.txt', '/sitemap.xml'))} HTTP/1.1",
        status=random.choices((200, 404, 304), weights=(90, 5, 5))[0],
        size=random.randint(2_000, 30_000),
        duration_us=latency_us(random, median_ms=30, spread=0.5),
        agent=agent,
    )


def api_call(random: Random, at: float) -> Request:
    """A program calls the API."""
    method, template = random.choice(_API_CALLS)
    return Request(
        at=at,
        vhost="api.example",
        client=f"198.51.100.{random.randrange(200, 240)}",
        line=f"{method} {template.format(n=random.randrange(1, 500))} HTTP/1.1",
        status=random.choices((200, 201, 204, 404, 429, 502), weights=(800, 80, 80, 25, 10, 5))[0],
        size=random.randint(150, 4_000),
        duration_us=latency_us(random, median_ms=12, spread=0.7),
        agent="warehouse-sync/3.4 (+https://partner.example)",
    )


def noise(random: Random, at: float) -> Request:
    """A request that is none, as every public server gets them."""
    return Request(
        at=at,
        vhost="shop.example",
        client=_address(random),
        line=random.choice(_NOISE),
        status=random.choice((400, 408)),
        size=random.randint(0, 400),
        duration_us=random.randint(20, 2_000),
    )


def latency_us(random: Random, *, median_ms: float, spread: float) -> int:
    """A time to serve: log-normal, and one in three hundred hits something slow."""
    seconds = median_ms / 1_000 * math.exp(random.gauss(0, spread))
    slow = random.uniform(8, 30) if random.random() < 1 / 300 else 1.0
    return max(1, int(seconds * slow * 1_000_000))
