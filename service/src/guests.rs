//! Clients on other machines: how many connections each has.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// The number of connections that one other machine has at most, so that it leaves places to others before it has said who it is.
const OF_ONE_MACHINE: usize = 64;

/// The connections of other machines, by the machine.
#[derive(Clone, Default)]
pub struct Guests(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection, counted until this is dropped.
pub struct Guest {
    guests: Guests,
    /// None of this machine, all of whose users have the same address, and are not counted.
    machine: Option<IpAddr>,
}

impl Guests {
    /// Counts a connection; none where its machine has as many as it may have.
    pub fn let_in(&self, client: IpAddr) -> Option<Guest> {
        let machine = (!client.is_loopback()).then(|| machine(client));
        if let Some(machine) = machine {
            let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(machine).or_default();
            if *count >= OF_ONE_MACHINE {
                return None;
            }
            *count += 1;
        }
        Some(Guest { guests: self.clone(), machine })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(machine) = self.machine else { return };
        let mut counts = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&machine) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&machine);
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
        let of = |text: &str| guests.let_in(text.parse().unwrap());
        let mut held: Vec<_> = (0..OF_ONE_MACHINE).map(|i| of(&format!("2001:db8::{i:x}")).unwrap()).collect();
        // Another address of its network is no other machine.
        assert!(of("2001:db8::ffff").is_none());
        assert!(of("2001:db8:0:1::1").is_some() && of("192.0.2.1").is_some());
        let users: Vec<_> = (0..1000).map(|_| of("127.0.0.1").unwrap()).collect();
        held.pop();
        assert!(of("2001:db8::ffff").is_some());
        drop((held, users));
        assert!(guests.0.lock().unwrap().is_empty());
    }
}
