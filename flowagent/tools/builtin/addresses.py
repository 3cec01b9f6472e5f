"""Which hosts a tool may reach: the decision, without any connection.

A model chooses addresses by texts that it has read, so what stands behind the firewall (loopback, private networks, the
metadata service of a cloud) is out of reach unless the program allows it by name or network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from flowagent.errors import ToolError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""All that is public of IPv6."""

_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
"""NAT64: an IPv4 address in the last 32 bits, which is where the packets go."""

_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "100.64.0.0/10",  # shared by providers; a cloud has its metadata at 100.100.100.200
        "168.63.129.16/32",  # a cloud's host agent, at an address that looks public
        "192.0.0.0/24",  # protocols; a cloud has its metadata at 192.0.0.192
        "192.88.99.0/24",  # relays of 6to4
        "198.18.0.0/15",  # measuring
        "2001::/23",  # protocols, with Teredo, whose addresses hide an IPv4 one
        "2001:db8::/32",  # examples
        "2002::/16",  # 6to4, whose addresses hide an IPv4 one
        "3fff::/20",  # examples
    )
)


def is_public(address: Address) -> bool:
    """Whether an address is anyone's to reach: neither this machine, nor its networks, nor a reserved one.

    Example:
        >>> [is_public(ipaddress.ip_address(text)) for text in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1")]
        [True, False, False]
    """
    real = _real(address)
    if isinstance(real, ipaddress.IPv6Address) and real not in _UNICAST:
        return False
    refused = real.is_private or real.is_multicast or real.is_reserved or real.is_link_local or real.is_loopback
    return real.is_global and not refused and not any(real in network for network in _NOT_PUBLIC)


def _real(address: Address) -> Address:
    """Where packets to an address go, if it is one of IPv4 in the clothes of IPv6."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be reached.

    Args:
        allow: hosts (`wiki.internal`, `*.internal`), addresses and networks (`10.1.0.0/16`) that may be reached
            although their addresses are not public. A host is allowed wherever its name leads.
        only: if given, nothing but these may be reached, in the same words; what is not public must be allowed too.

    Raises:
        ValueError: something in them is neither a host nor a network.
        TypeError: they are one text and no list.
    """

    allow: Sequence[str] = ()
    only: Sequence[str] | None = None
    _allow: _Places = field(init=False, repr=False, compare=False)
    _only: _Places | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_allow", _places("allow", self.allow))
        object.__setattr__(self, "_only", None if self.only is None else _places("only", self.only))

    def check(self, host: str, addresses: Sequence[Address]) -> None:
        """Look at what a host's name leads to, before anything is sent there; all of it must be allowed.

        Raises:
            ToolError: it may not be reached.
        """
        if self._only is not None and not all(self._only.has(host, address) for address in addresses):
            raise ToolError(f"`{host}` may not be reached: only {', '.join(self.only or ()) or 'nothing'} may")
        for address in addresses:
            if not is_public(address) and not self._allow.has(host, address):
                raise ToolError(
                    f"`{host}` may not be reached: its address is not a public one (it is private, local or reserved)"
                )


@dataclass(frozen=True, slots=True)
class _Places:
    hosts: frozenset[str]
    domains: tuple[str, ...]
    networks: tuple[_Network, ...]

    def has(self, host: str, address: Address) -> bool:
        name = host.lower().rstrip(".")
        real = _real(address)
        return name in self.hosts or name.endswith(self.domains) or any(real in network for network in self.networks)


def _places(option: str, texts: Sequence[str]) -> _Places:
    if isinstance(texts, str):
        raise TypeError(f"{option}= takes a list of hosts and networks, such as {option}=[{texts!r}]")
    hosts: set[str] = set()
    domains: list[str] = []
    networks: list[_Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text))
            continue
        except ValueError:
            name = text.lower().rstrip(".")
        bare = name.removeprefix("*.")
        if not bare or set(bare) & set("/:*@ "):
            raise ValueError(
                f"{option}= has {text!r}, which is neither a host (`wiki.internal`, `*.internal`) nor an address or a "
                "network (`10.1.0.0/16`, without bits of hosts)"
            )
        if bare == name:
            hosts.add(name)
        else:
            domains.append(f".{bare}")
    return _Places(frozenset(hosts), tuple(domains), tuple(networks))


def checked(url: str) -> SplitResult:
    """The parts of a URL that a tool may ask for.

    Raises:
        ToolError: it is not of the web, names no host, or holds a password.
    """
    try:
        parts = urlsplit(url.strip())
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ToolError(f"{_shown(url)} is no URL: {error}") from error
    if parts.scheme not in {"http", "https"}:
        raise ToolError(f"{_shown(url)} is not of the web: give a URL that begins with https:// or http://")
    if not host or any(ord(character) <= 32 or character in "\\%" for character in parts.netloc):
        raise ToolError(f"{_shown(url)} names no host that can be reached")
    if parts.username is not None or parts.password is not None:
        raise ToolError("the URL holds a user or a password: leave them out")
    return parts


def origin_of(parts: SplitResult) -> str:
    """Scheme, host and port in one text, equal for all URLs of one origin.

    Example:
        >>> origin_of(urlsplit("HTTPS://Example.com/a")), origin_of(urlsplit("https://example.com:443/b"))
        ('https://example.com:443', 'https://example.com:443')
    """
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{(parts.hostname or '').rstrip('.')}:{port}"


def _shown(url: str) -> str:
    """A URL for a message, without what may be secret in it."""
    text = url.strip().partition("?")[0]
    before, at, after = text.rpartition("@")
    return repr((f"{before.partition('//')[0]}//...@{after}" if at else text)[:200])
