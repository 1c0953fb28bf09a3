//! A trace in a file, of whatever format, or one that is built in, as a source of block I/Os.
//!
//! A trace of another's format is read twice: once for its volumes, their sizes and its first time, and again for its I/Os. So no
//! more than a small part of it is ever in memory. Volumes follow each other in one address space, in the order of their names' first
//! mention, each from a whole MiB on.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::blocks::BlockTrace;
use super::depend::Inferred;
use super::foreign::Format;
use super::io::{IoKind, Ios, SIZE_MAX, Source};
use super::order::{Layout, Mended, Ordered, whole_sectors};
use super::own;
use crate::error::LabError;

/// Alignment of a volume in the address space.
const VOLUME_ALIGN: u64 = 1 << 20;

/// Compressions that are not undone here: the beginning of such a file, and the command that undoes it.
const PACKED: [(&[u8], &str); 3] = [(b"\xfd7zXZ", "xz -dk"), (b"BZh", "bzip2 -dk"), (b"\x28\xb5\x2f\xfd", "zstd -dk")];

/// Parts of a trace, and its form.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Its format; `None`: the one that it names itself.
    pub format: Option<Format>,
    /// The volume that is wanted; `None`: all.
    pub volume: Option<String>,
}

/// A volume of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its first byte in the trace's address space.
    pub base: u64,
    /// Bytes of it that are touched, from its first to the last.
    pub size: u64,
}

/// A trace in a file.
#[derive(Clone, Debug)]
pub struct Input {
    path: PathBuf,
    name: String,
    format: Format,
    infer: bool,
    size: u64,
    begin: u64,
    layout: Layout,
    volumes: Vec<Volume>,
}

impl Input {
    /// Looks at a file, and through it if its format needs that. If there is no such file, it may be the name of a trace that is
    /// [built in](own::ALL).
    ///
    /// # Errors
    /// It cannot be read, or is no trace of that format, or has no such volume.
    pub fn new(path: &Path, selection: &Selection) -> Result<Self, LabError> {
        let stem = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
        let named = |format| Self {
            path: path.to_owned(),
            name: stem.unwrap_or("trace").to_owned(),
            format,
            infer: false,
            size: 0,
            begin: u64::MAX,
            layout: Layout::new(),
            volumes: Vec::new(),
        };
        let mut bytes = named(Format::Shingle).bytes()?;
        let told = bytes.fill_buf().map(Format::told_by);
        let told = told.map_err(|error| named(Format::Shingle).failed(LabError(error.to_string())))?;
        let Some(format) = selection.format.or(told) else {
            let formats = Format::ALL.map(Format::name).join(", ");
            let why = format!("its first bytes name no format: say which one it has with --format ({formats})");
            return Err(named(Format::Shingle).failed(LabError(why)));
        };
        let mut input = named(format);
        drop(bytes);
        input.survey(selection).map_err(|error| input.failed(error))?;
        Ok(input)
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its volumes, in the order of their places; none of the project's own traces, which have one address space.
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    fn failed(&self, error: LabError) -> LabError {
        LabError(format!("the trace {}: {error}", self.path.display()))
    }

    /// The bytes of the file, unpacked if gzip packed them.
    fn bytes(&self) -> Result<Box<dyn BufRead>, LabError> {
        let failed = |error: std::io::Error| self.failed(LabError(error.to_string()));
        let mut file: Box<dyn BufRead> = match File::open(&self.path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => match self.path.to_str().and_then(own::named) {
                Some(own) if error.kind() == ErrorKind::NotFound => Box::new(Cursor::new(own.bytes)),
                _ => return Err(failed(error)),
            },
        };
        let start = file.fill_buf().map_err(failed)?;
        if let Some((_, command)) = PACKED.iter().find(|(mark, _)| start.starts_with(mark)) {
            return Err(
                self.failed(LabError(format!("it is compressed: `{command} {}` undoes that", self.path.display())))
            );
        }
        if start.starts_with(b"\x1f\x8b") {
            return Ok(Box::new(BufReader::new(MultiGzDecoder::new(file))));
        }
        Ok(file)
    }

    /// Finds name, size, first time and volumes.
    fn survey(&mut self, selection: &Selection) -> Result<(), LabError> {
        let Some(mut reader) = self.format.reader(self.bytes()?) else {
            let trace = BlockTrace::read(self.bytes()?)?;
            if let Some(volume) = &selection.volume {
                return Err(LabError(format!(
                    "a trace of format {} has no volumes, and so no `{volume}`",
                    self.format
                )));
            }
            (self.name, self.size) = (trace.head().name.clone(), trace.head().size);
            return Ok(());
        };
        // End and first time of each volume.
        let mut found: Vec<(u64, u64)> = Vec::new();
        while let Some(raw) = reader.next_raw()? {
            if found.len() <= raw.volume {
                found.resize(raw.volume + 1, (0, u64::MAX));
            }
            let (end, first) = &mut found[raw.volume];
            if raw.io.kind != IoKind::Flush {
                let out = || LabError(format!("{} bytes at {}: out of all bounds", raw.io.length, raw.io.offset));
                let (offset, length) = whole_sectors(raw.io.offset, raw.io.length).ok_or_else(out)?;
                *end = (*end).max(offset + length);
            }
            *first = (*first).min(raw.io.at);
        }
        let names = reader.volumes().names();
        for (number, (&(size, first), name)) in found.iter().zip(names).enumerate() {
            if selection.volume.as_ref().is_some_and(|wanted| wanted != name) || first == u64::MAX {
                continue;
            }
            let end =
                self.size.checked_next_multiple_of(VOLUME_ALIGN).and_then(|base| Some((base, base.checked_add(size)?)));
            let Some((base, end)) = end.filter(|&(_, end)| end <= SIZE_MAX) else {
                return Err(LabError(format!("its volumes together have more than {SIZE_MAX} bytes: select one")));
            };
            self.layout.insert(number, base);
            self.volumes.push(Volume { name: name.clone(), base, size });
            self.size = end;
            self.begin = self.begin.min(first);
        }
        match &selection.volume {
            Some(wanted) if self.volumes.is_empty() => {
                let names: Vec<&str> = names.iter().map(String::as_str).take(20).collect();
                Err(LabError(format!("it has no volume `{wanted}`; the first ones are {}", names.join(", "))))
            }
            _ if self.volumes.is_empty() => Err(LabError("it has no I/Os".to_owned())),
            _ => Ok(()),
        }
    }

    /// The same trace, in which dependencies are those that its times allow, and not its own.
    #[must_use]
    pub fn inferring(self) -> Self {
        Self { infer: true, ..self }
    }

    /// Its I/Os, and what had to be mended in them, once they are at an end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open_mended(&self) -> Result<(Ios, Rc<Cell<Mended>>), LabError> {
        let mended = Rc::new(Cell::new(Mended::default()));
        let ios: Ios = match self.format.reader(self.bytes()?) {
            None => {
                let trace = BlockTrace::read(self.bytes()?).map_err(|error| self.failed(error.into()))?;
                Box::new(trace.map(|io| io.map_err(LabError::from)))
            }
            Some(reader) => {
                let (mut ordered, told) = (Ordered::new(reader, self.layout.clone(), self.begin), mended.clone());
                Box::new(std::iter::from_fn(move || {
                    let next = ordered.next();
                    if next.is_none() {
                        told.set(ordered.mended());
                    }
                    next
                }))
            }
        };
        let ios = if self.infer { Box::new(Inferred::new(ios)) } else { ios };
        let input = self.clone();
        Ok((Box::new(ios.map(move |io| io.map_err(|error| input.failed(error)))), mended))
    }
}

impl Source for Input {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn open(&self, _seed: u64) -> Result<Ios, LabError> {
        self.open_mended().map(|(ios, _)| ios)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::trace::blocks::BlockTraceWriter;
    use crate::trace::io::Io;

    /// A file that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Self(path)
        }

        fn input(&self, selection: &Selection) -> Result<Input, LabError> {
            Input::new(&self.0, selection)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn ios(input: &Input) -> Vec<Io> {
        input.open(1).unwrap().map(Result::unwrap).collect()
    }

    /// Disk 0 has 3 MiB and a bit, disk 1 a MiB; times are out of order, and one I/O is of odd bytes.
    const MSR: &str = "50,web,0,Write,3145728,100,5\n10,web,1,Read,0,1048576,5\n20,web,0,Write,4096,0,5\n30,web,1,Write,4096,4096,5\n";

    fn of(format: Format) -> Selection {
        Selection { format: Some(format), ..Selection::default() }
    }

    #[test]
    fn volumes_follow_each_other_and_ios_are_in_order_of_whole_sectors() {
        let file = Scratch::new("two.csv", MSR.as_bytes());
        let input = file.input(&of(Format::Msr)).unwrap();
        let volumes: Vec<_> =
            input.volumes().iter().map(|volume| (volume.name.as_str(), volume.base, volume.size)).collect();
        assert_eq!(volumes, [("web_0", 0, 3_146_240), ("web_1", 4 << 20, 1 << 20)]);
        assert_eq!(input.size_bytes(), 5 << 20);
        let found: Vec<_> = ios(&input).iter().map(|io| (io.at, io.kind, io.offset, io.length)).collect();
        let expected = [
            (0, IoKind::Read, 4 << 20, 1 << 20),
            (2_000, IoKind::Write, (4 << 20) + 4096, 4096),
            (4_000, IoKind::Write, 3 << 20, 512),
        ];
        assert_eq!(found, expected);
        let (all, mended) = input.open_mended().unwrap();
        assert_eq!(all.count(), 3);
        assert_eq!(mended.get(), Mended { left_out: 1, rounded: 1, late: 0 });
        let one = file.input(&Selection { volume: Some("web_1".to_owned()), ..of(Format::Msr) }).unwrap();
        assert_eq!((ios(&one).len(), one.size_bytes()), (2, 1 << 20));
        let none = file.input(&Selection { volume: Some("x".to_owned()), ..of(Format::Msr) }).unwrap_err().0;
        assert!(none.contains("no volume `x`") && none.contains("web_0, web_1"), "{none}");
        let inferred = ios(&input.inferring());
        let after: Vec<_> = inferred.iter().map(|io| io.after.clone()).collect();
        assert_eq!(after, [vec![], vec![1], vec![1]]);
    }

    #[test]
    fn what_stands_far_behind_its_time_arrives_late() {
        let mut text: String = (0..5000).map(|at| format!("{},w,0,Read,0,512,1\n", 100 + at)).collect();
        text.push_str("50,w,0,Read,0,512,1\n");
        let input = Scratch::new("late.csv", text.as_bytes()).input(&of(Format::Msr));
        // The file is gone by now, and each opening says so.
        assert!(input.unwrap().open(1).is_err_and(|error| error.0.contains("late.csv")));
        let file = Scratch::new("late.csv", text.as_bytes());
        let (all, mended) = file.input(&of(Format::Msr)).unwrap().open_mended().unwrap();
        let times: Vec<u64> = all.map(|io| io.unwrap().at).collect();
        assert!(times.is_sorted() && times.len() == 5001);
        assert_eq!(mended.get().late, 1);
    }

    #[test]
    fn a_trace_says_its_format_or_must_be_told_and_may_be_packed() {
        let mut writer = BlockTraceWriter::begin(Vec::new(), "mine", 1 << 20).unwrap();
        writer.write(&Io::new(7, IoKind::Write, 0, 4096)).unwrap();
        let (text, _) = writer.end().unwrap();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&text).unwrap();
        let packed = Scratch::new("own.trace.gz", &packed.finish().unwrap());
        for file in [&Scratch::new("own.trace", &text), &packed] {
            let input = file.input(&Selection::default()).unwrap();
            assert_eq!((input.name(), input.size_bytes(), input.format()), ("mine", 1 << 20, Format::Shingle));
            assert_eq!(ios(&input), [Io::new(7, IoKind::Write, 0, 4096)]);
        }
        let refused =
            |name: &str, bytes: &[u8], selection: &Selection| Scratch::new(name, bytes).input(selection).unwrap_err().0;
        let error = refused("unknown.csv", MSR.as_bytes(), &Selection::default());
        assert!(error.contains("--format") && error.contains("blkparse") && error.contains("unknown.csv"), "{error}");
        let error = refused("x.xz", b"\xfd7zXZ\0rest", &of(Format::Msr));
        assert!(error.contains("xz -dk"), "{error}");
        let first = b"shingle-trace 1 some 2048 10 2\nW 7 1 0\n";
        let error = refused("first.trace", first, &of(Format::Shingle));
        assert!(error.contains("trace convert"), "{error}");
        let migrated = Scratch::new("first.trace", first);
        assert_eq!(ios(&migrated.input(&Selection::default()).unwrap()), [Io::new(0, IoKind::Write, 7 * 4096, 4096)]);
        let error = refused("empty.csv", b"", &of(Format::Msr));
        assert!(error.contains("no I/Os"), "{error}");
    }
}
