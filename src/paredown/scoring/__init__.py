"""From a source to scores: the scoring job, saved models, imported scores and what scoring costs."""

from __future__ import annotations

from paredown.scoring.scoring import check_scoring, open_members, request_digest, score, score_all

__all__ = ["check_scoring", "open_members", "request_digest", "score", "score_all"]
