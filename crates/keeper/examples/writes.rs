//! Leases of addresses that a store makes durable in a second. 64 are asked for at a time: as many
//! as a controller takes frames at a time.
//!
//!     cargo run --release -p plexus-keeper --example writes -- /var/tmp/writes.redb
//!     cargo run --release -p plexus-keeper --example writes -- http://127.0.0.1:2379

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use plexus_config::EtcdSettings;
use plexus_controller::tenure::{Answer, Ask};
use plexus_controller::{Change, Lease, Record};
use plexus_keeper::{Etcd, File, Keeper};
use plexus_wire::{MacAddr, Time};

const AT_ONCE: u32 = 64;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(2);

fn main() -> Result<(), String> {
    let place = std::env::args().nth(1).ok_or("give a file, or the URL of an etcd")?;
    let mut keeper: Box<dyn Keeper> = match place.starts_with("http") {
        false => Box::new(File::open(Path::new(&place))?),
        true => {
            let endpoints = vec![place];
            let (insecure, lease) = (true, Duration::from_secs(60));
            let settings = EtcdSettings { endpoints, ca: None, certificate: None, insecure, lease };
            let state = std::env::temp_dir().join(format!("writes-{}.etcd", std::process::id()));
            Box::new(Etcd::start(&settings, "writes", &[0xEE; 16], &state, || {})?)
        }
    };
    let keeper = keeper.as_mut();
    let (mut lease, mut epoch) = (None, None);
    while epoch.is_none() {
        match next(keeper)? {
            Answer::Leader(_) => {
                keeper.ask(Ask::Lease { time: Duration::from_secs(60), asked: Time::ZERO });
            }
            Answer::Leased { lease: id, .. } => {
                lease = Some(id);
                keeper.ask(Ask::Campaign { lease: id, instead_of: 0 });
            }
            Answer::Won { epoch: won, .. } => epoch = Some(won),
            Answer::Beaten => return Err("another one leads there".into()),
            _ => {}
        }
    }
    let (mut ticket, mut rates) = (0, Vec::new());
    for _ in 0..RUNS {
        let (begun, before) = (Instant::now(), ticket);
        while begun.elapsed() < RUN {
            for _ in 0..AT_ONCE {
                ticket += 1;
                let ip = Ipv4Addr::from_bits(0x0A00_0000 + (ticket % 100_000) as u32);
                let lease = Lease { ip, mac: MacAddr([2, 0, 0, 0, 0, 1]), until_unix_s: ticket };
                let changes = vec![Change::Put(Record::Lease(lease))];
                keeper.ask(Ask::Write { epoch: epoch.unwrap_or(0), ticket, changes });
            }
            let mut written = 0;
            while written < ticket {
                if let Answer::Written { ticket, .. } = next(keeper)? {
                    written = ticket;
                }
            }
        }
        rates.push((ticket - before) as f64 / begun.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{:.0} leases/s (least {:.0}, greatest {:.0} of {RUNS} runs), {}",
        rates[RUNS / 2],
        rates[0],
        rates[RUNS - 1],
        keeper.describe()
    );
    lease.into_iter().for_each(|lease| keeper.ask(Ask::Release { lease }));
    Ok(())
}

/// The next answer, which is no trouble.
fn next(keeper: &mut dyn Keeper) -> Result<Answer, String> {
    loop {
        match keeper.poll() {
            Some(Answer::Trouble(why)) => return Err(why),
            Some(answer) => return Ok(answer),
            None => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}
