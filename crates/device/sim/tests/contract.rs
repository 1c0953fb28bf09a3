//! The simulated device keeps the contract that every device keeps.

use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_sim::{Sim, SimDevice, seeds};
use shingle_zoned::contract_suite::{Backend, check, random};
use shingle_zoned::{Geometry, MemoryDevice};

struct Simulated(Runtime);

impl Backend for Simulated {
    type Device = SimDevice;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<SimDevice>> {
        Box::pin(async { Some(SimDevice::new(&self.0, &MemoryDevice::new(geometry.clone()))) })
    }

    fn reopen(&self, device: SimDevice) -> LocalBoxFuture<'_, Option<SimDevice>> {
        Box::pin(async move { Some(SimDevice::new(&self.0, &device.image())) })
    }

    fn reopens_exactly(&self) -> bool {
        true
    }
}

#[test]
fn a_simulated_device_keeps_every_rule() {
    let cases = Sim::new(1).run(|rt| async move { check(&Simulated(rt)).await });
    assert!(cases > 20, "only {cases} cases ran");
}

#[test]
fn random_commands_agree_with_a_naive_model() {
    for seed in seeds(10) {
        Sim::new(seed).run(move |rt| async move { random(&Simulated(rt), seed, 400).await });
    }
}
