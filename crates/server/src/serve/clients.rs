//! The connections of one server, counted by address and by token, with a bound on each count.
//!
//! A connection belongs to the token of its latest request. HTTP/1.1 answers one request at a time, so to end the connections
//! of a token is to end whatever is done in its name: streams, calls that wait, uploads.

use crate::bodies::{Bodies, BodiesFull, HeldBody, Owner, UNCOUNTED_BYTES};
use mundi_model::UniverseId;
use mundi_store::values::TokenId;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};
use tokio::sync::{Notify, oneshot};

/// Bounds on the connections that one client has at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// From one IPv4 address, or one /64 network of IPv6.
    pub per_address_max: usize,
    /// Connections whose latest request showed the same token.
    pub per_token_max: usize,
}

/// All connections of a server.
pub(super) struct Clients {
    limits: ClientLimits,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    addresses: BTreeMap<IpAddr, usize>,
    tokens: BTreeMap<TokenId, TokenUse>,
    next: u64,
}

/// The connections of a token, by number. It is there as long as there is one.
struct TokenUse {
    connections: BTreeMap<u64, Arc<Notify>>,
    /// Dropped with the last connection.
    _in_use: oneshot::Sender<()>,
}

/// One connection. Every request that comes by it carries it along.
pub(crate) struct Client {
    clients: Arc<Clients>,
    number: u64,
    address: IpAddr,
    token: Mutex<Option<TokenId>>,
    request: Mutex<RequestScope>,
    ended: Arc<Notify>,
}

/// The state of the request that is in progress, and the resources held for it.
#[derive(Default)]
struct RequestScope {
    universe: Option<UniverseId>,
    body: Option<HeldBody>,
}

/// A token of which this server had no connection until now.
pub(crate) struct FirstUse {
    clients: Arc<Clients>,
    token: TokenId,
    unused: oneshot::Receiver<()>,
}

/// The token has as many connections as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenFull {
    pub(crate) max: usize,
}

impl Clients {
    pub(super) fn new(limits: ClientLimits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default() })
    }

    /// A new connection; `None` if its address has as many as it may have.
    pub(super) fn connect(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Client>> {
        let address = network(address);
        let mut table = self.table.lock();
        let count = table.addresses.entry(address).or_default();
        if *count >= self.limits.per_address_max {
            return None;
        }
        *count += 1;
        table.next += 1;
        let (number, clients) = (table.next, self.clone());
        let (token, request, ended) = Default::default();
        Some(Arc::new(Client { clients, number, address, token, request, ended }))
    }
}

impl Table {
    fn leave_address(&mut self, address: IpAddr) {
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }

    fn leave_token(&mut self, token: TokenId, number: u64) {
        if let Some(used) = self.tokens.get_mut(&token) {
            used.connections.remove(&number);
            if used.connections.is_empty() {
                self.tokens.remove(&token);
            }
        }
    }
}

impl Client {
    /// The request that is in progress shows this token. Says if it is the first to do so.
    pub(crate) fn show(&self, token: TokenId) -> Result<Option<FirstUse>, TokenFull> {
        let mut own = self.token.lock();
        if *own == Some(token) {
            return Ok(None);
        }
        let mut table = self.clients.table.lock();
        if let Some(before) = own.take() {
            table.leave_token(before, self.number);
        }
        let max = self.clients.limits.per_token_max;
        if table.tokens.get(&token).is_some_and(|used| used.connections.len() >= max) {
            return Err(TokenFull { max });
        }
        let mut first = None;
        let used = table.tokens.entry(token).or_insert_with(|| {
            let (in_use, unused) = oneshot::channel();
            first = Some(FirstUse { clients: self.clients.clone(), token, unused });
            TokenUse { connections: BTreeMap::new(), _in_use: in_use }
        });
        used.connections.insert(self.number, self.ended.clone());
        *own = Some(token);
        Ok(first)
    }

    /// From now on the connection belongs to no token: what ends those of its token leaves this one open.
    pub(crate) fn forget_token(&self) {
        if let Some(before) = self.token.lock().take() {
            self.clients.table.lock().leave_token(before, self.number);
        }
    }

    /// The request that is in progress is about this universe.
    pub(crate) fn enter(&self, universe: UniverseId) {
        self.request.lock().universe = Some(universe);
    }

    /// The body of the request that is in progress takes so many bytes. A small one is not worth the look.
    pub(crate) fn hold_body(&self, bodies: &Arc<Bodies>, bytes: usize) -> Result<(), BodiesFull> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let RequestScope { universe, body } = &mut *self.request.lock();
        let owner = || Owner { universe: *universe, token: *self.token.lock() };
        body.get_or_insert_with(|| bodies.hold(owner())).grow_to(bytes)
    }

    /// The token of the request in progress.
    pub(super) fn owner(&self) -> Owner {
        Owner { universe: self.request.lock().universe, token: *self.token.lock() }
    }

    /// The body was thrown away.
    pub(crate) fn drop_body(&self) {
        self.request.lock().body = None;
    }

    /// The request is answered: nothing is held for it any more.
    pub(super) fn end_request(&self) {
        *self.request.lock() = RequestScope::default();
    }

    /// Completes when the connection is to end because of its token.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut table = self.clients.table.lock();
        table.leave_address(self.address);
        if let Some(token) = self.token.get_mut().take() {
            table.leave_token(token, self.number);
        }
    }
}

impl FirstUse {
    /// Completes when the last connection of the token is gone.
    pub(crate) async fn unused(&mut self) {
        let _dropped = (&mut self.unused).await;
    }

    /// Ends all connections of the token.
    pub(crate) fn end_connections(self) {
        let used = self.clients.table.lock().tokens.remove(&self.token);
        used.iter().flat_map(|used| used.connections.values()).for_each(|connection| connection.notify_one());
    }
}

/// The network that counts as one address: the owner of an IPv6 address has its whole /64 network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn clients(per_address_max: usize, per_token_max: usize) -> Arc<Clients> {
        Clients::new(ClientLimits { per_address_max, per_token_max })
    }

    #[test]
    fn an_address_has_so_many_connections_at_a_time_and_others_do_not_notice() {
        let clients = clients(2, 9);
        let first = clients.connect(HERE).unwrap();
        let _second = clients.connect("::ffff:127.0.0.1".parse().unwrap()).unwrap();
        assert!(clients.connect(HERE).is_none(), "however it is written");
        assert!(clients.connect("127.0.0.2".parse().unwrap()).is_some());
        drop(first);
        assert!(clients.connect(HERE).is_some());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let clients = clients(1, 9);
        let _one = clients.connect("2001:db8::1".parse().unwrap()).unwrap();
        assert!(clients.connect("2001:db8::ffff:1".parse().unwrap()).is_none());
        assert!(clients.connect("2001:db8:0:1::1".parse().unwrap()).is_some());
    }

    #[test]
    fn a_connection_counts_for_the_token_that_it_showed_last() {
        let clients = clients(9, 1);
        let [one, other] = [(); 2].map(|()| clients.connect(HERE).unwrap());
        assert!(one.show(7).unwrap().is_some() && one.show(7).unwrap().is_none());
        assert_eq!(other.show(7).err(), Some(TokenFull { max: 1 }));
        assert!(one.show(8).unwrap().is_some());
        assert!(other.show(7).unwrap().is_some(), "the one before shows another");
        drop((one, other));
        let table = clients.table.lock();
        assert!(table.addresses.is_empty() && table.tokens.is_empty(), "nothing is left of who is gone");
    }

    #[tokio::test]
    async fn ending_the_connections_of_a_token_ends_no_other_one() {
        let clients = clients(9, 9);
        let [one, same, other, own] = [(); 4].map(|()| clients.connect(HERE).unwrap());
        let first = one.show(7).unwrap().unwrap();
        assert!(same.show(7).unwrap().is_none() && other.show(8).unwrap().is_some() && own.show(7).unwrap().is_none());
        own.forget_token();
        first.end_connections();
        one.ended().await;
        same.ended().await;
        for kept in [other, own] {
            assert!(futures_util::FutureExt::now_or_never(kept.ended()).is_none());
        }
        let again = clients.connect(HERE).unwrap();
        assert!(again.show(7).unwrap().is_some(), "who shows it again is the first again");
    }

    #[tokio::test]
    async fn a_token_is_unused_when_its_last_connection_is_gone() {
        let clients = clients(9, 9);
        let [one, other] = [(); 2].map(|()| clients.connect(HERE).unwrap());
        let mut first = one.show(7).unwrap().unwrap();
        other.show(7).unwrap();
        drop(one);
        assert!(futures_util::FutureExt::now_or_never(first.unused()).is_none());
        drop(other);
        first.unused().await;
    }
}
