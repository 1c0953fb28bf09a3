//! RC-LOG-5 to RC-LOG-7: a log of which a block, a zone or a part of its last write is lost holds what it held, or says that it
//! does not. It never ends earlier than what was acknowledged.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Asked, Unreadable, config, history, holds, open, work};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_record::{MetaLog, MetaLogError, Recovered, SequenceSource, dump};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

/// Opens what is on `image`, of which these blocks cannot be read.
fn reopen(image: &MemoryDevice, unreadable: Vec<Lba>) -> Result<Recovered, MetaLogError> {
    let image = image.snapshot();
    Sim::new(1).run(move |rt| async move {
        let device = Unreadable::new(SimDevice::new(&rt, &image), unreadable);
        open(&rt, &device).await.map(|(_, recovered)| recovered)
    })
}

fn zones() -> impl Iterator<Item = ZoneId> {
    config().zones.map(ZoneId)
}

/// Every written block of the log, zone by zone.
fn blocks(image: &MemoryDevice) -> Vec<Lba> {
    let of_zone = |zone| {
        let info = image.zone(zone);
        (0..info.written.0).map(move |block| info.start + Blocks(block))
    };
    zones().flat_map(of_zone).collect()
}

fn what(recovered: &Recovered) -> (Vec<bytes::Bytes>, Vec<(u64, bytes::Bytes)>) {
    let journal = recovered.journal.iter().map(|entry| (entry.sequence, entry.bytes.clone())).collect();
    (recovered.parts.clone(), journal)
}

fn write_errors() -> Faults {
    let rate = |kind, share, fault| FaultRule { trigger: Trigger::Rate(kind, share), fault };
    Faults::new([
        rate(CommandKind::Write, 0.05, Fault::WriteError),
        rate(CommandKind::Reset, 0.05, Fault::CommandError),
    ])
}

/// Histories with and without failed writes: what is left of them at the end.
fn ends(count: u64) -> impl Iterator<Item = (u64, MemoryDevice, Asked)> {
    seeds(count).flat_map(|seed| {
        let faults = if seed % 2 == 0 { write_errors() } else { Faults::default() };
        history(seed, faults, false).pop().map(|(_, image, asked)| (seed, image, asked))
    })
}

#[test]
fn any_one_block_can_be_lost() {
    let mut mended = 0;
    for (seed, image, asked) in ends(6) {
        let whole = reopen(&image, Vec::new()).unwrap();
        holds(&whole, &asked, &format!("seed {seed}"));
        // Of a write that failed all but the parity may have landed.
        assert!(whole.mended.is_empty() || seed % 2 == 0, "seed {seed}: {:?}", whole.mended);
        let mut random = Random::new(seed);
        for at in blocks(&image) {
            let context = format!("seed {seed}, block {at}");
            let rotten = image.snapshot();
            let (kind, byte) = (random.below(3), random.below(200) as usize);
            rotten.corrupt(at, |block| match kind {
                0 => block.fill(0),
                1 => block[byte] ^= 4,
                _ => block.copy_from_slice(&Random::new(seed).bytes(4096)),
            });
            for (image, unreadable) in [(&rotten, Vec::new()), (&image, vec![at])] {
                let opened = reopen(image, unreadable).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(what(&opened) == what(&whole), "{context}: something else was found");
                mended += opened.mended.len();
            }
        }
    }
    assert!(mended > 100, "only {mended} blocks were made up for");
}

#[test]
fn blocks_lost_from_one_write_are_damage_and_what_is_not_needed_stops_nobody() {
    let (mut same, mut damaged) = (0, 0);
    for (seed, image, _) in ends(10) {
        let whole = reopen(&image, Vec::new()).unwrap();
        for pair in blocks(&image).windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1) {
            match reopen(&image, pair.to_vec()) {
                Ok(opened) => {
                    assert!(what(&opened) == what(&whole), "seed {seed}, blocks {pair:?}: something else was found");
                    same += 1;
                }
                Err(MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint) => damaged += 1,
                Err(error) => panic!("seed {seed}, blocks {pair:?}: {error}"),
            }
        }
    }
    assert!(same > 20 && damaged > 20, "{same} opened, {damaged} refused");
}

#[test]
fn a_lost_zone_is_noticed_unless_nothing_in_it_is_needed() {
    let (mut same, mut damaged) = (0, 0);
    for (seed, image, _) in ends(30) {
        let whole = reopen(&image, Vec::new()).unwrap();
        for zone in zones() {
            let offline = image.snapshot();
            offline.set_state(zone, ZoneState::Offline);
            let info = image.zone(zone);
            let unreadable = (0..info.written.0).map(|block| info.start + Blocks(block)).collect();
            for opened in [reopen(&offline, Vec::new()), reopen(&image, unreadable)] {
                match opened {
                    Ok(opened) => {
                        assert!(what(&opened) == what(&whole), "seed {seed}, {zone}: something else was found");
                        same += 1;
                    }
                    Err(MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint) => damaged += 1,
                    Err(error) => panic!("seed {seed}, {zone}: {error}"),
                }
            }
        }
    }
    assert!(same > 50 && damaged > 50, "{same} opened, {damaged} refused");
}

/// RC-LOG-6, wherever the power fails, too: a zone that is left has led to others, which were freed and reset since.
#[test]
fn a_zone_that_is_lost_at_a_power_cut_never_rolls_the_log_back() {
    let (mut opened, mut refused) = (0, 0);
    for seed in seeds(25) {
        for (command, image, asked) in history(seed, Faults::default(), true) {
            for zone in zones().filter(|&zone| image.zone(zone).written > Blocks(0)) {
                let offline = image.snapshot();
                offline.set_state(zone, ZoneState::Offline);
                match reopen(&offline, Vec::new()) {
                    Ok(found) => {
                        holds(&found, &asked, &format!("seed {seed}, cut at command {command}, {zone} lost"));
                        opened += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(opened > 1000 && refused > 1000, "{opened} opened, {refused} refused");
}

/// The last write before a flush loses any of its blocks, or its end.
fn spoil_last_write(image: &MemoryDevice, at: Lba, blocks: Blocks, random: &mut Random) {
    let zone = image.geometry().zone_of(at).unwrap();
    for block in (0..blocks.0).filter(|_| random.chance(0.5)) {
        image.corrupt(at + Blocks(block), |bytes| bytes.fill(0));
    }
    let (start, end) = (image.geometry().start_of(zone), (at + blocks).0);
    if random.chance(0.3) && image.zone(zone).written < image.geometry().zone_capacity {
        let cut = at.0 + random.below(end - at.0 + 1);
        image.truncate_zone(zone, Blocks(cut - start.0));
    }
}

/// A write that is not flushed yet: the drive with it, where it lies, and what had been acknowledged before it.
struct Unflushed {
    image: MemoryDevice,
    at: Lba,
    blocks: Blocks,
    asked: Asked,
}

/// Takes note of every write before it is flushed.
fn unflushed(device: &SimDevice, asked: &Rc<RefCell<Asked>>) -> Rc<RefCell<Vec<Rc<Unflushed>>>> {
    let writes = Rc::new(RefCell::new(Vec::new()));
    let last = Rc::new(RefCell::new(None));
    let (noted, asked) = (writes.clone(), asked.clone());
    device.on_command(move |command, device| {
        if let Some((at, blocks, asked)) = last.take() {
            noted.borrow_mut().push(Rc::new(Unflushed { image: device.image(), at, blocks, asked }));
        }
        if let Some(zone) = command.zone.filter(|_| command.kind == CommandKind::Write) {
            let info = device.image().zone(zone);
            *last.borrow_mut() = Some((info.start + info.written, command.blocks, asked.borrow().clone()));
        }
    });
    writes
}

#[test]
fn any_blocks_of_an_unflushed_write_may_be_lost_and_two_timelines_never_join() {
    let mut cuts = 0;
    for seed in seeds(20) {
        let shape = Geometry::hm_smr(Blocks(16 + seed % 20), 12, 0, 8);
        let medium = MemoryDevice::new(Geometry { volatile_cache: true, ..shape });
        let writes = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
            let asked = Rc::new(RefCell::new(Asked::default()));
            let writes = unflushed(&device, &asked);
            work(rt.clone(), log, asked, Random::new(seed), 20).await.unwrap();
            writes.take()
        });
        for (number, write) in writes.into_iter().enumerate() {
            cut_again_and_again(&format!("seed {seed}, write {number}"), write, seed * 1000 + number as u64);
            cuts += 1;
        }
    }
    assert!(cuts > 300 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// Power cuts one after the other, each in the middle of a write: whatever an opening found is there at the next.
fn cut_again_and_again(context: &str, mut write: Rc<Unflushed>, seed: u64) {
    let mut random = Random::new(seed);
    for round in 0..4 {
        let context = format!("{context}, round {round}");
        let image = write.image.snapshot();
        spoil_last_write(&image, write.at, write.blocks, &mut random);
        let mut asked = write.asked.clone();
        let mut rest = random.clone();
        let next = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            let (log, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            let end = holds(&recovered, &asked, &context);
            asked.reopened(end);
            let asked = Rc::new(RefCell::new(asked));
            let writes = unflushed(&device, &asked);
            work(rt.clone(), log, asked, rest.clone(), 4).await.unwrap();
            let writes = writes.take();
            let some = rest.below(writes.len().max(1) as u64) as usize;
            writes.get(some).cloned()
        });
        let Some(next) = next else { return };
        write = next;
        random.below(2);
    }
}

/// RC-LOG-6 and RC-LOG-9: an entry that was acknowledged in the middle of a checkpoint which was never complete, with zones before and
/// behind it that hold nothing but parts.
#[test]
fn a_lost_zone_between_parts_of_a_checkpoint_is_missed() {
    let (mut opened, mut refused) = (0, 0);
    for (before, behind) in (0..30).flat_map(|before| (0..30).map(move |behind| (before, behind))) {
        let image = Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(16), 40, 0, 8)));
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            let config = shingle_record::MetaLogConfig { zones: 2..30, ..config() };
            let log = MetaLog::format(&rt, &shared, config, SequenceSource::default()).await.unwrap();
            let mut writer = log.begin_checkpoint().await.unwrap();
            for _ in 0..before {
                writer.part(vec![1; 3000]).await.unwrap();
            }
            log.append(b"acknowledged".to_vec(), 1_000).await.unwrap();
            for _ in 0..behind {
                writer.part(vec![2; 3000]).await.unwrap();
            }
            device.image()
        });
        for zone in (2..30).map(ZoneId).filter(|&zone| image.zone(zone).written > Blocks(0)) {
            let offline = image.snapshot();
            offline.set_state(zone, ZoneState::Offline);
            let found = Sim::new(1).run(move |rt| async move {
                let shared: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &offline));
                let config = shingle_record::MetaLogConfig { zones: 2..30, ..config() };
                MetaLog::open(&rt, &shared, config, SequenceSource::default()).await.map(|(_, recovered)| recovered)
            });
            match found {
                Ok(found) => {
                    assert_eq!(found.journal.len(), 1, "{before} parts, the entry, {behind} parts, {zone} lost");
                    opened += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 500, "{opened} opened, {refused} refused");
}

/// Lives that are cut in one of their first writes, among them those of the checkpoint that would win zones back.
#[test]
fn no_chain_of_power_cuts_uses_up_the_zones() {
    for seed in seeds(12) {
        let mut random = Random::new(seed);
        let mut image = MemoryDevice::new(Geometry::hm_smr(Blocks(16 + seed % 20), 12, 0, 8));
        let formatted = image.snapshot();
        image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &formatted);
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
            device.image()
        });
        let mut asked = Asked::default();
        for life in 0..40 {
            let (before, mut known, which, rest) = (image.snapshot(), asked.clone(), random.below(3), random.clone());
            let write = Sim::new(seed).run(move |rt| async move {
                let device = SimDevice::new(&rt, &before);
                let context = format!("seed {seed}, life {life}");
                let (log, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let end = holds(&recovered, &known, &context);
                known.reopened(end);
                let known = Rc::new(RefCell::new(known));
                let writes = unflushed(&device, &known);
                work(rt.clone(), log, known, rest, 3).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let writes = writes.take();
                writes[which as usize % writes.len()].clone()
            });
            image = write.image.snapshot();
            spoil_last_write(&image, write.at, write.blocks, &mut random);
            asked = write.asked.clone();
        }
    }
}

#[test]
fn reads_that_fail_now_and_then_never_make_the_log_shorter() {
    let (mut opened, mut refused) = (0, 0);
    for (seed, image, _) in ends(40) {
        let whole = reopen(&image, Vec::new()).unwrap();
        let share = [0.1, 0.5, 0.9][(seed % 3) as usize];
        let again = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            let trigger = Trigger::Rate(CommandKind::Read, share);
            device.set_faults(Faults::new([FaultRule { trigger, fault: Fault::ReadError }]));
            open(&rt, &device).await.map(|(_, recovered)| recovered)
        });
        match again {
            Ok(again) => {
                assert!(what(&again) == what(&whole), "seed {seed}: something else was found");
                opened += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 5 && refused > 5 || std::env::var_os("SHINGLE_SEED").is_some(), "{opened} opened, {refused} not");
}

#[test]
fn errors_that_pass_use_up_no_zones_and_errors_that_stay_stop_the_log() {
    Sim::new(1).run(|rt| async move {
        let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(16), 12, 0, 8));
        let device = SimDevice::new(&rt, &medium);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        // Each reset fails at its first two tries, whichever zone it is of.
        let passing = |nth| FaultRule { trigger: Trigger::Nth(CommandKind::Reset, nth), fault: Fault::CommandError };
        device.set_faults(Faults::new((0..60).filter(|nth| nth % 3 < 2).map(passing)));
        for number in 0..100 {
            if !log.has_journal_room() {
                log.begin_checkpoint().await.unwrap().finish().await.unwrap();
            }
            log.append(vec![1; 10], number).await.unwrap();
        }
        let (_, recovered) = open(&rt, &device).await.unwrap();
        assert!(!recovered.journal.is_empty());
        let stays = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
        device.set_faults(Faults::new([stays]));
        let before = device.counts().commands;
        assert!(matches!(log.append(vec![2; 10], 200).await, Err(MetaLogError::Device(_))));
        assert!(matches!(log.append(vec![3; 10], 201).await, Err(MetaLogError::Stopped)));
        let commands = device.counts().commands - before;
        assert!(commands < 100, "{commands} commands");
        // Once the drive works again the log does too.
        device.set_faults(Faults::default());
        let (log, _) = open(&rt, &device).await.unwrap();
        log.append(vec![4; 10], 202).await.unwrap();
    });
}

/// Entries that join a record once counted nothing: with many in the queue a write was longer than readers take.
#[test]
fn thousands_of_entries_at_once_are_found_again() {
    Sim::new(1).run(|rt| async move {
        let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(4096), 12, 0, 8));
        let device = SimDevice::new(&rt, &medium);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        let entries: Vec<Vec<u8>> = (0..30_000u64).map(|number| number.to_le_bytes().repeat(16)).collect();
        let answers: Vec<_> = entries.iter().zip(1u64..).map(|(entry, at)| log.append(entry.clone(), at)).collect();
        for answer in answers {
            answer.await.unwrap();
        }
        let (_, recovered) = open(&rt, &SimDevice::new(&rt, &device.image())).await.unwrap();
        let found: Vec<Vec<u8>> = recovered.journal.iter().map(|entry| entry.bytes.to_vec()).collect();
        assert!(found == entries, "{} of {} entries", found.len(), entries.len());
    });
}

#[test]
fn a_part_may_be_longer_than_a_zone() {
    Sim::new(1).run(|rt| async move {
        let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(16), 32, 0, 8));
        let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &medium));
        let config = shingle_record::MetaLogConfig { zones: 2..30, ..config() };
        let log = MetaLog::format(&rt, &device, config.clone(), SequenceSource::default()).await.unwrap();
        let part = Random::new(1).bytes(150_000);
        assert!(part.len() as u64 > 2 * Blocks(16).bytes() && log.room_for_checkpoint(part.len() as u64));
        assert!(!log.room_for_checkpoint(2_000_000));
        let mut writer = log.begin_checkpoint().await.unwrap();
        for part in [part.clone(), b"short".to_vec(), Vec::new()] {
            writer.part(part).await.unwrap();
        }
        writer.finish().await.unwrap();
        let (_, recovered) = MetaLog::open(&rt, &device, config, SequenceSource::default()).await.unwrap();
        assert!(recovered.parts == [&part[..], b"short", b""]);
    });
}

#[test]
fn a_dump_names_blocks_that_are_lost_or_made_up_for() {
    let (seed, image, _) = ends(1).next().unwrap();
    let zone = zones().max_by_key(|&zone| image.zone(zone).written).unwrap();
    let start = image.geometry().start_of(zone);
    let kinds = |unreadable: Vec<Lba>| {
        let image = image.snapshot();
        Sim::new(seed).run(move |rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(Unreadable::new(SimDevice::new(&rt, &image), unreadable));
            let all = dump(&device, &config()).await.unwrap();
            all.into_iter()
                .filter(|record| record.zone == zone)
                .map(|record| (record.block, record.kind))
                .collect::<Vec<_>>()
        })
    };
    assert!(kinds(vec![start]).contains(&(0, "bad block, made up for")));
    assert!(kinds(vec![start, start + Blocks(1)]).contains(&(0, "lost")));
}

/// RC-LOG-5 and RC-LOG-7: a write whose end never reached the drive was not acknowledged. A block of it that cannot be read stops
/// nobody.
#[test]
fn a_torn_write_may_be_unreadable_too() {
    let mut torn = 0;
    for (seed, image, _) in ends(30) {
        let Some(zone) = zones().find(|&zone| image.zone(zone).state.is_open()) else { continue };
        let info = image.zone(zone);
        for blocks in (1..4).filter(|blocks| info.written.0 > blocks + 1) {
            let before = image.snapshot();
            before.truncate_zone(zone, Blocks(info.written.0 - blocks - 1));
            let cut = image.snapshot();
            cut.truncate_zone(zone, Blocks(info.written.0 - blocks));
            let (Ok(before), Ok(whole)) = (reopen(&before, Vec::new()), reopen(&cut, Vec::new())) else { continue };
            // The last block begins a write whose other blocks, its parity at least, are not there.
            if what(&before) == what(&whole) || !before.mended.is_empty() {
                continue;
            }
            let last = info.start + Blocks(info.written.0 - blocks - 1);
            let found = reopen(&cut, vec![last]).unwrap_or_else(|error| panic!("seed {seed}, block {last}: {error}"));
            assert!(what(&found) == what(&before), "seed {seed}, block {last}: something else was found");
            torn += 1;
        }
    }
    assert!(torn > 10, "only {torn} writes were torn");
}
