//! Times of commands: random, or a modelled drive's.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shingle_drive_model::{Command, CommandId, Drive};
use shingle_runtime::Runtime;

use crate::seeds::Random;

/// Decides when a command completes.
#[derive(Clone)]
pub(crate) enum Timing {
    /// After a time from 1 ns to this; at once if it is zero.
    Random(Duration),
    /// At the time of a modelled drive.
    Drive(Rc<TimedDrive>),
}

impl Timing {
    /// Waits for the time of the command; a thousand times as long if it is `slow`.
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

impl Timing {
    /// Blocks that a power cut now would tear, and the modelled drive when its power is back; none without a modelled drive.
    pub(crate) fn power_cut(&self) -> Option<(Vec<Range<u64>>, Drive)> {
        let Self::Drive(timed) = self else { return None };
        let mut drive = timed.drive.borrow().clone();
        let torn = drive.cut_power(timed.clock(), &mut Vec::new());
        Some((torn, drive))
    }
}

/// A modelled drive in virtual time, without data: commands take as long as on the drive.
pub struct TimedDrive {
    rt: Runtime,
    drive: RefCell<Drive>,
    /// Factor by which its time passes more slowly than the simulation's.
    slower: u64,
    /// Commands in the drive, by the number that it knows them by, which is used again once a command is over.
    commands: RefCell<Vec<InDrive>>,
    free: RefCell<Vec<CommandId>>,
    /// Completions, collected; kept for its memory.
    done: RefCell<Vec<CommandId>>,
    /// When the next look at the drive is due, at the latest.
    alarm: Cell<u64>,
}

/// A command in the drive, and who waits for it.
enum InDrive {
    /// Nobody has asked yet.
    Begun,
    /// A task does.
    Awaited(Waker),
    /// The caller has gone away; the command is done all the same.
    Abandoned,
    /// It is over.
    Done,
}

/// Completes when a command does.
struct Completion {
    drive: Rc<TimedDrive>,
    id: CommandId,
}

impl TimedDrive {
    /// A drive that takes `slower` times as long for everything.
    pub fn new(rt: &Runtime, drive: Drive, slower: u32) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            drive: RefCell::new(drive),
            slower: u64::from(slower.max(1)),
            commands: RefCell::default(),
            free: RefCell::default(),
            done: RefCell::default(),
            alarm: Cell::new(u64::MAX),
        })
    }

    /// Completes when the command does. The command is the drive's from the call on, not from the first poll.
    pub fn run(self: &Rc<Self>, command: Command) -> impl Future<Output = ()> + use<> {
        let id = self.take_number();
        self.drive.borrow_mut().submit(self.clock(), id, command);
        if let Some(event) = self.new_alarm() {
            self.watch(event);
        }
        Completion { drive: self.clone(), id }
    }

    /// Looks at the drive, or sets what may be set while commands are under way: its cache, or a watch on its arm.
    pub fn with<T>(&self, see: impl FnOnce(&mut Drive) -> T) -> T {
        see(&mut self.drive.borrow_mut())
    }

    /// The drive's own time.
    fn clock(&self) -> u64 {
        self.rt.now().nanos / self.slower
    }

    fn take_number(&self) -> CommandId {
        let mut commands = self.commands.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(id) => {
                commands[id as usize] = InDrive::Begun;
                id
            }
            None => {
                commands.push(InDrive::Begun);
                commands.len() as CommandId - 1
            }
        }
    }

    /// Time when the drive must be looked at, unless a look is due before.
    fn new_alarm(&self) -> Option<u64> {
        let event = self.drive.borrow().next_event().filter(|&event| event < self.alarm.get())?;
        self.alarm.set(event);
        Some(event)
    }

    /// Looks at the drive at `event`, and goes on as long as it has events.
    fn watch(self: &Rc<Self>, event: u64) {
        let drive = self.clone();
        self.rt.spawn_detached(async move {
            let mut next = Some(event);
            while let Some(event) = next {
                let due = event.saturating_mul(drive.slower);
                drive.rt.sleep(Duration::from_nanos(due.saturating_sub(drive.rt.now().nanos))).await;
                next = drive.look();
            }
        });
    }

    /// Wakes those whose commands are over, and returns the time of the next look.
    fn look(&self) -> Option<u64> {
        let now = self.clock();
        let mut done = self.done.take();
        self.drive.borrow_mut().advance(now, &mut done);
        for id in done.drain(..) {
            let before = std::mem::replace(&mut self.commands.borrow_mut()[id as usize], InDrive::Done);
            match before {
                InDrive::Awaited(waker) => waker.wake(),
                InDrive::Abandoned => self.free.borrow_mut().push(id),
                InDrive::Begun | InDrive::Done => {}
            }
        }
        self.done.replace(done);
        if self.alarm.get() <= now {
            self.alarm.set(u64::MAX);
        }
        self.new_alarm()
    }
}

impl Future for Completion {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.drive.commands.borrow_mut()[self.id as usize] {
            InDrive::Done => return Poll::Ready(()),
            InDrive::Awaited(waker) => waker.clone_from(context.waker()),
            command => *command = InDrive::Awaited(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let command = &mut self.drive.commands.borrow_mut()[self.id as usize];
        if matches!(command, InDrive::Done) {
            self.drive.free.borrow_mut().push(self.id);
        } else {
            *command = InDrive::Abandoned;
        }
    }
}
