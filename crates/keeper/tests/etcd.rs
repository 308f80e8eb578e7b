//! The keeper over a real etcd of one member, on this machine's loopback. Skipped where there is
//! no `etcd`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use plexus_config::EtcdSettings;
use plexus_controller::tenure::{Answer, Ask, Leader, Member};
use plexus_controller::{Change, CommonVersion, Lease, Record};
use plexus_keeper::{Etcd, Keeper};
use plexus_wire::{MacAddr, Time};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

const GROUP: [u8; 16] = [7; 16];
const LIMIT: Duration = Duration::from_secs(20);

/// A cluster of one member, and a directory; both end with it.
struct Cluster {
    member: Option<Child>,
    directory: TempDir,
    ports: [u16; 2],
    /// Whether it wants certificates, by an authority of its own.
    authority: Option<Authority>,
}

/// An authority and its certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Writes a certificate for this machine's loopback, until a year, and its key: their files.
    fn issue(&self, directory: &Path, name: &str, last_year: i32) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
        params.not_after = date_time_ymd(last_year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn certificate(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, &self.pem).unwrap();
        path
    }
}

impl Cluster {
    /// None: there is no `etcd` here.
    fn start() -> Option<Cluster> {
        Cluster::start_with(None)
    }

    fn start_with(authority: Option<Authority>) -> Option<Cluster> {
        if Command::new("etcd").arg("--version").output().is_err() {
            eprintln!("skipped: no etcd (Debian: etcd-server)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = [free(), free()];
        let ports = listeners.each_ref().map(|l| l.local_addr().unwrap().port());
        drop(listeners);
        let mut cluster = Cluster { member: None, directory, ports, authority };
        cluster.run();
        Some(cluster)
    }

    fn url(&self, which: usize) -> String {
        let scheme = if self.authority.is_some() && which == 0 { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports[which])
    }

    fn run(&mut self) {
        let (client, peer) = (self.url(0), self.url(1));
        let data = self.directory.path().join("data");
        let mut command = Command::new("etcd");
        if let Some(authority) = &self.authority {
            let (certificate, key) = authority.issue(self.directory.path(), "member", 2100);
            command.arg("--client-cert-auth").arg("--cert-file").arg(certificate);
            command.arg("--key-file").arg(key).arg("--trusted-ca-file");
            command.arg(authority.certificate(self.directory.path(), "ca.pem"));
        }
        let member = command
            .args(["--name", "m", "--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client, "--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("m={peer}")])
            .arg("--data-dir")
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.member = Some(member);
    }

    fn kill(&mut self) {
        if let Some(mut member) = self.member.take() {
            let _ = member.kill();
            let _ = member.wait();
        }
    }

    fn keeper(&self, name: &str) -> Waiting {
        self.keeper_of(name, name)
    }

    fn keeper_of(&self, name: &str, state: &str) -> Waiting {
        self.keeper_with(name, state, None)
    }

    /// With the authority's certificate, and the controller's with its key.
    fn keeper_with(&self, name: &str, state: &str, tls: Option<Tls>) -> Waiting {
        let (ca, certificate) = tls.unzip();
        let endpoints = vec![self.url(0)];
        let (insecure, lease) = (false, Duration::from_secs(2));
        let settings =
            EtcdSettings { endpoints, ca, certificate: certificate.flatten(), insecure, lease };
        let (wake, woken) = channel();
        let state = self.directory.path().join(state);
        let wake = move || {
            let _ = wake.send(());
        };
        let keeper = Etcd::start(&settings, name, &GROUP, &state, wake).unwrap();
        Waiting { keeper, woken }
    }

    /// A client of etcd that knows nothing of Plexus does this.
    fn etcdctl(&self, arguments: &[&str]) {
        let said = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url(0)])
            .args(arguments)
            .output()
            .unwrap();
        assert!(said.status.success(), "{said:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The authority's certificate; the controller's certificate and key.
type Tls = (PathBuf, Option<(PathBuf, PathBuf)>);

/// A keeper whose answers are waited for.
struct Waiting {
    keeper: Etcd,
    woken: Receiver<()>,
}

impl Waiting {
    fn next(&mut self) -> Answer {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(answer) = self.keeper.poll() {
                return answer;
            }
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "etcd has not answered");
            let _ = self.woken.recv_timeout(left);
        }
    }

    /// The first answer that is of interest.
    fn find<T>(&mut self, wanted: impl Fn(Answer) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next()) {
                return found;
            }
        }
    }

    fn lease(&mut self) -> u64 {
        loop {
            // Nothing here keeps a lease: it has to outlast the test on a slow disk too.
            let time = Duration::from_secs(120);
            self.keeper.ask(Ask::Lease { time, asked: Time::ZERO });
            let lease = self.find(|answer| match answer {
                Answer::Leased { lease, time: Some(_), asked: Time::ZERO } => Some(Some(lease)),
                // There was no connection yet.
                Answer::Lost => Some(None),
                _ => None,
            });
            if let Some(lease) = lease {
                return lease;
            }
        }
    }

    /// Leads: its epoch, and everything stored.
    fn campaign(&mut self, lease: u64, instead_of: u64) -> Option<(u64, Vec<Record>)> {
        self.keeper.ask(Ask::Campaign { lease, instead_of });
        self.find(|answer| match answer {
            Answer::Won { epoch, stored, .. } => Some(Some((epoch, stored))),
            Answer::Beaten => Some(None),
            _ => None,
        })
    }

    fn write(&mut self, epoch: u64, ticket: u64, changes: Vec<Change>) {
        self.keeper.ask(Ask::Write { epoch, ticket, changes });
    }

    /// Whether a write was allowed.
    fn written(&mut self, ticket: u64) -> bool {
        self.find(|answer| match answer {
            Answer::Written { ticket: written, .. } => (written >= ticket).then_some(true),
            Answer::Fenced { .. } => Some(false),
            _ => None,
        })
    }

    fn trouble(&mut self) -> String {
        self.find(|answer| match answer {
            // It takes its time to start and, on a busy machine, to answer.
            Answer::Trouble(text)
                if ["refused", "no answer within"].iter().any(|it| text.contains(it)) =>
            {
                None
            }
            Answer::Trouble(text) => Some(text),
            Answer::Leader(_) => panic!("it is let in"),
            _ => None,
        })
    }

    fn leader(&mut self, name: &str) -> Leader {
        self.find(|answer| match answer {
            Answer::Leader(Some(leader)) if leader.name == name => Some(leader),
            _ => None,
        })
    }
}

fn record(number: u32) -> Lease {
    let ip = Ipv4Addr::from_bits(0x0A00_0000 + number);
    let [_, a, b, c] = number.to_be_bytes();
    Lease { ip, mac: MacAddr([2, 0, 0, a, b, c]), until_unix_s: 1_000 }
}

fn puts(numbers: std::ops::Range<u32>) -> Vec<Change> {
    numbers.map(|number| Change::Put(Record::Lease(record(number)))).collect()
}

#[test]
fn one_leads_at_a_time_and_the_writes_of_an_earlier_one_are_refused() {
    let Some(cluster) = Cluster::start() else { return };
    let [mut one, mut two] = ["c1", "c2"].map(|name| cluster.keeper(name));
    let lease = one.lease();
    let (epoch, stored) = one.campaign(lease, 0).unwrap();
    assert!(stored.is_empty());
    // More than a transaction, and more than a page.
    one.write(epoch, 1, puts(0..4500));
    one.write(epoch, 2, vec![Change::RemoveLease(record(7).ip)]);
    // Two of these fill an answer, and so they come one by one.
    let common = |version| {
        let text = "#".repeat(plexus_config::COMMON_MAX);
        Record::Common(CommonVersion {
            version,
            kept_unix_s: 9,
            comment: String::new(),
            plexus: String::new(),
            kept: true,
            text,
        })
    };
    one.write(epoch, 3, vec![Change::Put(common(1)), Change::Put(common(2))]);
    one.write(epoch, 4, vec![Change::Put(common(3)), Change::RemoveCommon(1)]);
    assert!(one.written(4));

    let seen = two.leader("c1");
    assert_eq!(seen, Leader { name: "c1".into(), lease, epoch });
    let other = two.lease();
    assert_eq!(two.campaign(other, 0), None, "there is a leader");
    let (later, stored) = two.campaign(other, epoch).unwrap();
    assert!(later > epoch);
    let wanted = (0..4500).filter(|n| *n != 7).map(record).map(Record::Lease);
    let wanted: Vec<_> = wanted.chain([common(2), common(3)]).collect();
    let mut sorted = stored;
    sorted.sort_by_key(|record| Change::Put(record.clone()).key());
    assert!(sorted == wanted, "{} records", sorted.len());

    one.write(epoch, 5, puts(7..8));
    assert!(!one.written(5), "an earlier leader writes");
    two.write(later, 1, puts(8..9));
    assert!(two.written(1));
}

#[test]
fn what_a_controller_reports_ends_with_its_lease() {
    let Some(cluster) = Cluster::start() else { return };
    let [mut one, mut two] = ["c1", "c2"].map(|name| cluster.keeper(name));
    let lease = one.lease();
    one.campaign(lease, 0).unwrap();
    let member = Member { nodes: 3, attached: true, unix_s: 1_795_000_000, ..Member::default() };
    one.keeper.ask(Ask::Report { lease, member });
    let mut next = |wanted: Option<Member>| {
        two.find(|answer| match answer {
            Answer::Member(name, member) => {
                assert_eq!(name, "c1");
                (member == wanted).then_some(())
            }
            _ => None,
        });
    };
    next(Some(member));
    one.keeper.ask(Ask::Release { lease });
    next(None);
    one.keeper.ask(Ask::Keep { lease, asked: Time::ZERO });
    let ended = one.find(|answer| match answer {
        Answer::Ended { lease } => Some(lease),
        _ => None,
    });
    assert_eq!(ended, lease);
    // The leader record has ended too.
    let other = one.lease();
    assert!(one.campaign(other, 0).is_some());
}

#[test]
fn writes_wait_for_a_store_that_is_away() {
    let Some(mut cluster) = Cluster::start() else { return };
    let mut one = cluster.keeper("c1");
    let lease = one.lease();
    let (epoch, _) = one.campaign(lease, 0).unwrap();
    cluster.kill();
    one.write(epoch, 1, puts(0..1));
    one.write(epoch, 2, puts(1..2));
    cluster.run();
    // The lease has had its time anew when the member came back.
    assert!(one.written(2));
    let mut two = cluster.keeper("c2");
    let other = two.lease();
    let (_, stored) = two.campaign(other, epoch).unwrap();
    assert_eq!(stored, [record(0), record(1)].map(Record::Lease));
}

#[test]
fn anothers_keys_and_another_cluster_are_refused_with_advice() {
    let Some(mut cluster) = Cluster::start() else { return };
    let root = format!("/plexus/{}", "07".repeat(16));
    let mut one = cluster.keeper("c1");
    let lease = one.lease();
    cluster.etcdctl(&["put", &format!("{root}/lease/10.0.0.1"), "nonsense"]);
    one.keeper.ask(Ask::Campaign { lease, instead_of: 0 });
    let trouble = one.trouble();
    assert!(trouble.contains("remove it (etcdctl del /plexus/0707"), "{trouble}");

    cluster.etcdctl(&["put", &format!("{root}/format"), "2"]);
    let trouble = cluster.keeper("c2").trouble();
    assert!(trouble.contains("format is 2, this program reads 1: update it"), "{trouble}");

    cluster.kill();
    std::fs::remove_dir_all(cluster.directory.path().join("data")).unwrap();
    cluster.ports[1] ^= 1;
    cluster.run();
    let trouble = cluster.keeper_of("c1", "c1").trouble();
    assert!(trouble.contains("this controller's is"), "{trouble}");
}

#[test]
fn both_sides_prove_themselves_by_certificates() {
    let Some(cluster) = Cluster::start_with(Some(Authority::new())) else { return };
    let authority = cluster.authority.as_ref().unwrap();
    let ca = authority.certificate(cluster.directory.path(), "ca.pem");
    let own = authority.issue(cluster.directory.path(), "c1", 2100);
    let mut one = cluster.keeper_with("c1", "c1", Some((ca.clone(), Some(own))));
    let lease = one.lease();
    let (epoch, _) = one.campaign(lease, 0).unwrap();
    one.write(epoch, 1, puts(0..1));
    assert!(one.written(1));

    // Without a certificate, with one that has expired, and with another authority's.
    let expired = authority.issue(cluster.directory.path(), "expired", 2020);
    let other = Authority::new();
    let others = other.issue(cluster.directory.path(), "others", 2100);
    for (name, own) in [("none", None), ("expired", Some(expired)), ("others", Some(others))] {
        let mut refused = cluster.keeper_with("c2", name, Some((ca.clone(), own)));
        let trouble = refused.trouble();
        let wanted = match name {
            "none" => "may want this controller's certificate and key",
            _ => "if it refuses this controller's certificate",
        };
        assert!(trouble.contains(wanted), "{name}: {trouble}");
    }
    // The cluster is another authority's.
    let wrong = other.certificate(cluster.directory.path(), "wrong.pem");
    let own = authority.issue(cluster.directory.path(), "c3", 2100);
    let trouble = cluster.keeper_with("c3", "wrong", Some((wrong, Some(own)))).trouble();
    assert!(trouble.contains("certificate"), "{trouble}");
}
