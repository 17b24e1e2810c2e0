"""The llama.cpp metrics that dashboards and rules name, held against a real server."""

import httpx2
import pytest

from tests.deploy.prometheus.exposed import LLAMACPP, names
from tests.support.llama import llama_pair


@pytest.mark.engine
@pytest.mark.xdist_group("llama")
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_real_server_has_each_of_them():
    async with llama_pair(slots=2) as (spec, _), httpx2.AsyncClient(trust_env=False) as http:
        page = (await http.get(f"{spec}/metrics")).text
    assert LLAMACPP.keys() - names(page) == set()
