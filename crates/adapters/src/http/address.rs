//! Which addresses may be reached.

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    vec,
};
use tower_service::Service;

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
#[error(
    "`{0}` is not in the public internet; an operator allows it by its name in the setting `http.private_hosts_allowed` \
     (MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED='[\"{0}\"]')"
)]
pub(super) struct NotPublic(pub(super) String);

type MayReach = dyn Fn(&str, IpAddr) -> bool + Send + Sync;

/// Resolves names as the system does, and keeps only addresses that may be reached.
#[derive(Clone)]
pub(super) struct Resolver {
    may_reach: Arc<MayReach>,
}

impl Resolver {
    pub(super) fn new(may_reach: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { may_reach: Arc::new(may_reach) }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let may_reach = self.may_reach.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<_> = found.filter(|found| may_reach(name.as_str(), found.ip())).collect();
            match addresses.is_empty() {
                true => Err(NotPublic(name.as_str().to_owned()).into()),
                false => Ok(addresses.into_iter()),
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
