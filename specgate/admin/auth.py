"""Who may change things: whoever sends the admin token."""

import hmac
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

_bearer = HTTPBearer(auto_error=False, description="SPECGATE_ADMIN_TOKEN")

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class Refused(Exception):
    """`status`: 401 for a wrong or missing token, 403 where there is none to be right."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TokenGuard:
    """A dependency for the changing calls. Compares in constant time."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def __call__(self, credentials: Credentials) -> None:
        if self._token is None:
            raise Refused(
                403,
                "changes are off: start the gate with SPECGATE_ADMIN_TOKEN set, and send it as "
                "'Authorization: Bearer ...'",
            )
        given = "" if credentials is None else credentials.credentials
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise Refused(
                401, "send the gate's SPECGATE_ADMIN_TOKEN as 'Authorization: Bearer ...'"
            )
