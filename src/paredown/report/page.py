"""The shell of every page: one file that a browser opens from disk, with no server and no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from paredown.markup import Markup, join, tag
from paredown.version import __version__


def page(
    title: str,
    sections: Mapping[str, tuple[str, Markup]],
    *,
    lead: Iterable[Markup],
    above: Iterable[Markup] = (),
    scripts: Iterable[str],
    data: Mapping[str, Any] | None = None,
) -> str:
    """A whole page.

    The browser is told to load nothing and to run only the script that is inside (by its hash), so that nothing in the
    data can do harm even if it were not escaped.

    Args:
        title: of the window and of the page.
        sections: id -> what the link to it says, and the content; those without content are left out.
        lead: what stands below the title.
        above: what stands above the sections, without a link.
        scripts: files of `assets`, which become one module, in this order.
        data: what the script reads, as JSON.
    """
    script = "\n".join(asset(name) for name in scripts)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-{known}'"
    shown = {anchor: section for anchor, section in sections.items() if section[1]}
    links = [tag("a", text, href=f"#{anchor}") for anchor, (text, _) in shown.items()]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(asset("style.css"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", title), *lead, tag("nav", *links, aria_label="Sections")),
        tag("noscript", tag("p", "Without JavaScript this page shows only its tables and texts.", class_="lead")),
        tag("main", *above, *(content for _, content in shown.values()), id="content", tabindex="-1"),
        tag("footer", f"Made by paredown {__version__}. This file is complete: it loads nothing from anywhere."),
        tag("div", id="announcer", class_="unseen", role="status", aria_live="polite"),
        tag("script", _json(data or {}), type="application/json", id="data"),
        tag("script", Markup(script), type="module"),
    )
    return join(Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n"))


def asset(name: str) -> str:
    """A script or style sheet that ships with the package."""
    return (files("paredown.report") / "assets" / name).read_text(encoding="utf-8")


def _json(data: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the element it stands in."""
    return Markup(json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))
