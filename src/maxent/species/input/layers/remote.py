"""Rasters by their address: known by it as files are by their path, and read in windows."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from maxent.species.input.file_access import ReachError, current

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])", re.IGNORECASE)
_WEB = ("http", "https")


@dataclass(frozen=True)
class Address:
    """The address of a raster on a server, in place of a path.

    >>> far = Address("https://example.org/climate/tmax_2003.tif?key=1")
    >>> far.name, far.stem, far.suffix
    ('tmax_2003.tif', 'tmax_2003', '.tif')
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of its path."""
        return unquote(posixpath.basename(urlsplit(self.url).path.rstrip("/")))

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return Path(self.name).suffix

    @property
    def stem(self) -> str:
        """Its name without the ending."""
        return Path(self.name).stem


def is_address(path: object) -> bool:
    """Whether it is an address, also one that lost a slash as a path does.

    >>> is_address("https://a.org/b.tif"), is_address("https:/a.org/b.tif"), is_address("C:/b.tif")
    (True, True, False)
    """
    return _ADDRESS.match(str(path)) is not None


def as_file(path: object) -> Path | Address:
    """A path, or an address with both of its slashes."""
    text = str(path)
    found = _ADDRESS.match(text)
    if found is None:
        return Path(text)
    return Address(f"{found[1].lower()}://{text[found.end() :]}")


def check_address(path: object) -> None:
    """Refuse an address where nothing may be fetched, or which is none of the web."""
    address = as_file(path)
    scheme = str(address).partition("://")[0]
    if scheme not in _WEB:
        raise ValueError(
            f"{address}: addresses begin with http:// or https://, got {scheme}://; give that of "
            "the file on the web, or download it"
        )
    reach = current()
    if reach is not None and not reach.network:
        raise ReachError(
            f"{address} is an address, and nothing is fetched from the network unless you say so: "
            "--network"
        )


def gdal_name(address: Address) -> str:
    """How GDAL calls it: a Zarr store, or a file that is read in ranges of bytes."""
    file = f"/vsicurl/{address}"
    return f'ZARR:"{file}"' if address.suffix.lower() == ".zarr" else file
