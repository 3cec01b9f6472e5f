"""Only what is public may be reached, unless the program allows more."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.errors import ToolError
from flowagent.tools.builtin.addresses import Reach, checked, is_public, origin_of

PUBLIC = ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
INNER = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.5",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b:1::10.0.0.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_may_be_reached(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert is_public(address)
    Reach().check("any.example", [address])


@pytest.mark.parametrize("text", INNER)
def test_what_is_not_public_may_not(text: str) -> None:
    """FA-110: loopback, private, link-local, metadata, multicast and reserved, also in the clothes of IPv6."""
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    with pytest.raises(ToolError, match=r"`any\.example` may not be reached: its address is not a public one"):
        Reach().check("any.example", [ipaddress.ip_address("8.8.8.8"), address])


@given(st.ip_addresses(v=4))
def test_an_address_is_no_more_public_for_being_written_as_one_of_ipv6(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:", "64:ff9b::"):
        assert is_public(ipaddress.ip_address(f"{prefix}{address}")) == is_public(address)
    for prefix in ("::", "2002::", "64:ff9b:1::"):
        assert not is_public(ipaddress.ip_address(f"{prefix}{address}"))


def test_hosts_and_networks_are_allowed_by_the_program() -> None:
    reach = Reach(allow=["Wiki.Internal.", "*.corp.example", "10.1.0.0/16", "::1"])
    inner, other, own = (ipaddress.ip_address(text) for text in ("10.1.2.3", "10.2.0.1", "::1"))
    reach.check("anything", [inner, own])
    reach.check("anything", [ipaddress.ip_address("::ffff:10.1.2.3")])
    reach.check("wiki.internal", [other])
    reach.check("a.b.corp.example.", [other])
    for host in ("anything", "corp.example", "wiki.internal.evil.example", "notcorp.example", "10.2.0.1"):
        with pytest.raises(ToolError, match="may not be reached"):
            reach.check(host, [other])


def test_only_keeps_out_all_else_and_opens_nothing_that_is_not_public() -> None:
    reach = Reach(only=("example.com", "*.example.com", "8.8.8.0/24", "10.0.0.0/8"))
    public, private = ipaddress.ip_address("93.184.216.34"), ipaddress.ip_address("10.0.0.1")
    reach.check("example.com", [public])
    reach.check("www.example.com", [public])
    reach.check("dns.example.net", [ipaddress.ip_address("8.8.8.8")])
    with pytest.raises(ToolError, match=r"`example\.net` may not be reached: only example\.com, \*\.example\.com"):
        reach.check("example.net", [public])
    with pytest.raises(ToolError, match="is not a public one"):
        reach.check("example.com", [private])
    Reach(allow=("10.0.0.0/8",), only=("example.com",)).check("example.com", [private])
    with pytest.raises(ToolError, match="only nothing may"):
        Reach(only=()).check("example.com", [public])


@pytest.mark.parametrize("text", ["", "*", "*.", "http://x", "x:80", "10.0.0.1/8", "a b", "a.*.b", "x/24"])
def test_what_is_neither_host_nor_network_is_refused_when_it_is_given(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"allow= has {text!r}, which is neither a host")):
        Reach(allow=[text])


def test_one_text_is_no_list() -> None:
    with pytest.raises(TypeError, match=r"only= takes a list of hosts and networks, such as only=\['x.example'\]"):
        Reach(only="x.example")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///etc/passwd", "'file:///etc/passwd' is not of the web"),
        ("ftp://example.com/x", "is not of the web"),
        ("javascript:alert(1)", "is not of the web"),
        ("data:text/plain,x", "is not of the web"),
        ("//example.com/x", "is not of the web"),
        ("example.com", "is not of the web"),
        ("", "is not of the web"),
        ("http://", "names no host"),
        ("http:///x", "names no host"),
        ("http://a b/", "names no host"),
        ("http://a%00b/", "names no host"),
        ("http://a\\@127.0.0.1/", "names no host"),
        ("http://user:pw-secret@example.com/", "the URL holds a user or a password"),
        ("ftp://user:pw-secret@example.com/?key=pw-secret", "'ftp://...@example.com/' is not of the web"),
        ("http://[::1/", "is no URL"),
        ("http://x:99999/", "is no URL"),
    ],
)
def test_a_url_that_cannot_be_asked_for_is_told_without_its_secrets(url: str, told: str) -> None:
    """FA-110, FA-114: other schemes are refused, and no password is repeated."""
    with pytest.raises(ToolError, match=re.escape(told)) as refused:
        checked(url)
    assert "pw-secret" not in str(refused.value)


def test_an_origin_is_scheme_host_and_port() -> None:
    same = {
        origin_of(checked(url)) for url in ("https://A.example/x", "https://a.example:443", "https://a.example./?y")
    }
    assert same == {"https://a.example:443"}
    assert origin_of(checked("http://a.example")) == "http://a.example:80"
