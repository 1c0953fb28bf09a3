//! The parts of the server that its reports are about, and the answers of its engines.
//!
//! # Invariants
//! - SV-LIVE-1: an engine that hangs ends no other: the service manager hears that the process lives as long as any open
//!   engine answers, or none is open. `one_engine_that_hangs_is_told_and_ends_no_other`.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;
use shingle_array_objects::ArrayFigures;
use shingle_array_store::Condition;
use shingle_blue_objects::BlueFigures;
use shingle_object_store::{ObjectStats, Standing as DriveStanding};
use shingle_runtime::memory::Memory;
use shingle_s3_gateway::GatewayMetrics;
use shingle_store_api::{ObjectStore, StoreUsage};
use tokio::sync::Semaphore;

use crate::engines::drive::DriveView;
use crate::engines::keeper::{self, Engine, Kind};
use crate::engines::scrub;
use crate::reports::access_log::AccessNotes;
use crate::reports::damage::Damage;
use crate::reports::gauges::Gauges;
use crate::reports::health::{Missing, PATIENCE, State};
use crate::volumes::Standing;

/// Parts of the server that reports are about.
pub(crate) struct Watched {
    pub(crate) gateway: Arc<GatewayMetrics>,
    /// The store that is served.
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) engines: Vec<Arc<Engine>>,
    pub(crate) volumes: Vec<Standing>,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) started_unix_s: u64,
    /// Memory for bodies, of which `limits.memory` tells.
    pub(crate) memory: Arc<Memory>,
    /// Notes about changes that commands make.
    pub(crate) access: Option<AccessNotes>,
    /// Places for questions through the data directory. (SV-ASK-3)
    pub(crate) seats: Arc<Semaphore>,
}

/// Answers of the engines.
pub(crate) struct Answers(pub(crate) Vec<Answer>);

/// Answer of one engine.
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) missing: Vec<Missing>,
    pub(crate) damage: Arc<Damage>,
    /// `None` while it is not open, or did not answer.
    pub(crate) figures: Option<Figures>,
    /// Results of verifying an array in the background, as long as it is open.
    pub(crate) scrub: Option<scrub::Figures>,
    /// The commands of its drives, while it is open.
    pub(crate) gauges: Vec<(String, Arc<Gauges>)>,
    /// The drives of an array, as far as it answers.
    pub(crate) condition: Option<Condition>,
    lines: String,
}

/// Figures of an engine.
pub(crate) enum Figures {
    Objects(Box<(ObjectStats, StoreUsage)>, Vec<DriveView>),
    Array(Box<ArrayFigures>),
    Blue(Box<BlueFigures>),
}

impl Answers {
    pub(crate) async fn of(watched: &Watched) -> Self {
        Self(join_all(watched.engines.iter().map(|engine| Answer::of(engine))).await)
    }

    /// True if each engine serves and answers. An engine that serves without a drive counts.
    pub(crate) fn all_serve(&self) -> bool {
        self.0.iter().all(|answer| answer.figures.is_some())
    }

    /// Engines that are open and do not answer.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &str> {
        let silent = |answer: &&Answer| answer.state == State::Serving && answer.figures.is_none();
        self.0.iter().filter(silent).map(|answer| answer.name.as_str())
    }

    /// True if a restart would disturb no client: of the open engines, none answers. (SV-LIVE-1)
    pub(crate) fn is_dead(&self) -> bool {
        self.silent().next().is_some() && !self.0.iter().any(|answer| answer.figures.is_some())
    }

    /// Objects in the largest engine that answers.
    pub(crate) fn objects_max(&self) -> u64 {
        let objects = |answer: &Answer| match &answer.figures {
            Some(Figures::Objects(figures, _)) => figures.1.objects,
            Some(Figures::Array(figures)) => figures.objects,
            Some(Figures::Blue(figures)) => figures.objects,
            None => 0,
        };
        self.0.iter().map(objects).max().unwrap_or(0)
    }

    /// Lines for people: "ok" alone, or the problems.
    pub(crate) fn lines(&self) -> String {
        let mut lines: String = self.0.iter().map(|answer| answer.lines.as_str()).collect();
        if self.all_serve() {
            lines.insert_str(0, "ok\n");
        }
        lines
    }
}

impl Answer {
    async fn of(engine: &Engine) -> Self {
        let watched = engine.watched();
        let scrub = match &watched {
            Some(keeper::Watched::Array(array)) => Some(*array.scrub.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        };
        let gauges = match &watched {
            Some(keeper::Watched::Array(array)) => array.gauges.clone(),
            Some(keeper::Watched::Blue(blue)) => vec![blue.gauges.clone()],
            Some(keeper::Watched::Objects(_, drives)) => {
                drives.iter().map(|drive| (drive.path.display().to_string(), drive.gauges.clone())).collect()
            }
            None => Vec::new(),
        };
        let figures = match watched {
            None => None,
            Some(watched) => tokio::time::timeout(PATIENCE, Figures::of(watched)).await.ok().flatten(),
        };
        let condition = if figures.is_some() { engine.condition(false).await } else { None };
        let (name, state) = (engine.health.name().to_owned(), engine.health.state());
        let mut missing = engine.health.missing();
        if let Some(condition) = &condition {
            // An array that has rebuilt a drive's data does not miss it any more.
            missing.retain(|missing| condition.drives.iter().any(|drive| !drive.up && missing.is(&drive.name)));
        }
        let mut lines = engine.health.lines(&missing);
        match &figures {
            None if state == State::Serving => lines += &format!("{name}: does not answer\n"),
            Some(figures) => lines += &figures.troubles(&name),
            None => {}
        }
        let damage = engine.damage.clone();
        Self { name, kind: engine.kind, state, missing, damage, figures, scrub, gauges, condition, lines }
    }
}

#[cfg(test)]
use shingle_array_store::DriveCondition;

#[cfg(test)]
impl Answer {
    pub(crate) fn for_test(name: &str, kind: Kind, figures: Option<Figures>) -> Self {
        let is_array = kind == Kind::Array;
        let lines = figures.as_ref().map_or(String::new(), |figures| figures.troubles(name));
        let (missing, scrub) = (Vec::new(), is_array.then(scrub::Figures::default));
        let gauges = vec![(format!("disk of {name}"), Arc::default())];
        let drive = DriveCondition { name: "a \"b\"\n".to_owned(), up: false, leaving: false, slow: true };
        let condition = is_array.then(|| Condition { drives: vec![drive], ..Condition::default() });
        Self {
            name: name.to_owned(),
            kind,
            state: State::Serving,
            missing,
            damage: Arc::default(),
            figures,
            scrub,
            gauges,
            condition,
            lines,
        }
    }
}

/// An array's problems with its drives, in words.
fn degraded(name: &str, figures: &ArrayFigures) -> String {
    let ArrayFigures { array, .. } = figures;
    let mut lines = String::new();
    if array.drives_missing > 0 {
        lines += &format!("{name}: degraded: {} of {} drives missing\n", array.drives_missing, array.drives);
    }
    if array.drives_slow > 0 {
        lines += &format!("{name}: degraded: {} of {} drives slow\n", array.drives_slow, array.drives);
    }
    lines
}

impl Figures {
    /// Problems with drives, a line each.
    fn troubles(&self, name: &str) -> String {
        match self {
            Self::Objects(_, drives) => {
                let troubles = drives.iter().filter_map(DriveView::trouble);
                troubles.map(|trouble| format!("{name}: degraded: {trouble}\n")).collect()
            }
            Self::Array(figures) => degraded(name, figures),
            Self::Blue(_) => String::new(),
        }
    }

    async fn of(watched: keeper::Watched) -> Option<Self> {
        match watched {
            keeper::Watched::Objects(client, mut drives) => {
                let (stats, usage, standings) =
                    tokio::try_join!(client.stats(), client.usage(), client.standings()).ok()?;
                for drive in &mut drives {
                    let met = standings.iter().find(|(store, _)| *store == drive.store);
                    drive.standing = met.map_or(DriveStanding::Ended, |(_, standing)| *standing);
                }
                Some(Self::Objects(Box::new((stats, usage)), drives))
            }
            keeper::Watched::Array(array) => Some(Self::Array(Box::new(array.client.figures().await.ok()?))),
            keeper::Watched::Blue(blue) => Some(Self::Blue(Box::new(blue.client.figures().await.ok()?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-LIVE-1.
    #[test]
    fn one_engine_that_hangs_is_told_and_ends_no_other() {
        let array = |name: &str, answers: bool| {
            Answer::for_test(name, Kind::Array, answers.then(|| Figures::Array(Box::default())))
        };
        let answers = Answers(vec![array("one", true), array("two", false)]);
        assert!(!answers.is_dead() && !answers.all_serve());
        assert_eq!(answers.silent().collect::<Vec<_>>(), ["two"]);
        assert!(Answers(vec![array("one", false), array("two", false)]).is_dead());
        let opening = || Answer { state: State::Opening("x".to_owned()), ..array("three", false) };
        assert!(!Answers(vec![opening()]).is_dead());
        assert!(Answers(vec![opening(), array("two", false)]).is_dead());
    }
}
