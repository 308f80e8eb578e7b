//! The latest state of every link, from its worker to the control plane's thread.
//!
//! There is one cell for each port, and a newer state replaces an older one. So a worker never
//! waits for a busy control plane. The control plane always gets the last state of a link, and may
//! miss states in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use plexus_io::{Link, PortId};
use plexus_plane::LinkChange;

use super::news::News;

/// A cell's flag: the control plane has not seen the state.
const NEW: u64 = 1;
/// A cell's flag: the link is up.
const UP: u64 = 2;
/// A cell's flag: the port takes what packets owe.
const TAKES_OWED: u64 = 4;
/// Where a cell's longest frame begins, in bits.
const MAX_FRAME: u32 = 3;

/// Most ports of a node.
const LINKS: usize = 1 << 14;

/// A cell for each port.
pub(crate) struct LinkCells {
    /// Some cell may have a new state.
    any: AtomicBool,
    /// By port: a [`LinkChange`], and whether it is new. At first down and not
    /// new.
    cells: Box<[AtomicU64]>,
}

impl LinkCells {
    pub(crate) fn new(ports: usize) -> LinkCells {
        // Ports that a reload adds have their cells already.
        let cells = (0..ports.max(LINKS)).map(|_| AtomicU64::new(0)).collect();
        LinkCells { any: AtomicBool::new(false), cells }
    }

    /// Sets a link's state, and tells the control plane's thread if there is one. Never waits. True
    /// if the link came up or went down.
    pub(crate) fn tell(&self, change: LinkChange, news: Option<&SyncSender<News>>) -> bool {
        let LinkChange { port, link, max_frame, takes_owed } = change;
        let Some(cell) = self.cells.get(usize::from(port)) else { return true };
        let up = if link == Link::Up { UP } else { 0 };
        let owed = if takes_owed { TAKES_OWED } else { 0 };
        let was = cell.swap((max_frame as u64) << MAX_FRAME | owed | up | NEW, Ordering::SeqCst);
        self.any.store(true, Ordering::SeqCst);
        // A state that was not taken yet has woken the thread already. If the channel is full the
        // thread is awake, and looks here before each message. A thread that ended needs nothing.
        if was & NEW == 0
            && let Some(news) = news
        {
            let _ = news.try_send(News::Links);
        }
        was & UP != up
    }

    /// The states that are new since the last call, by port, of the first `ports` ports. A worker
    /// may tell of a port that a reload adds before the control plane knows it: that state waits.
    pub(crate) fn take(&self, ports: usize) -> Vec<LinkChange> {
        if !self.any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        // Before the cells: a state that comes meanwhile is found now or the next time.
        self.any.store(false, Ordering::SeqCst);
        let (known, later) = self.cells.split_at(ports.min(self.cells.len()));
        if later.iter().any(|cell| cell.load(Ordering::SeqCst) & NEW != 0) {
            self.any.store(true, Ordering::SeqCst);
        }
        let cells = known.iter().enumerate();
        let taken =
            cells.map(|(port, cell)| (port as PortId, cell.fetch_and(!NEW, Ordering::SeqCst)));
        let new = taken.filter(|(_, state)| state & NEW != 0);
        new.map(|(port, state)| LinkChange {
            port,
            link: if state & UP != 0 { Link::Up } else { Link::Down },
            max_frame: (state >> MAX_FRAME) as usize,
            takes_owed: state & TAKES_OWED != 0,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use plexus_config::{LaneChoice, NodeFile};
    use plexus_node::router::Router;
    use plexus_wire::Time;

    use super::*;
    use crate::node::news::{NEWS_MAX, Outlet};
    use crate::node::pause::Pauses;
    use crate::node::router::{self, RouterView};

    fn change(link: Link, max_frame: usize) -> LinkChange {
        LinkChange { port: 1, link, max_frame, takes_owed: link == Link::Up }
    }

    #[test]
    fn a_worker_does_not_wait_for_a_busy_control_plane_which_hears_of_the_latest() {
        let text = "name = \"r\"\n[[port]]\nname = \"p1\"\ndevice = \"e1\"\n\
                    [[port]]\nname = \"p2\"\ndevice = \"e2\"\nvlan = 10\n\
                    [[interface]]\nname = \"lan\"\nvlan = 10\naddress = \"10.0.0.1/24\"\n";
        let file = plexus_node::ports::expand(NodeFile::parse("r", text).unwrap()).unwrap();
        let control = router::prepare(&file, file.router.as_ref().unwrap()).unwrap();
        let (news, inbox) = mpsc::sync_channel(NEWS_MAX);
        for _ in 1..NEWS_MAX {
            news.send(News::Lanes(LaneChoice::default())).unwrap();
        }
        let (reply, answer) = mpsc::channel();
        let question = move |router: &Router| {
            let asked = RouterView { router, now: Time::ZERO, missed: 0 };
            reply.send(asked.fib()).unwrap();
        };
        news.send(News::AskRouter(Box::new(question))).unwrap();
        let links = Arc::new(LinkCells::new(file.ports.len()));
        let (done, returned) = mpsc::channel();
        let worker = (links.clone(), news.clone());
        std::thread::spawn(move || {
            let (links, news) = worker;
            links.tell(change(Link::Up, 1514), Some(&news));
            links.tell(change(Link::Down, 1514), Some(&news));
            links.tell(change(Link::Up, 1414), Some(&news));
            done.send(()).unwrap();
        });
        // The limit is for a worker that waits for ever.
        let returned = returned.recv_timeout(Duration::from_secs(10));
        returned.expect("the worker waits for the control plane");
        let started = Instant::now();
        let sender = news.clone();
        let outlet = Outlet { worker: Box::new(|_| 0), pauses: Pauses::new(vec![]) };
        let thread = control.start((inbox, sender), links, outlet, started).unwrap();
        let fib = answer.recv().unwrap();
        assert_eq!((fib.interfaces[0].up, fib.interfaces[0].mtu), (true, Some(1400)), "{fib:?}");
        news.send(News::Stop).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn a_state_wakes_the_control_plane_once_and_the_newest_is_taken() {
        let (news, inbox) = mpsc::sync_channel(8);
        let links = LinkCells::new(2);
        let woken = || inbox.try_iter().filter(|news| matches!(news, News::Links)).count();
        assert_eq!((links.take(2), woken()), (vec![], 0));
        assert!(links.tell(change(Link::Up, 9014), Some(&news)));
        assert!(links.tell(change(Link::Down, 1514), Some(&news)));
        assert_eq!(woken(), 1);
        assert_eq!(links.take(2), [change(Link::Down, 1514)]);
        // The same again is news again: a worker tells what has changed, nothing else.
        assert!(!links.tell(change(Link::Down, 1514), Some(&news)));
        assert_eq!((woken(), links.take(2)), (1, vec![change(Link::Down, 1514)]));
        assert_eq!(links.take(2), []);
        // What has been taken is known still.
        assert!(!links.tell(change(Link::Down, 9014), None));
        assert!(links.tell(change(Link::Up, 9014), None));
    }

    #[test]
    fn the_state_of_a_port_that_is_not_known_yet_waits() {
        let links = LinkCells::new(2);
        let known = LinkChange { port: 0, ..change(Link::Up, 1514) };
        assert!(links.tell(known, None) && links.tell(change(Link::Up, 1514), None));
        assert_eq!(links.take(1), [known]);
        assert_eq!(links.take(1), []);
        assert_eq!(links.take(2), [change(Link::Up, 1514)]);
        assert_eq!(links.take(2), []);
    }
}
