//! The layer: the host's commands, and the places of its pages.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::flash::FlashDrive;
use crate::profile::{PageMapped, Profile};
use crate::translation::hosts::{Hosts, Request};
use crate::translation::managed::{Inside, Layer, Managed, Medium, Work};

use super::clean::{Cleaning, ranges};
use super::map::{NONE, PageMap};
use super::rows::{Front, Rows};

/// Free rows below which the drive cleans, whatever the host does.
const FREE_WHEN_BUSY: usize = 4;

/// Meaning of an internal command.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// A part of a host's command.
    Host(Work),
    Clean,
}

/// A write that waits for a free row.
#[derive(Clone, Debug)]
struct Waiting {
    host: Work,
    pages: Range<u64>,
    through: bool,
}

#[derive(Clone, Debug)]
pub(super) struct PageMappedLayer {
    pub(super) map: PageMap,
    pub(super) rows: Rows,
    pub(super) row_pages: u32,
    /// Most pages that cleaning copies at once: those of all dies, side by side.
    pub(super) part_pages: usize,
    host_front: Front,
    pub(super) copy_front: Front,
    pub(super) cleaning: Option<Cleaning>,
    /// No full row has a dead page, as far as is known.
    pub(super) all_live: bool,
    pub(super) free_when_busy: usize,
    pub(super) free_when_quiet: usize,
    pub(super) idle: Nanos,
    pub(super) last_busy: Nanos,
    waiting: VecDeque<Waiting>,
    pub(super) hosts: Hosts,
    tasks: BTreeMap<Work, Task>,
    next: Work,
    overhead: Nanos,
    interface_ns_block: f64,
    host_pages: u64,
}

/// The drive of a profile with such a layer.
pub(crate) fn drive(profile: &Profile, spec: &PageMapped, host: u64) -> Managed {
    Managed::over(PageMappedLayer::new(profile, spec, host), None, Some(FlashDrive::new(profile)))
}

impl PageMappedLayer {
    pub(super) fn new(profile: &Profile, spec: &PageMapped, host: u64) -> Self {
        let dies = profile.flash.map_or(1, |flash| flash.dies);
        let stripe = profile.flash.map_or(1, |flash| flash.stripe_kib / 4);
        let row_pages = spec.row_pages(dies);
        let rows = spec.rows(host, dies) as u32;
        Self {
            map: PageMap::new(host),
            rows: Rows::new(rows, row_pages),
            row_pages,
            part_pages: (dies * stripe).min(row_pages) as usize,
            host_front: Front::default(),
            copy_front: Front::default(),
            cleaning: None,
            all_live: false,
            free_when_busy: FREE_WHEN_BUSY,
            free_when_quiet: FREE_WHEN_BUSY.max((f64::from(rows) * spec.idle_free) as usize),
            idle: (spec.idle_ms * 1e6) as Nanos,
            last_busy: 0,
            waiting: VecDeque::new(),
            hosts: Hosts::default(),
            tasks: BTreeMap::new(),
            next: 0,
            overhead: (profile.queue.overhead_us * 1e3) as Nanos,
            interface_ns_block: 4096.0 * 1e3 / profile.queue.interface_mb_s,
            host_pages: host,
        }
    }

    pub(super) fn number(&mut self, task: Task) -> Work {
        self.next += 1;
        self.tasks.insert(self.next, task);
        self.next
    }

    /// Sends a part of a host's command to the flash.
    fn run(&mut self, inside: &mut Inside, host: Work, op: Op, at: u64, blocks: u64) {
        self.hosts.one_more(host);
        let work = self.number(Task::Host(host));
        inside.run(Medium::Flash, op, at, blocks, work);
    }

    /// Pages that were never written need no flash.
    fn read(&mut self, inside: &mut Inside, id: CommandId, pages: &Range<u64>) {
        let places = pages.clone().map(|page| self.map.get(page as u32)).filter(|&place| place != NONE);
        let parts = ranges(places);
        if parts.is_empty() {
            let transfer = (self.interface_ns_block * (pages.end - pages.start) as f64) as Nanos;
            inside.complete_in(self.overhead + transfer, id);
            return;
        }
        let host = self.hosts.begin(id, 0);
        for part in parts {
            self.run(inside, host, Op::Read, part.start, part.end - part.start);
        }
    }

    /// Writes what waits, as far as there are rows for it.
    pub(super) fn write_on(&mut self, inside: &mut Inside) {
        while let Some(first) = self.waiting.front().cloned() {
            let Waiting { host, pages, through } = first;
            let places = self.rows.places(&mut self.host_front, (pages.end - pages.start) as u32, 1);
            if places.is_empty() {
                return;
            }
            let end = pages.start + u64::from(places.end - places.start);
            for (page, place) in (pages.start..end).zip(places.clone()) {
                let page = page as u32;
                let before = self.map.set(page, place);
                if before != NONE {
                    self.rows.let_go(before);
                }
                self.rows.put(place, page);
            }
            let op = if through { Op::WriteThrough } else { Op::Write };
            self.run(inside, host, op, u64::from(places.start), u64::from(places.end - places.start));
            if end == pages.end {
                self.waiting.pop_front();
                // The part that stood for what was not sent yet.
                self.hosts.ended(inside, host, 0);
            } else if let Some(first) = self.waiting.front_mut() {
                first.pages.start = end;
            }
        }
    }

    fn trim(&mut self, pages: &Range<u64>) {
        for page in pages.clone() {
            let before = self.map.set(page as u32, NONE);
            if before != NONE {
                self.rows.let_go(before);
            }
        }
    }
}

impl Layer for PageMappedLayer {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        (self.last_busy, self.all_live) = (inside.now(), false);
        match Request::of(&command, self.host_pages) {
            Request::Read(pages) => self.read(inside, id, &pages),
            Request::Write { blocks: pages, through } => {
                let host = self.hosts.begin(id, 1);
                self.waiting.push_back(Waiting { host, pages, through });
                self.write_on(inside);
            }
            Request::Trim(pages) => {
                self.trim(&pages);
                inside.complete_in(self.overhead, id);
            }
            Request::Flush => {
                let host = self.hosts.begin(id, 0);
                self.run(inside, host, Op::Flush, 0, 0);
            }
            Request::Nothing => inside.complete_in(self.overhead, id),
        }
        self.clean(inside);
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        match self.tasks.remove(&work) {
            Some(Task::Host(host)) => {
                self.hosts.ended(inside, host, 0);
                self.last_busy = inside.now();
            }
            Some(Task::Clean) => self.cleaned_step(inside),
            None => {}
        }
    }

    fn alarm(&self) -> Option<Nanos> {
        let more = self.cleaning.is_none() && self.rows.free() < self.free_when_quiet && !self.all_live;
        (more && self.hosts.is_empty()).then_some(self.last_busy + self.idle)
    }

    fn woken(&mut self, inside: &mut Inside) {
        self.clean(inside);
    }

    fn power_failed(&mut self, now: Nanos) {
        self.forget_cleaning();
        self.waiting.clear();
        self.tasks.clear();
        self.hosts = Hosts::default();
        self.last_busy = now;
    }

    fn blocks(&self) -> u64 {
        self.host_pages
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
