//! The control planes of a running node, as its workers and the control socket reach them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use plexus_plane::{LinkChange, Side};

use super::links::LinkCells;
use super::news::News;
use super::thread::OnControl;

/// How to reach the thread of a control plane.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    pub(crate) news: SyncSender<News>,
    /// The states of links for it.
    pub(crate) links: Arc<LinkCells>,
    /// Frames dropped because too many waited already.
    pub(crate) missed: Arc<AtomicU64>,
}

/// The control planes of a node: a fabric's, a router's, or both.
#[derive(Clone, Default)]
pub(crate) struct ControlPlanes {
    pub(crate) fabric: Option<ControlPlane>,
    pub(crate) router: Option<ControlPlane>,
}

impl ControlPlane {
    /// A thread that has ended needs no news.
    pub(crate) fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }
}

impl ControlPlanes {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ControlPlane> {
        self.fabric.iter().chain(&self.router)
    }

    /// Passes a worker's frames to their control plane, without waiting; `None` if there is none.
    pub(crate) fn on_control(&self) -> Option<OnControl> {
        self.iter().next()?;
        let all = self.clone();
        Some(Box::new(move |punt, port, vlan, bytes| {
            let control = match punt.side() {
                // Without a router of its own the box is part of the group's.
                Side::Router => all.router.as_ref().or(all.fabric.as_ref()),
                Side::Fabric | Side::Names => all.fabric.as_ref(),
            };
            let Some(control) = control else { return };
            // A control plane that is too slow loses frames. Important ones are retransmitted.
            if control.news.try_send(News::Frame(punt, port, vlan, bytes)).is_err() {
                control.missed.fetch_add(1, Ordering::Relaxed);
            }
        }))
    }

    /// Tells all control planes of a link; true if it came up or went down.
    pub(crate) fn tell_link(&self, change: LinkChange) -> bool {
        let mut is_news = false;
        for control in self.iter() {
            is_news |= control.links.tell(change, Some(&control.news));
        }
        is_news
    }
}
