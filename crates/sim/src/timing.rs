//! How long commands take: a random time, or a modelled drive's.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use shingle_drive_model::{Command, Drive};
use shingle_runtime::Runtime;
use tokio::sync::oneshot;

use crate::seeds::Random;

/// Decides when a command completes.
#[derive(Clone)]
pub(crate) enum Timing {
    /// After a time from 1 ns to this; at once where it is zero.
    Random(Duration),
    /// When the model says.
    Drive(Rc<TimedDrive>),
}

impl Timing {
    /// Waits as long as the command takes, a thousand times as long where it is `slow`.
    pub(crate) async fn wait(self, rt: &Runtime, random: &RefCell<Random>, command: Command, slow: bool) {
        match self {
            Self::Random(most) => {
                let most = most.as_nanos() as u64;
                if most > 0 {
                    let nanos = random.borrow_mut().between(1, most) * if slow { 1000 } else { 1 };
                    rt.sleep(Duration::from_nanos(nanos)).await;
                }
            }
            Self::Drive(drive) => {
                let began = rt.now();
                drive.run(command).await;
                if slow {
                    rt.sleep(rt.now().since(began) * 999).await;
                }
            }
        }
    }
}

/// A modelled drive in virtual time.
pub(crate) struct TimedDrive {
    rt: Runtime,
    drive: RefCell<Drive>,
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    next: Cell<u64>,
    /// When the next look at the drive is due, at the latest.
    alarm: Cell<u64>,
}

impl TimedDrive {
    pub(crate) fn new(rt: &Runtime, drive: Drive) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            drive: RefCell::new(drive),
            waiting: RefCell::default(),
            next: Cell::new(0),
            alarm: Cell::new(u64::MAX),
        })
    }

    /// Completes when the command does. The command is the drive's from the call on, not from the first poll.
    fn run(self: &Rc<Self>, command: Command) -> impl Future<Output = ()> + use<> {
        let id = self.next.get();
        self.next.set(id + 1);
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        self.drive.borrow_mut().submit(self.rt.now().nanos, id, command);
        self.set_alarm();
        async move {
            // Lost only where the simulation ends.
            let _ = receiver.await;
        }
    }

    /// Sees to it that somebody looks at the drive when it next has something to say.
    fn set_alarm(self: &Rc<Self>) {
        let Some(event) = self.drive.borrow().next_event() else { return };
        if event >= self.alarm.get() {
            return;
        }
        self.alarm.set(event);
        let drive = self.clone();
        self.rt.spawn_detached(async move {
            let now = drive.rt.now().nanos;
            drive.rt.sleep(Duration::from_nanos(event.saturating_sub(now))).await;
            drive.look();
        });
    }

    fn look(self: &Rc<Self>) {
        let now = self.rt.now().nanos;
        let mut done = Vec::new();
        self.drive.borrow_mut().advance(now, &mut done);
        let mut waiting = self.waiting.borrow_mut();
        for id in done {
            if let Some(sender) = waiting.remove(&id) {
                // A caller may have gone away; the command is done all the same.
                let _ = sender.send(());
            }
        }
        drop(waiting);
        if self.alarm.get() <= now {
            self.alarm.set(u64::MAX);
        }
        self.set_alarm();
    }
}
