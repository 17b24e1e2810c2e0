"""Who may come in, with what, and by which way."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from specgate.core.keys import KeyHashes
from specgate.settings.addresses import HOST
from specgate.settings.keys import KEYS
from specgate.settings.kinds import PATH, SECRET, number
from specgate.settings.quantities import RELOAD, RESTART


class Security(BaseModel):
    """Who may come in, with what, and by which way."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    api_keys: Annotated[KeyHashes | None, KEYS] = Field(
        None,
        description="The keys of which clients must send one as `Authorization: Bearer KEY` (or "
        "`x-api-key`), separated by commas; without it the answer is 401. They are the gate's own, "
        "so that no engine sees them. Unset, and without API_KEYS_FILE, the gate asks for none, "
        "and clients' headers go through to the engines.",
        json_schema_extra=RELOAD,
    )
    api_keys_file: Annotated[str | None, PATH] = Field(
        None,
        description="A file with such keys, one a line, read again on every reload; blank lines "
        "and those that begin with # do not count. With API_KEYS too, the keys of both are good.",
        json_schema_extra=RELOAD,
    )
    spec_api_key: Annotated[SecretStr | None, SECRET] = Field(
        None,
        description="The key that the spec lane's engine asks for. The gate sends it with every "
        "request, probe and scrape, in place of what the client sent.",
        json_schema_extra=RELOAD,
    )
    plain_api_key: Annotated[SecretStr | None, SECRET] = Field(
        None,
        description="The same for the plain lane's engine.",
        json_schema_extra=RELOAD,
    )
    tls_cert_file: Annotated[str | None, PATH] = Field(
        None,
        description="A PEM file with the certificate that the gate shows to its clients, and the "
        "chain below it; clients then speak https. Its key is in the same file unless TLS_KEY_FILE "
        "names another. A reload reads both files again.",
        json_schema_extra=RESTART,
    )
    tls_key_file: Annotated[str | None, PATH] = Field(
        None,
        description="A PEM file with the key of TLS_CERT_FILE, not encrypted.",
        json_schema_extra=RESTART,
    )
    metrics_port: Annotated[
        int | None,
        number(
            "a whole number from 0 to 65535, or off",
            lambda n: n.is_integer() and 0 <= n <= 65535,
            words={"off": None},
        ),
    ] = Field(
        None,
        description="A TCP port for `/metrics` and the probes alone, in plain HTTP; `/metrics` is "
        "then not on the main one. 0 takes any free one, which the log then names. Use it where "
        "clients must not see the metrics.",
        json_schema_extra=RESTART,
    )
    metrics_host: Annotated[str | None, HOST] = Field(
        None,
        description="The address that METRICS_PORT listens on; unset, that of HOST.",
        json_schema_extra=RESTART,
    )
