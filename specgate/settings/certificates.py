"""Certificates: those that the gate shows to its clients, and how it speaks to https lanes.

Whatever is wrong with a file is a SettingsError, one line that names the setting and the file.
"""

import ssl
from typing import NoReturn

from specgate.settings.loading import SettingsError
from specgate.settings.model import Settings, env_name


def lanes_tls(settings: Settings) -> ssl.SSLContext | None:
    """For https lanes, None if there are none. Raises SettingsError for files that do not do."""
    if not any(url.startswith("https:") for url in (settings.spec_url, settings.plain_url)):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.upstream_ca_file)
    except (OSError, ssl.SSLError) as error:
        raise _bad_file("upstream_ca_file", settings.upstream_ca_file, error) from error
    if settings.upstream_cert_file is not None:
        _load(
            context,
            *("upstream_cert_file", settings.upstream_cert_file),
            *("upstream_key_file", settings.upstream_key_file),
        )
    return context


class ClientsTls:
    """TLS with clients. `context` is for the listener and stays the same; what it shows is what was
    last put into use, so that certificates change under traffic and no connection is lost."""

    def __init__(self, cert_file: str, key_file: str | None) -> None:
        """Raises SettingsError for files that do not do."""
        self._cert_file = cert_file
        self._key_file = key_file
        self._newest = self.context = self.read()
        # Called for each handshake, also where the client names no server.
        self.context.sni_callback = self._show_newest

    def read(self) -> ssl.SSLContext:
        """The files as they are now, for `use`. Raises SettingsError; blocks."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # What the gate speaks; without the word a client that can HTTP/2 may try it.
        context.set_alpn_protocols(["http/1.1"])
        context.options |= ssl.OP_NO_RENEGOTIATION
        _load(context, "tls_cert_file", self._cert_file, "tls_key_file", self._key_file)
        return context

    def use(self, context: ssl.SSLContext) -> None:
        """Show this from the next handshake on."""
        self._newest = context

    def _show_newest(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest


def clients_tls(settings: Settings) -> ClientsTls | None:
    """None: clients speak plain HTTP. Raises SettingsError for files that do not do."""
    if settings.tls_cert_file is not None:
        return ClientsTls(settings.tls_cert_file, settings.tls_key_file)
    if settings.tls_key_file is not None:
        missing, given = env_name("tls_cert_file"), env_name("tls_key_file")
        raise SettingsError([f"{missing} is not set, and {given} is"])
    return None


def _load(
    context: ssl.SSLContext, cert_name: str, cert_file: str, key_name: str, key_file: str | None
) -> None:
    """OpenSSL says neither which of the files it means, nor what it misses in one."""
    _look(cert_name, cert_file, b"CERTIFICATE-----", "holds no certificate in PEM")
    if key_file is None:
        _look(cert_name, cert_file, _KEY, f"holds no key, and {env_name(key_name)} is not set")
    else:
        _look(key_name, key_file, _KEY, "holds no key in PEM")
    name, path = (cert_name, cert_file) if key_file is None else (key_name, key_file)
    try:
        context.load_cert_chain(cert_file, key_file, password=_encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _problem(name, path, "is not the key of the certificate") from error
        raise _problem(cert_name, cert_file, "OpenSSL cannot read it, or its key") from error
    except ValueError as error:
        raise _problem(name, path, str(error)) from error
    except OSError as error:
        raise _bad_file(cert_name, cert_file, error) from error


_KEY = b"PRIVATE KEY-----"


def _look(name: str, path: str, mark: bytes, missing: str) -> None:
    try:
        with open(path, "rb") as file:
            found = mark in file.read(_FILE_MAX)
    except OSError as error:
        raise _bad_file(name, path, error) from error
    if not found:
        raise _problem(name, path, missing)


def _encrypted() -> NoReturn:
    """Asked for the key's password: without this, OpenSSL asks the terminal, and waits."""
    raise ValueError("its key is encrypted, and there is no setting for a password")


_FILE_MAX = 1024 * 1024


def _bad_file(name: str, path: str | None, error: OSError) -> SettingsError:
    return _problem(name, path, error.strerror or str(error))


def _problem(name: str, path: str | None, what: str) -> SettingsError:
    return SettingsError([f"{env_name(name)}={path!r}: {what}"])
