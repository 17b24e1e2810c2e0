"""Draining a lane: so that its engine can be upgraded under traffic."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from specgate.admin.auth import BEARER, Refused, guarded
from specgate.admin.models import ErrorBody
from specgate.control.gate import Gate
from specgate.control.roster import LastLaneError
from specgate.core.lanes import Lane
from specgate.proxy.app import OWN_ROOT

LONGEST_WAIT_S = 600.0
LOOK_S = 0.05

WaitS = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST_WAIT_S,
        description="Answer when the lane has nothing in hand, or after so many seconds.",
    ),
]


class LaneDrain(BaseModel):
    """A lane, and what it still has to do."""

    lane: Lane
    draining: bool = Field(description="It gets nothing new, but for what only it holds.")
    in_hand: int = Field(description="Requests that it has in hand, whatever they ask for.")
    drained: bool = Field(description="It drains and has nothing in hand: its engine may stop.")

    @classmethod
    def of(cls, gate: Gate, lane: Lane) -> "LaneDrain":
        seen = gate.view().lanes[lane]
        return cls(
            lane=lane,
            draining=seen.draining,
            in_hand=seen.carried,
            drained=seen.draining and seen.carried == 0,
        )


def lane_routes(gate: Gate, admin_token: str | None) -> APIRouter:
    router = APIRouter(
        prefix=f"{OWN_ROOT}/lanes",
        tags=["changing"],
        route_class=guarded(admin_token),
        dependencies=[Depends(BEARER)],
        responses={
            401: {"model": ErrorBody, "description": "The token is missing or wrong."},
            403: {"model": ErrorBody, "description": "The gate was started without a token."},
        },
    )

    @router.post(
        "/{lane}/drain",
        summary="Send a lane nothing new, and let it end what it has",
        responses={409: {"model": ErrorBody, "description": "The other lane drains already."}},
    )
    async def drain(lane: Lane, wait_s: WaitS = 0.0) -> LaneDrain:
        try:
            gate.drain(lane)
        except LastLaneError as error:
            raise Refused(409, str(error)) from None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while not (now := LaneDrain.of(gate, lane)).drained and loop.time() < deadline:
            if not now.draining:
                break  # somebody undrained it
            await asyncio.sleep(LOOK_S)
        return now

    @router.post("/{lane}/undrain", summary="Send a lane new requests again")
    async def undrain(lane: Lane) -> LaneDrain:
        gate.undrain(lane)
        return LaneDrain.of(gate, lane)

    return router
