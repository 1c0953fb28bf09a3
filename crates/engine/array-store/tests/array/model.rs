//! Long random histories held against a trivial model, with clean restarts between them.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Driver, Model, formatted, open, options, powered, shape};
use shingle_sim::{Random, Sim, SimDevice, seeds};

#[test]
fn agrees_with_a_model() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let mut media = formatted(&shape(&mut random));
        let mut model = Model::default();
        for round in 0..3 {
            let options = options(&mut random);
            let callers = 1 + random.below(5);
            let mut drawn = Random::new(random.number());
            (media, model) = Sim::new(seed + round).run(move |rt| async move {
                let devices = powered(&rt, &media);
                let (store, report) = open(&rt, &devices, options).await;
                let context = format!("seed {seed}, round {round}");
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                model.settle(&store, &context).await;
                let model = Rc::new(RefCell::new(model));
                let drivers: Vec<_> = (0..callers)
                    .map(|caller| Driver {
                        rt: rt.clone(),
                        store: store.clone(),
                        model: model.clone(),
                        random: Random::new(drawn.number()),
                        caller,
                        names: 6,
                        size_max: 200_000,
                        faulty: false,
                    })
                    .map(|driver| rt.spawn(driver.run(60)))
                    .collect();
                for driver in drivers {
                    driver.await.unwrap();
                }
                let mut model = model.borrow().clone();
                model.settle(&store, &format!("{context}, at its end")).await;
                store.close().await.unwrap();
                (devices.iter().map(SimDevice::image).collect(), model)
            });
        }
    }
}
