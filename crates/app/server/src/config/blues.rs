//! Blue stores that a configuration names: where they are, and mistakes.

use super::blue::BlueConfig;
use super::{Config, found_at, validate};
use crate::inventory::DriveName;

impl Config {
    /// The blue stores with absolute paths of their drives.
    pub(crate) fn blues(&self) -> Vec<BlueConfig> {
        let found = |blue: &BlueConfig| {
            let mut blue = blue.clone();
            blue.drive = found_at(&self.data, &blue.drive);
            blue
        };
        self.blues.iter().map(found).collect()
    }

    pub(super) fn find_wrong_blues(&self, wrong: &mut Vec<String>) {
        for (index, blue) in self.blues.iter().enumerate() {
            let (name, class, drive) = (&blue.name, blue.class(), blue.drive.display());
            let mistakes = [validate::name(name), validate::class(class)].into_iter().filter_map(Result::err);
            wrong.extend(mistakes.map(|why| format!("blue store `{name}`: {why}")));
            if *name == self.region {
                wrong.push(format!("blue store `{name}` has the region's name: a bucket's location would mean both"));
            }
            if let Err(error) = DriveName::of_path(&blue.drive) {
                wrong.push(format!("the drive {drive} is impossible: {error}"));
            }
            let before = &self.blues[..index];
            let others = self.arrays.iter().map(|array| (&array.name, array.class()));
            for (other, its) in others.chain(before.iter().map(|other| (&other.name, other.class()))) {
                if other == name {
                    wrong.push(format!("two engines are called `{name}`"));
                } else if its == class {
                    wrong.push(format!("`{other}` and `{name}` have the same class, {class}: give each its own"));
                }
            }
            let in_array = self.arrays.iter().any(|array| array.drives.contains(&blue.drive));
            let in_drives = self.drives.iter().any(|other| other.path == blue.drive);
            let in_volume = self.volumes.iter().any(|volume| volume.drive == blue.drive);
            if in_array || in_drives || in_volume || before.iter().any(|other| other.drive == blue.drive) {
                wrong.push(format!(
                    "the drive {drive} is named for blue store `{name}` and for something else: divide it (`shingle drive partition`)"
                ));
            }
        }
    }
}
