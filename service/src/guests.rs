//! Clients that are not the owner of the service: how many connections each has, so that the owner always finds a place.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// The number of connections that one other machine has at most, so that it leaves places to others before it has said who it is.
const OF_ONE_MACHINE: usize = 64;
/// The same of one other user of this machine.
const OF_ONE_USER: usize = 16;
/// The same of all that are not the owner, together. It is less than there are places.
const OF_ALL: usize = 192;

/// A client, as the kernel says before it has said anything itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// The user whose service it is, or root, on this machine.
    Owner,
    /// Another user of this machine; none where the kernel does not say who it is.
    User(Option<u32>),
    /// Another machine, by its network.
    Machine(IpAddr),
}

impl Client {
    /// Of another machine's address.
    pub fn of_machine(address: IpAddr) -> Self {
        Client::Machine(machine(address))
    }

    fn limit(self) -> usize {
        match self {
            Client::Owner => usize::MAX,
            Client::User(_) => OF_ONE_USER,
            Client::Machine(_) => OF_ONE_MACHINE,
        }
    }
}

/// The connections of clients that are not the owner.
#[derive(Clone, Default)]
pub struct Guests(Arc<Mutex<HashMap<Client, usize>>>);

/// A connection, counted until this is dropped.
pub struct Guest {
    guests: Guests,
    client: Client,
}

impl Guest {
    /// True of the owner's.
    pub fn is_owners(&self) -> bool {
        self.client == Client::Owner
    }
}

impl Guests {
    /// Counts a connection; none where its client, or all together, have as many as they may have.
    pub fn let_in(&self, client: Client) -> Option<Guest> {
        if client != Client::Owner {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all: usize = counts.values().sum();
            let count = counts.get(&client).copied().unwrap_or_default();
            if all >= OF_ALL || count >= client.limit() {
                return None;
            }
            counts.insert(client, count + 1);
        }
        Some(Guest { guests: self.clone(), client })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// The address that stands for a machine, which has any of a network of 64 bits with IPv6.
fn machine(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_leaves_places_to_others() {
        let guests = Guests::default();
        let of = |text: &str| guests.let_in(Client::of_machine(text.parse().unwrap()));
        let mut held: Vec<_> = (0..OF_ONE_MACHINE).map(|i| of(&format!("2001:db8::{i:x}")).unwrap()).collect();
        // Another address of its network is no other machine.
        assert!(of("2001:db8::ffff").is_none());
        assert!(of("2001:db8:0:1::1").is_some() && of("192.0.2.1").is_some());
        let own: Vec<_> = (0..1000).map(|_| guests.let_in(Client::Owner).unwrap()).collect();
        held.pop();
        assert!(of("2001:db8::ffff").is_some());
        drop((held, own));
        assert!(guests.0.lock().unwrap().is_empty());
    }

    #[test]
    fn other_users_leave_places_to_the_owner() {
        let guests = Guests::default();
        let one: Vec<_> = std::iter::from_fn(|| guests.let_in(Client::User(Some(41002)))).collect();
        let unknown: Vec<_> = std::iter::from_fn(|| guests.let_in(Client::User(None))).collect();
        assert_eq!((one.len(), unknown.len()), (OF_ONE_USER, OF_ONE_USER));
        let others: Vec<_> = (0..1000).filter_map(|user| guests.let_in(Client::User(Some(user)))).collect();
        assert_eq!(one.len() + unknown.len() + others.len(), OF_ALL);
        assert!(guests.let_in(Client::Owner).is_some_and(|guest| guest.is_owners()));
        drop((one, unknown, others));
        assert!(guests.0.lock().unwrap().is_empty());
    }
}
