//! What an application is to its driver: packets and time in, packets out.

use plexus_ndn::link::Received;
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;

/// Where an application's packets go: to its forwarder.
pub trait Output {
    /// Sends an Interest or Data.
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]);
}

/// For tests and simulations: what was sent, with the PIT token.
impl Output for Vec<(Option<Vec<u8>>, Vec<u8>)> {
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]) {
        self.push((headers.pit_token.map(<[u8]>::to_vec), packet.to_vec()));
    }
}

/// A consumer or a producer, without clock and socket.
pub trait Application {
    /// A packet has come from the forwarder.
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output);

    /// Does what is due by now.
    fn poll(&mut self, now: Time, out: &mut dyn Output);

    /// When there is something due; `None`: not before a packet comes. A time that is over: at
    /// once.
    fn next_deadline(&self) -> Option<Time>;

    /// There is nothing more to do.
    fn is_done(&self) -> bool;
}
