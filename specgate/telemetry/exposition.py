"""`/metrics` in the format that the scraper asks for."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def exposition(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Content type and text: OpenMetrics where `accept` asks for it, else Prometheus's own."""
    encoder, content_type = choose_encoder(accept)
    return content_type, encoder(registry)
