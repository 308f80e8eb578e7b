//! The requests of a controller, each as one call of etcd.

use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, KeyValue, PutOptions, Txn, TxnOp,
};
use plexus_controller::tenure::{Answer, Ask};
use plexus_controller::{Change, Record, RecordKey};

use super::keys::{self, Keys};
use super::session::{in_time, limited};
use super::{LIMIT, words};
use crate::checked;

/// How long it may take to read everything stored.
const LOAD_LIMIT: Duration = Duration::from_secs(10);
/// Records that one answer carries.
const PAGE: i64 = 2000;
/// Changes of one transaction: etcd refuses more than 128 (`--max-txn-ops`).
const CHANGES: usize = 120;

/// A request that is no write. None: it needs no answer.
///
/// # Errors
/// In words, if etcd was not reached or has refused.
pub(super) async fn serve(
    client: Client,
    keys: Keys,
    name: String,
    ask: Ask,
) -> Result<Option<Answer>, String> {
    let limit = if matches!(ask, Ask::Campaign { .. }) { LOAD_LIMIT } else { LIMIT };
    limited(limit, answer(client, keys, name, ask)).await
}

async fn answer(
    client: Client,
    keys: Keys,
    name: String,
    ask: Ask,
) -> Result<Option<Answer>, String> {
    let ended = |lease, error| match is_unknown_lease(&error) {
        true => Ok(Some(Answer::Ended { lease })),
        false => Err(words(&error)),
    };
    let mut client = client;
    match ask {
        Ask::Lease { time, asked } => {
            let seconds = time.as_secs().max(1) as i64;
            let granted = client.lease_grant(seconds, None).await.map_err(|e| words(&e))?;
            // etcd does not grant less than one and a half times its election timeout.
            let time = Some(Duration::from_secs(granted.ttl().max(0) as u64));
            Ok(Some(Answer::Leased { lease: granted.id() as u64, time, asked }))
        }
        Ask::Keep { lease, asked } => match client.lease_keep_alive(lease as i64).await {
            Ok(_) => Ok(Some(Answer::Kept { lease, asked })),
            Err(error) => ended(lease, error),
        },
        Ask::Campaign { lease, instead_of } => {
            // It reads first: one that cannot read what is stored does not lead.
            loop {
                let (before, last) = revisions(&mut client, &keys.written()).await?;
                // The leader record would have the next one, or a later one.
                checked(last as u64 + 1).map_err(|what| format!("etcd: {what}"))?;
                let stored = load(&mut client, &keys).await?;
                let options = PutOptions::new().with_lease(lease as i64);
                let txn = Txn::new()
                    .when([
                        Compare::mod_revision(keys.leader(), CompareOp::Equal, instead_of as i64),
                        Compare::mod_revision(keys.written(), CompareOp::Equal, before),
                    ])
                    .and_then([
                        TxnOp::put(keys.leader(), keys::holder(&name), Some(options)),
                        TxnOp::put(keys.written(), "", None),
                    ]);
                let answer = match client.txn(txn).await {
                    Ok(answer) => answer,
                    Err(error) => return ended(lease, error),
                };
                if answer.succeeded() {
                    let epoch = answer.header().map_or(0, |header| header.revision()) as u64;
                    return Ok(Some(Answer::Won { lease, epoch, stored }));
                }
                if revision(&mut client, &keys.leader()).await? != instead_of as i64 {
                    return Ok(Some(Answer::Beaten));
                }
                // The leader has written meanwhile.
            }
        }
        Ask::Report { lease, member } => {
            let options = PutOptions::new().with_lease(lease as i64);
            let value = serde_json::to_vec(&member).unwrap_or_default();
            match client.put(keys.member(&name), value, Some(options)).await {
                Ok(_) => Ok(None),
                Err(error) => ended(lease, error),
            }
        }
        Ask::Release { lease } => match client.lease_revoke(lease as i64).await {
            Ok(_) => Ok(None),
            Err(error) => ended(lease, error),
        },
        // It has its turn elsewhere.
        Ask::Write { .. } => Ok(None),
    }
}

/// Writes changes, while the leader record is of this epoch: the revision of the write. None: it is
/// not. `last`: the revision of the write before, which is the epoch for the first one. Each write
/// names it, so that one that was given up and comes late, after it was repeated, is refused.
///
/// # Errors
/// In words; then all, some or none may be written.
pub(super) async fn write(
    mut client: Client,
    keys: Keys,
    epoch: u64,
    mut last: i64,
    changes: Vec<(RecordKey, Change)>,
) -> Result<Option<i64>, String> {
    for some in transactions(&changes) {
        let operation = |(key, change): &(RecordKey, Change)| {
            let value = match change {
                Change::Put(Record::Lease(lease)) => serde_json::to_vec(lease),
                Change::Put(Record::Common(version)) => serde_json::to_vec(version),
                Change::RemoveLease(_) | Change::RemoveCommon(_) => {
                    return TxnOp::delete(keys.record(*key), None::<DeleteOptions>);
                }
            };
            TxnOp::put(keys.record(*key), value.unwrap_or_default(), None)
        };
        let mut operations: Vec<TxnOp> = some.iter().map(operation).collect();
        operations.push(TxnOp::put(keys.written(), "", None));
        loop {
            let txn = Txn::new()
                .when([
                    Compare::mod_revision(keys.leader(), CompareOp::Equal, epoch as i64),
                    Compare::mod_revision(keys.written(), CompareOp::Equal, last),
                ])
                .and_then(operations.clone());
            let answer = in_time(client.txn(txn)).await?;
            if answer.succeeded() {
                last = answer.header().map_or(0, |header| header.revision());
                break;
            }
            if limited(LIMIT, revision(&mut client, &keys.leader())).await? != epoch as i64 {
                return Ok(None);
            }
            // One that was given up was made after all.
            last = limited(LIMIT, revision(&mut client, &keys.written())).await?;
        }
    }
    Ok(Some(last))
}

/// Changes as etcd takes them at once: so many, and one long text at a time.
fn transactions(changes: &[(RecordKey, Change)]) -> Vec<&[(RecordKey, Change)]> {
    let is_long = |(key, _): &(RecordKey, Change)| matches!(key, RecordKey::Common(_));
    let groups = changes.chunk_by(|a, b| !is_long(a) && !is_long(b));
    groups.flat_map(|group| group.chunks(CHANGES)).collect()
}

/// The revision of a key, 0 if there is none.
async fn revision(client: &mut Client, key: &str) -> Result<i64, String> {
    revisions(client, key).await.map(|(of_key, _)| of_key)
}

/// The same, and the revision of the store.
async fn revisions(client: &mut Client, key: &str) -> Result<(i64, i64), String> {
    let found = client.get(key, None).await.map_err(|e| words(&e))?;
    let of_key = found.kvs().first().map_or(0, |kv| kv.mod_revision());
    Ok((of_key, found.header().map_or(0, |header| header.revision())))
}

/// Everything stored.
async fn load(client: &mut Client, keys: &Keys) -> Result<Vec<Record>, String> {
    let lease = |kv: &KeyValue| keys::lease(kv).map(Record::Lease);
    let mut records = load_under(client, keys.leases(), PAGE, lease).await?;
    let common = |kv: &KeyValue| keys::common(kv).map(Record::Common);
    records.extend(load_under(client, keys.common(), 1, common).await?);
    Ok(records)
}

/// The records below a key, so many at a time: an answer has at most 4 MiB.
async fn load_under(
    client: &mut Client,
    above: String,
    page: i64,
    read: impl Fn(&KeyValue) -> Result<Record, String>,
) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    // The key after all of them: "/" is followed by "0".
    let end = format!("{}0", above.trim_end_matches('/'));
    let mut from = above.into_bytes();
    loop {
        let options = GetOptions::new().with_range(&*end).with_limit(page);
        let page = client.get(from, Some(options)).await.map_err(|e| words(&e))?;
        for kv in page.kvs() {
            records.push(read(kv)?);
        }
        match page.kvs().last().filter(|_| page.more()) {
            // The next key that is possible.
            Some(last) => from = [last.key(), &[0]].concat(),
            None => return Ok(records),
        }
    }
}

fn is_unknown_lease(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => status.message().contains("lease not found"),
        Error::LeaseKeepAliveError(text) => text.contains("not found"),
        _ => false,
    }
}
