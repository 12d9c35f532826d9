"""From images to embeddings: encoders, and the store on disk that a killed run is finished from."""

from __future__ import annotations

from paredown.embeddings.embedding import (
    SHARD_SIZE,
    StoredImages,
    check_embedding,
    embed,
    embed_to_score,
    stored_encoder,
)
from paredown.embeddings.store import merge_store

__all__ = ["SHARD_SIZE", "StoredImages", "check_embedding", "embed", "embed_to_score", "merge_store", "stored_encoder"]
