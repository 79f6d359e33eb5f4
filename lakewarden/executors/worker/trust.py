"""A trust store for a JVM, with the certificate authorities that Python trusts on this machine.

A JVM has its own list. It does not contain a company's authority that was installed on the machine.
"""

from __future__ import annotations

import ssl
import struct
from hashlib import sha1
from pathlib import Path

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # noqa: S105 - Java's own default: a trust store contains nothing secret


def trusted_certificates() -> list[bytes]:
    """Return the certificate authorities that Python trusts, in DER."""
    context = ssl.create_default_context()
    folder = ssl.get_default_verify_paths().capath
    # OpenSSL reads its folder only while it verifies. Its certificates are loaded here.
    for file in Path(folder).glob("*.0") if folder else ():
        try:
            context.load_verify_locations(cafile=file)
        except OSError:  # an unreadable certificate is not trusted
            continue
    return context.get_ca_certs(binary_form=True)


def write_trust_store(path: Path, certificates: list[bytes]) -> None:
    """Write certificates as a Java trust store. Source of the format: `sun.security.provider.JavaKeyStore`."""
    store = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        store += struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(f"ca{number}") + struct.pack(">Q", 0)
        store += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    salted = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store
    path.write_bytes(store + sha1(salted).digest())  # noqa: S324 - the format requires it


def _utf(text: str) -> bytes:
    """Encode as Java's `DataOutput.writeUTF` does for ASCII."""
    return struct.pack(">H", len(text)) + text.encode("ascii")


def trust_options(path: Path) -> list[str]:
    """Return JVM options for a trust store that is written to `path`. None are needed if Python itself has no
    authority.
    """
    certificates = trusted_certificates()
    if not certificates:
        return []
    write_trust_store(path, certificates)
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]
