//! A policy at work: its generator is asked for a command, the command is done, and it gets the answer.

use futures_util::FutureExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;
use shingle_translation::Control;
use shingle_translation_layers::Layer;
use tokio::sync::{mpsc, oneshot};

use crate::answer::{Answer, exception};
use crate::command::{Command, Wanted};

/// Commands that a policy may give while no time passes: in a simulation it could go on so for ever.
const COMMANDS_MAX: u32 = 100_000;

/// The error of a policy that gives more.
const ENDLESS: &str = "the policy gives commands without end while no time passes: let it yield control.wait or control.sleep where there \
                       is nothing to do";

/// The next step of a generator.
enum Step {
    Command(Wanted),
    Ended,
}

/// Gives the answer to the last command, and asks for the next one. `None` as an answer begins.
fn step(py: Python<'_>, generator: &Py<PyAny>, answer: Option<StoreResult<Answer>>) -> PyResult<Step> {
    let generator = generator.bind(py);
    let yielded = match answer {
        None => generator.call_method1("send", (py.None(),)),
        Some(Ok(answer)) => generator.call_method1("send", (answer.into_python(py)?,)),
        Some(Err(error)) => generator.call_method1("throw", (exception(&error),)),
    };
    match yielded {
        Ok(command) => match command.cast::<Command>() {
            Ok(command) => Ok(Step::Command(command.get().0.clone())),
            Err(_) => {
                Err(PyTypeError::new_err(format!("a policy yields commands of shingle.control, and not {command}")))
            }
        },
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => Ok(Step::Ended),
        Err(error) => Err(error),
    }
}

/// A volume's cleaner.
pub(crate) enum Cleaner {
    Native(Layer),
    /// A policy's generator.
    Python(Py<PyAny>),
}

impl Cleaner {
    /// The cleaner that a caller names, or makes: a policy is called without arguments.
    pub(crate) fn of(py: Python<'_>, policy: Option<Py<PyAny>>) -> PyResult<Self> {
        let Some(policy) = policy else { return Ok(Self::Native(Layer::default())) };
        match policy.extract::<String>(py) {
            Ok(name) => name.parse().map(Self::Native).map_err(PyValueError::new_err),
            Err(_) => policy.call0(py).map(Self::Python),
        }
    }
}

/// The answer to a command. `None` if the close of the volume broke it off, which is no error of the policy: it ends.
async fn unless_closing(control: &Control, wanted: Wanted) -> Option<StoreResult<Answer>> {
    let done = wanted.run(control).await;
    if done.is_err() && control.closing().now_or_never().is_some() { None } else { Some(done) }
}

/// Runs a policy on the volume's own thread, for simulations: the same run each time.
///
/// # Errors
/// The exception that the policy ended with.
pub(crate) async fn run_here(control: Control, generator: Py<PyAny>) -> PyResult<()> {
    let (mut answer, mut since, mut commands) = (None, control.now(), 0);
    loop {
        let next = Python::attach(|py| step(py, &generator, answer.take()))?;
        let Step::Command(wanted) = next else { return Ok(()) };
        let Some(done) = unless_closing(&control, wanted).await else { return Ok(()) };
        answer = Some(done);
        commands = if control.now() == since { commands + 1 } else { 0 };
        since = control.now();
        if commands == COMMANDS_MAX {
            return Err(PyRuntimeError::new_err(ENDLESS));
        }
    }
}

/// A command of a policy on another thread.
type Asked = (Wanted, oneshot::Sender<StoreResult<Answer>>);

/// Runs a policy on a thread of its own, so that a policy that computes for long, or hangs, holds up nobody. Completes when it ends or the volume
/// closes.
pub(crate) async fn run_beside(rt: Runtime, control: Control, generator: Py<PyAny>) {
    let (sender, mut asked) = mpsc::channel::<Asked>(1);
    let own = rt.clone();
    rt.spawn_detached(async move {
        let policy = own.blocking(move || Python::attach(|py| on_its_thread(py, &generator, &sender)));
        if let Ok(Err(error)) = policy.await {
            Python::attach(|py| error.write_unraisable(py, None));
        }
    });
    loop {
        let next = futures_util::future::select(Box::pin(asked.recv()), Box::pin(control.closing())).await;
        let futures_util::future::Either::Left((Some((wanted, reply)), _)) = next else { return };
        let Some(done) = unless_closing(&control, wanted).await else { return };
        // A policy that is gone hears nothing.
        let _ = reply.send(done);
    }
}

fn on_its_thread(py: Python<'_>, generator: &Py<PyAny>, commands: &mpsc::Sender<Asked>) -> PyResult<()> {
    let mut answer = None;
    loop {
        let Step::Command(wanted) = step(py, generator, answer.take())? else { return Ok(()) };
        let answered = py.detach(|| {
            let (reply, receiver) = oneshot::channel();
            commands.blocking_send((wanted, reply)).ok()?;
            receiver.blocking_recv().ok()
        });
        // The volume is closed.
        let Some(answered) = answered else { return Ok(()) };
        answer = Some(answered);
    }
}
