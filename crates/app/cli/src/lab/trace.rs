//! `shingle lab trace`: block traces of other formats made this project's, and any of them told in figures.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use shingle_lab::trace::blocks::BlockTraceWriter;
use shingle_lab::trace::foreign::Format;
use shingle_lab::trace::input::{Input, Selection, Volume};
use shingle_lab::trace::io::Source;
use shingle_lab::trace::order::Mended;
use shingle_lab::trace::own;
use shingle_lab::trace::stat::{Counter, Kind, Stat as Figures};

use crate::failure::{Failure, Outcome};
use crate::output::{Progress, size};

/// I/Os between two looks at the clock.
const TELL_EACH: u64 = 65_536;

/// Convert block traces, and tell their figures: `shingle lab trace stat web.csv --format msr`
#[derive(Subcommand)]
pub(crate) enum Trace {
    /// Convert a trace to this project's format (docs/formats/block-trace.md): `shingle lab trace convert web.csv web.trace.gz --format msr`
    Convert(Convert),
    /// Tell kinds, sizes, sequentiality, working set and arrivals of a trace: `shingle lab trace stat web.trace.gz`
    Stat(Stat),
    /// List the traces that are built in, whose names do as well as a file's: `shingle lab trace list`
    List,
}

/// A trace in a file.
#[derive(Args)]
pub(crate) struct TraceFile {
    /// The trace, or the name of one that is built in (`shingle lab trace list`). One that gzip compressed is read as it is.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format: shingle, shingle-zoned, msr, vscsi, spc, srt, blkparse or tencent [default: the one that its first bytes name]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The only volume to take [default: all, one behind the other]
    #[arg(long, value_name = "VOLUME")]
    volume: Option<String>,
}

impl TraceFile {
    fn open(&self) -> Outcome<Input> {
        Ok(Input::new(&self.file, &Selection { format: self.format, volume: self.volume.clone() })?)
    }
}

/// Converts a trace.
#[derive(Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    from: TraceFile,
    /// The new trace, which gzip compresses if the name ends in .gz.
    #[arg(value_name = "FILE")]
    out: PathBuf,
    /// Let each I/O depend on the one that completed last before it arrived, where the trace says how long I/Os took: a replay in a
    /// closed loop needs dependencies.
    #[arg(long)]
    infer_dependencies: bool,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
    /// Print JSON as the last line.
    #[arg(long)]
    json: bool,
}

/// Tells the figures of a trace.
#[derive(Args)]
pub(crate) struct Stat {
    #[command(flatten)]
    from: TraceFile,
    /// Print JSON as the last line.
    #[arg(long)]
    json: bool,
}

impl Trace {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Convert(convert) => convert.run(),
            Self::Stat(stat) => stat.run(),
            Self::List => {
                own::ALL.iter().for_each(|own| say!("{:<14} {}", own.name, own.about));
                Ok(())
            }
        }
    }
}

/// A volume, as programs read it.
#[derive(Serialize)]
struct VolumeJson<'a> {
    name: &'a str,
    base: u64,
    size: u64,
}

fn volumes(input: &Input) -> Vec<VolumeJson<'_>> {
    let all = input.volumes().iter();
    all.map(|Volume { name, base, size }| VolumeJson { name, base: *base, size: *size }).collect()
}

/// A conversion, as programs read it.
#[derive(Serialize)]
struct Converted<'a> {
    format: &'static str,
    ios: u64,
    size: u64,
    volumes: Vec<VolumeJson<'a>>,
    left_out: u64,
    rounded: u64,
    late: u64,
}

impl Convert {
    fn run(self) -> Outcome {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.out.display()));
        if self.out.exists() && !self.force {
            return Err(Failure::new(format!("{} is there: --force writes over it", self.out.display())));
        }
        let mut input = self.from.open()?;
        if self.infer_dependencies {
            input = input.inferring();
        }
        // Under its name only once it is whole.
        let mut part = self.out.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = BufWriter::new(File::create(&part).map_err(failed)?);
        let written = if self.out.extension().is_some_and(|extension| extension == "gz") {
            let packed = self.write(&input, GzEncoder::new(file, Compression::default()));
            packed.and_then(|(out, ios, mended)| out.finish().map_err(failed).map(|out| (out, ios, mended)))
        } else {
            self.write(&input, file)
        };
        let written = written.and_then(|(mut out, ios, mended)| {
            out.flush().map_err(failed)?;
            std::fs::rename(&part, &self.out).map_err(failed)?;
            Ok((ios, mended))
        });
        if written.is_err() {
            // The failure is told; a part that cannot be removed is only in the way.
            let _ = std::fs::remove_file(&part);
        }
        let (ios, mended) = written?;
        self.tell(&input, ios, mended)
    }

    fn write<W: Write>(&self, input: &Input, out: W) -> Outcome<(W, u64, Mended)> {
        let mut writer = BlockTraceWriter::begin(out, input.name(), input.size_bytes())?;
        let mut progress = Progress::new();
        let (ios, mended) = input.open_mended()?;
        for (number, io) in (1..).zip(ios) {
            writer.write(&io?)?;
            if number % TELL_EACH == 0 {
                progress.show(&format!("{number} I/Os"));
            }
        }
        let (out, ios) = writer.end()?;
        Ok((out, ios, mended.get()))
    }

    fn tell(&self, input: &Input, ios: u64, mended: Mended) -> Outcome {
        let Mended { left_out, rounded, late } = mended;
        if self.json {
            let format = input.format().name();
            let json =
                Converted { format, ios, size: input.size_bytes(), volumes: volumes(input), left_out, rounded, late };
            say!("{}", serde_json::to_string(&json).unwrap_or_default());
            return Ok(());
        }
        say!("{ios} I/Os on {} are in {}", size(input.size_bytes()), self.out.display());
        tell_volumes(input);
        for (count, what) in [
            (left_out, "records are left out: they are no I/O, or of no bytes"),
            (rounded, "I/Os were not of whole sectors, and are now"),
            (late, "I/Os stood too far behind their time, and arrive late"),
        ] {
            if count > 0 {
                say!("{count} {what}");
            }
        }
        Ok(())
    }
}

fn tell_volumes(input: &Input) {
    if input.volumes().len() > 1 {
        say!("volumes, one behind the other:");
        for volume in input.volumes().iter().take(20) {
            say!("  {:<20} {} from byte {}", volume.name, size(volume.size), volume.base);
        }
        let more = input.volumes().len().saturating_sub(20);
        if more > 0 {
            say!("  and {more} more");
        }
    }
}

/// Figures of a trace, as programs read them.
#[derive(Serialize)]
struct StatJson<'a> {
    name: &'a str,
    format: &'static str,
    size: u64,
    volumes: Vec<VolumeJson<'a>>,
    #[serde(flatten)]
    figures: &'a Figures,
}

impl Stat {
    fn run(self) -> Outcome {
        let input = self.from.open()?;
        let (mut counter, mut progress) = (Counter::default(), Progress::new());
        for (number, io) in (1..).zip(input.open(0)?) {
            counter.take(&io?);
            if number % TELL_EACH == 0 {
                progress.show(&format!("{number} I/Os"));
            }
        }
        let figures = counter.stat();
        if self.json {
            let (name, format) = (input.name(), input.format().name());
            let json = StatJson { name, format, size: input.size_bytes(), volumes: volumes(&input), figures: &figures };
            say!("{}", serde_json::to_string(&json).unwrap_or_default());
            return Ok(());
        }
        tell(&input, &self.from.file, &figures);
        Ok(())
    }
}

fn tell(input: &Input, file: &Path, stat: &Figures) {
    say!("{}: {} I/Os of format {} on {}", file.display(), stat.ios, input.format(), size(input.size_bytes()));
    tell_volumes(input);
    for (what, Kind { ios, bytes, share_percent, mean_bytes, sequential_percent }) in
        [("reads", stat.reads), ("writes", stat.writes)]
    {
        say!(
            "{what:<14} {ios} ({share_percent:.1} %), {}, mean {:.1} KiB, {sequential_percent:.1} % sequential",
            size(bytes),
            mean_bytes / 1024.0
        );
    }
    say!(
        "others         {} flushes, {} trims, {} ranges of zeros; {} are durable by themselves",
        stat.flushes,
        stat.trims,
        stat.zeros,
        stat.fua
    );
    say!(
        "working set    {}, of which {} are written, each page {:.1} times",
        size(stat.footprint_bytes),
        size(stat.written_footprint_bytes),
        stat.writes_per_page
    );
    say!(
        "arrivals       {:.0} s, {:.1} a second, at most {} in one; from one to the next {:.3} ms (p50), {:.3} ms (p99)",
        stat.seconds,
        stat.rate,
        stat.busiest_second,
        stat.gap_p50_ms,
        stat.gap_p99_ms
    );
    say!("recorded       {} times, {} with dependencies", stat.timed, stat.dependent);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSR: &str = "50,web,0,Write,8192,100,5\n10,web,1,Read,0,4096,5\n90,web,0,Write,0,0,5\n";

    #[test]
    fn a_trace_is_converted_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("shingle-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, out) = (folder.join("web.csv"), folder.join("web.trace.gz"));
        let convert = |text: &str, force: bool| {
            std::fs::write(&file, text).unwrap();
            let from = TraceFile { file: file.clone(), format: Some(Format::Msr), volume: None };
            Convert { from, out: out.clone(), infer_dependencies: true, force, json: true }.run()
        };
        let wrong = convert(&format!("{MSR}nonsense\n"), false).unwrap_err();
        assert!(wrong.message.contains("line 4") && wrong.message.contains("web.csv"), "{}", wrong.message);
        convert(MSR, false).unwrap();
        let there = convert(MSR, false).unwrap_err();
        assert!(there.message.contains("--force"), "{}", there.message);
        let before = std::fs::read(&out).unwrap();
        convert("x", true).unwrap_err();
        assert_eq!(std::fs::read(&out).unwrap(), before);
        convert(MSR, true).unwrap();
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        let input = TraceFile { file: out, format: None, volume: None }.open().unwrap();
        let ios: Vec<_> = input.open(0).unwrap().map(Result::unwrap).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((input.name(), input.size_bytes()), ("web", (1 << 20) + 4096));
        let found: Vec<_> = ios.iter().map(|io| (io.at, io.offset, io.length, io.after.len())).collect();
        assert_eq!(found, [(0, 1 << 20, 4096, 0), (4000, 8192, 512, 1)]);
    }
}
