//! `shingle blue ls|df|dump`: buckets, objects, room and zones, which stay as they are.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::{ByteSize, printable};
use shingle_blue_objects::BlueClient;
use shingle_blue_store::{BlueStats, OpenReport, Store, ZoneDump};
use shingle_store_api::{ListRequest, ObjectStore, StoreErrorKind};

use super::opened::{examined, named, no_bucket, with_buckets};
use super::target::Target;
use crate::failure::{Failure, Outcome};
use crate::output::{Objects, counted, size};

/// Objects, or keys, of one call.
const PAGE: usize = 1000;

#[derive(Args)]
pub(crate) struct Ls {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The bucket, and behind a slash the beginning of keys [default: lists buckets].
    #[arg(value_name = "BUCKET/KEY")]
    of: Option<Target>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Df {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Dump {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print all keys of the metadata, too, each with its meaning.
    #[arg(long)]
    metadata: bool,
}

impl Ls {
    pub(crate) fn run(self) -> Outcome {
        with_buckets(&self.drive, false, async |_, client| match &self.of {
            None => self.buckets(client).await,
            Some(of) => self.objects(client, of).await,
        })
    }

    async fn buckets(&self, client: &BlueClient) -> Outcome {
        let buckets = client.list_buckets().await?;
        if self.json {
            let row = |(name, created): (&str, u64)| json!({ "bucket": name, "created_unix_s": created });
            let rows: Vec<Value> = buckets.iter().map(|it| row((&it.name, it.created_unix_s))).collect();
            say!("{}", json!({ "buckets": rows }));
        } else {
            for bucket in buckets {
                say!("{}  {}", shingle_server::utc(bucket.created_unix_s), printable(bucket.name.as_bytes()));
            }
        }
        Ok(())
    }

    async fn objects(&self, client: &BlueClient, of: &Target) -> Outcome {
        let (mut after, mut rows) = (None, Objects::new(self.json));
        loop {
            let request = ListRequest { prefix: of.key.clone(), delimiter: None, after, limit: PAGE };
            let page = client.list(&of.bucket, request).await.map_err(|error| match error.kind {
                StoreErrorKind::NoSuchBucket => no_bucket(&of.bucket),
                _ => error.into(),
            })?;
            for object in page.objects {
                let name = || format!("{}/{}", printable(of.bucket.as_bytes()), printable(object.key.as_bytes()));
                rows.row(
                    || {
                        json!({ "bucket": of.bucket, "key": object.key, "size_bytes": object.size, "etag": object.etag,
                                "modified_unix_ns": object.modified_unix_ns })
                    },
                    || format!("{:>14}  {}", object.size, name()),
                );
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        rows.end();
        Ok(())
    }
}

impl Df {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (store, report) = examined(&self.drive, &rt).await?;
            let stats = store.stats();
            if self.json {
                say!("{}", state_json(&store, &stats, &report));
                return Ok(());
            }
            say!("store     {}", store.id());
            say!("used      {} of {}", size(stats.live_bytes), size(stats.capacity_bytes));
            say!("stale     {}, which cleaning wins back", size(stats.stale_bytes));
            say!("deferred  {}", size(stats.deferred_bytes));
            say!("metadata  room for {}", size(stats.metadata_room_bytes));
            say!("zones     {} for data: {} free, {} broken", stats.zones, stats.zones_free, stats.zones_broken);
            say!("opening   {}", counted(report.deferred, "deferred write"));
            if !report.short.is_empty() {
                say!(
                    "          {} lost blocks: `shingle blue check` tells more",
                    counted(report.short.len() as u64, "zone")
                );
            }
            Ok(())
        })?
    }
}

fn state_json(store: &Store, stats: &BlueStats, report: &OpenReport) -> Value {
    let zones = store.data_zones();
    json!({ "store": store.id().to_string(), "data_zones": { "first": zones.start, "end": zones.end },
            "stats": { "capacity_bytes": stats.capacity_bytes, "live_bytes": stats.live_bytes, "stale_bytes": stats.stale_bytes,
                       "deferred_bytes": stats.deferred_bytes, "room_bytes": stats.room_bytes,
                       "metadata_room_bytes": stats.metadata_room_bytes, "zones": stats.zones,
                       "zones_free": stats.zones_free, "zones_broken": stats.zones_broken },
            "opening": { "deferred": report.deferred, "unnamed_blocks": report.unnamed_blocks,
                         "short_zones": report.short.len() } })
}

impl Dump {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (store, report) = examined(&self.drive, &rt).await?;
            let mut all = state_json(&store, &store.stats(), &report);
            let first = store.data_zones().start;
            all["zones"] = store.dump().iter().map(|zone| zone_json(first, zone)).collect();
            if !self.metadata {
                say!("{all}");
                return Ok(());
            }
            // There may be many keys: they are printed as they come.
            let text = all.to_string();
            say!("{}, \"metadata\": [", text.strip_suffix('}').unwrap_or(&text));
            let (mut from, mut comma) = (Vec::new(), "");
            loop {
                let page = store.dump_metadata(&from, PAGE).await.map_err(|error| named(&self.drive, &error))?;
                let Some((last, _)) = page.last() else { break };
                from = [&last[..], b"\0"].concat();
                for (key, words) in &page {
                    say!("{comma}{}", json!({ "key": key.escape_ascii().to_string(), "words": words }));
                    comma = ",";
                }
            }
            say!("]}}");
            Ok::<(), Failure>(())
        })?
    }
}

fn zone_json(first: u32, zone: &ZoneDump) -> Value {
    let live = ByteSize(shingle_base::Blocks(zone.live).bytes()).0;
    json!({ "zone": zone.zone, "drive_zone": first + zone.zone, "state": zone.state, "generation": zone.epoch,
            "blocks": zone.written, "live_bytes": live, "broken": zone.broken })
}
