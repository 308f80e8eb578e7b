//! The interface between an application and its driver: packets and time in, packets out.

use plexus_ndn::link::Received;
use plexus_wire::Time;
use plexus_wire::ndn::lp::Headers;

/// Sends an application's packets to its forwarder.
pub trait Output {
    /// Sends an Interest or Data.
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]);
}

/// For tests and simulations: the packets sent, with their PIT tokens.
impl Output for Vec<(Option<Vec<u8>>, Vec<u8>)> {
    fn send(&mut self, headers: &Headers<'_>, packet: &[u8]) {
        self.push((headers.pit_token.map(<[u8]>::to_vec), packet.to_vec()));
    }
}

/// A consumer or a producer, without clock or socket.
pub trait Application {
    /// A packet arrived from the forwarder.
    fn packet(&mut self, now: Time, received: &Received<'_>, out: &mut dyn Output);

    /// Does what is due by now.
    fn poll(&mut self, _now: Time, _out: &mut dyn Output) {}

    /// When [`Application::poll`] is next due; `None`: not before a packet arrives. A time in the
    /// past: at once.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// True if there is nothing left to do.
    fn is_done(&self) -> bool {
        false
    }
}
