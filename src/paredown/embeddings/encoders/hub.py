"""Whether weights on the Hugging Face hub can be had, found out at once.

The hub's client tries every file six times and waits longer and longer in between, which takes most of a minute without
a network. Weights in its cache it finds without waiting; for others, one short question comes first.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["check_reachable"]

_PATIENCE = 5.0  # seconds for the answer to one small request


def check_reachable(repository: str) -> None:
    """Raise `ConnectionError` if the weights of `owner/name` are not in the local cache and the hub does not answer.

    Any answer will do: what it has to say about the weights is left to the library that loads them.
    """
    from huggingface_hub import constants, get_session

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.partition('@')[0].replace('/', '--')}"
    if any(folder.glob("snapshots/*/*")):
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # the client's own types for no route, no name, no time and offline mode
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ConnectionError(f"{constants.ENDPOINT} does not answer: {reason}") from error
