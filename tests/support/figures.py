"""What a scrape of /metrics says, as numbers."""

from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, tuple[tuple[str, str], ...]]


def figures(text: str) -> dict[Series, float]:
    """Every series' value, by its name and its sorted labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(text: str, name: str, **labels: str) -> float:
    """The sum over all series of this name that have these labels; fails if there is none."""
    found = [
        value
        for (series, pairs), value in figures(text).items()
        if series == name and labels.items() <= dict(pairs).items()
    ]
    assert found, f"no {name} with {labels} in {text}"
    return sum(found)
