//! Volumes of a server in its reports.

use std::fmt::Write as _;

use crate::reports::health::State;
use crate::volumes::Standing;

/// Lines for people: the state of each volume.
pub(crate) fn lines(volumes: &[Standing]) -> String {
    volumes.iter().map(|volume| volume.health.lines(&[])).collect()
}

/// Figures in the Prometheus text format; nothing where there are no volumes.
pub(crate) fn figures(volumes: &[Standing]) -> String {
    if volumes.is_empty() {
        return String::new();
    }
    let name = "shingle_volume_up";
    let mut text = format!("# HELP {name} 1 if the volume is served.\n# TYPE {name} gauge\n");
    for volume in volumes {
        let label = volume.health.name().trim_start_matches("volume ").replace('\\', "\\\\").replace('"', "\\\"");
        let up = u8::from(volume.health.state() == State::Serving);
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{name}{{volume=\"{label}\"}} {up}");
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::reports::health::Health;

    #[test]
    fn each_volume_has_a_line_and_a_figure() {
        let volume = |name: &str| {
            let health = Health::new(&format!("volume {name}"), watch::channel(()).0);
            Standing { health, uris: Vec::new() }
        };
        let volumes = [volume("vm1"), volume("a\"b")];
        volumes[0].health.serving();
        volumes[1].health.failed(&Error::new(ErrorKind::Drive, "it is gone"));
        assert_eq!(lines(&volumes), "volume vm1: ok\nvolume a\"b: failed: it is gone\n");
        let text = figures(&volumes);
        assert!(text.ends_with("{volume=\"vm1\"} 1\nshingle_volume_up{volume=\"a\\\"b\"} 0\n"), "{text}");
        assert_eq!(figures(&[]), "");
    }
}
