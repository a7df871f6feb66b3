"""Builds the wheel with the standard library (PEP 517, and the wheel format of PEP 427)."""
from __future__ import annotations

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile
from typing import Any, Iterator, Optional

HERE = pathlib.Path(__file__).parent
#: Python 3.9 has no TOML parser, so a regular expression reads the fields: one-line strings.
FIELDS = dict(re.findall(r'^([\w-]+) = "([^"]*)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE))
NAME, VERSION = FIELDS["name"], FIELDS["version"]
#: A fixed time makes wheels of the same sources identical byte for byte. ZIP has no time before 1980.
STAMP = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings: Optional[dict[str, Any]] = None) -> list[str]:
    return []


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[dict[str, Any]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    info = f"{NAME}-{VERSION}.dist-info"
    files = dict(_package())
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: cofferdam\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, STAMP)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    name = f"{NAME}-{VERSION}.tar.gz"
    names = ["pyproject.toml", "build_wheel.py", "README.md"]
    files = {**{path: (HERE / path).read_bytes() for path in names}, **dict(_package()), "PKG-INFO": _metadata()}
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{NAME}-{VERSION}/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return name


def _package() -> Iterator[tuple[str, bytes]]:
    for path in sorted((HERE / "cofferdam").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"cofferdam/{path.name}", path.read_bytes()


def _metadata() -> bytes:
    readme = (HERE / "README.md").read_text()
    head = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {VERSION}",
        f"Summary: {FIELDS['description']}",
        f"Requires-Python: {FIELDS['requires-python']}",
        f"License: {FIELDS['license']}",
        "Description-Content-Type: text/markdown",
    ]
    return ("\n".join(head) + "\n\n" + readme).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
