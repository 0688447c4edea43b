//! Which addresses may be reached.

use super::HttpConfig;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

/// Whether an address lies in the public internet. What is not known to be public is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b); // RFC 6598: behind a carrier's NAT
    let protocols = (a, b, c) == (192, 0, 0); // RFC 6890
    let benchmarks = a == 198 && (b == 18 || b == 19); // RFC 2544
    let reserved = a == 0 || a >= 240;
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || shared
        || protocols
        || benchmarks
        || reserved)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let global = segments[0] & 0xe000 == 0x2000; // all that was ever given out
    let documentation = segments[0] == 0x2001 && segments[1] == 0x0db8;
    // These carry an IPv4 address inside, and a gateway would take us there: 6to4 and Teredo.
    let tunnel = segments[0] == 0x2002 || (segments[0] == 0x2001 && segments[1] == 0);
    global && !documentation && !tunnel
}

#[derive(Debug, thiserror::Error)]
#[error("{0} has no public address")]
pub(super) struct NotPublic(String);

/// Resolves names as the system does, and keeps only addresses that may be reached.
pub(super) struct Resolver {
    config: Arc<HttpConfig>,
}

impl Resolver {
    pub(super) fn new(config: Arc<HttpConfig>) -> Self {
        Self { config }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.config.private_hosts_allowed.contains(name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.filter(|found| allowed || is_public(found.ip())).collect();
            match addresses.is_empty() {
                true => Err(NotPublic(name.as_str().to_owned()).into()),
                false => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        let public = |text: &str| is_public(text.parse().unwrap());
        for address in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(public(address), "{address}");
        }
        let private = [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:1::",
            "2001:db8::1",
        ];
        for address in private {
            assert!(!public(address), "{address}");
        }
    }
}
