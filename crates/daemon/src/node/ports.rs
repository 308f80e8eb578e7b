//! Opening a node's ports: each worker's pool and what is in front of its devices.

use std::collections::BTreeMap;

use plexus_config::{FastTable, NodeFile, PortFile, QueueOrder};
use plexus_io::af_xdp::XdpOptions;
use plexus_io::spec::{self, Opened, PortSpec};
use plexus_io::udp::UdpEnds;
use plexus_io::wrap::Faults;
use plexus_io::{Pool, Port, PortId};

use super::fast_table;

/// Bytes of a full-size frame on the cable.
const FULL_FRAME: usize = 1538;

/// A worker's share of the box, before it runs.
pub(crate) struct Share {
    /// Its frames.
    pub(crate) pool: Pool,
    /// Its ports.
    pub(crate) ports: Vec<(PortId, Box<dyn Port>)>,
}

/// How a port was opened, for people.
#[derive(Clone, Debug)]
pub(crate) struct HowOpened {
    /// The back-end in use.
    pub(crate) backend: String,
    /// Mode and reason.
    pub(crate) detail: String,
}

/// Which worker owns each port: the one that the file says, else each in turn.
pub(crate) fn owners(file: &NodeFile) -> Vec<usize> {
    let mut turn = 0;
    let mut next = || {
        turn += 1;
        (turn - 1) % file.workers
    };
    file.ports.iter().map(|p| p.worker.unwrap_or_else(&mut next)).collect()
}

/// The file with every port's worker written down, so that a port keeps its worker when others come
/// and go.
pub(crate) fn pinned(mut file: NodeFile) -> NodeFile {
    let owners = owners(&file);
    file.ports.iter_mut().zip(owners).for_each(|(port, owner)| port.worker = Some(owner));
    file
}

/// Opens every port over its worker's pool.
///
/// # Errors
/// With the port's name, and what to do.
pub(crate) fn open(file: &NodeFile) -> Result<(Vec<Share>, Vec<HowOpened>), String> {
    fast_table::end_earlier(&file.ports)?;
    let owners = owners(file);
    let mut how = BTreeMap::new();
    let mut shares = Vec::new();
    for worker in 0..file.workers {
        let mine: Vec<usize> = (0..file.ports.len()).filter(|&i| owners[i] == worker).collect();
        let specs: Vec<PortSpec> = mine.iter().map(|&i| spec_of(file, &file.ports[i])).collect();
        let frames = file.frames + frames_of_deep_buffer(file, &mine);
        let opened = spec::open_all(&specs, frames).map_err(|(port, e)| match port {
            Some(i) => format!("port {}: {e}", specs[i].name),
            None => e.to_string(),
        })?;
        let pool = opened.pool;
        let mut ports = Vec::new();
        for ((&i, spec), opened) in mine.iter().zip(&specs).zip(opened.ports) {
            let (port, its) = finish(spec, &file.ports[i], opened);
            how.insert(i, its);
            ports.push((i as PortId, port));
        }
        shares.push(Share { pool, ports });
    }
    Ok((shares, how.into_values().collect()))
}

/// Frames for packets in the deep buffer, if one of these ports uses it. A port may hold as many
/// frames as are free, hence twice their number.
fn frames_of_deep_buffer(file: &NodeFile, ports: &[usize]) -> usize {
    let is_deep = |port: &usize| file.ports[*port].settings.queue.order == QueueOrder::Deep;
    match ports.iter().any(is_deep) {
        true => 2 * (file.switch.deep_buffer.bytes as usize).div_ceil(FULL_FRAME),
        false => 0,
    }
}

/// Opens one more port, over the pool of a worker that runs.
///
/// # Errors
/// With the port's name, and what to do.
pub(crate) fn open_beside(
    file: &NodeFile,
    port: &PortFile,
    pool: &mut Pool,
) -> Result<(Box<dyn Port>, HowOpened), String> {
    fast_table::end_earlier(std::slice::from_ref(port))?;
    let spec = spec_of(file, port);
    let opened = spec::open_beside(&spec, pool).map_err(|e| format!("port {}: {e}", spec.name))?;
    Ok(finish(&spec, port, opened))
}

/// Says how a port was opened, and puts its faults in front of it.
fn finish(spec: &PortSpec, file: &PortFile, opened: Opened) -> (Box<dyn Port>, HowOpened) {
    let backend = opened.backend.to_string();
    let device = spec.udp.is_none().then_some(&spec.device);
    tracing::info!(port = spec.name, device, backend, "{}", opened.how);
    let port: Box<dyn Port> = match &file.faults {
        Some(faults) => {
            tracing::warn!(port = spec.name, ?faults, "faults are added on purpose");
            Box::new(Faults::new(opened.port, faults.into()))
        }
        None => opened.port,
    };
    (port, HowOpened { backend, detail: opened.how })
}

fn spec_of(file: &NodeFile, port: &PortFile) -> PortSpec {
    PortSpec {
        name: port.name.clone(),
        device: port.device.clone(),
        backend: port.backend.unwrap_or(file.backend),
        udp: port.tunnel.map(|t| UdpEnds { local: t.local, peer: t.peer }),
        xdp: XdpOptions { for_table: file.fast_table == FastTable::Xdp, ..XdpOptions::default() },
        ..PortSpec::default()
    }
}
