"""`/_specgate/curves`: what the profile says of both lanes, as the gate weighs by it now."""

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from specgate.admin.auth import reading_router
from specgate.admin.seen import Seen
from specgate.core.curves import Curves
from specgate.core.lanes import Lane
from specgate.proxy.app import OWN_ROOT


class CurvePoint(BaseModel):
    """What a lane gives at a load."""

    load: float = Field(description="Sequences.")
    tok_s: float = Field(description="Output tokens a second, of all sequences together.")


class ProfileCurves(BaseModel):
    """Both lanes' curves as the gate weighs by them now: of the recent prompts' length, where the
    profile has several, and moved by the live accept length, where that is followed. Loads in
    sequences. Between two points ln(tok/s) is linear in the log of the load; below the first a
    sequence is as fast as there; above the last the total stays."""

    points: dict[Lane, list[CurvePoint]] = Field(description="By lane, the lowest load first.")
    pays: list[list[float | None]] = Field(
        description="The loads between which speculation pays; null: to any load."
    )
    open: list[list[float]] = Field(
        description="The loads between which the measurement does not say which lane is better."
    )
    margin: float = Field(description="A share; a smaller difference is worth nothing.")
    spread: float | None = Field(
        description="Half the width of the interval of ln(spec / plain); null: it has none."
    )
    output_tokens: float = Field(description="Of a sequence of the measurement, on the mean.")
    accept_length: float | None = Field(
        description="Of the spec lane in these curves; null: it is not known."
    )

    @classmethod
    def of(cls, curves: Curves) -> "ProfileCurves":
        accept = curves.accept_length
        return cls(
            points={lane: _points(curves, lane) for lane in Lane},
            pays=[[round(low, 6), _finite(high)] for low, high in curves.paying],
            open=[[round(low, 6), round(high, 6)] for low, high in curves.open],
            margin=curves.margin,
            spread=None if curves.spread is None else round(curves.spread, 6),
            output_tokens=curves.output_tokens,
            accept_length=None if accept is None else round(accept, 3),
        )


def curves_route(seen: Seen, read_token: str | None) -> APIRouter:
    router = reading_router(read_token)

    @router.get(
        f"{OWN_ROOT}/curves",
        summary="Both lanes' measured curves",
        response_model=None,
        responses={
            200: {
                "model": ProfileCurves | None,
                "description": "null: there is no profile to weigh by.",
            }
        },
    )
    async def curves() -> Response:
        found = seen.view().curves
        text = "null" if found is None else ProfileCurves.of(found).model_dump_json()
        return Response(text, media_type="application/json")

    return router


def _points(curves: Curves, lane: Lane) -> list[CurvePoint]:
    curve = curves.of(lane)
    pairs = zip(curve.loads, curve.tok_s, strict=True)
    return [CurvePoint(load=load, tok_s=round(tok_s, 3)) for load, tok_s in pairs]


def _finite(edge: float) -> float | None:
    return None if edge == float("inf") else round(edge, 6)
