//! A configuration as it is read.

use super::*;

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let text = "log = \"verbose\"\nregion = \"a b\"\n[[drive]]\npath = \"uuid:12\"\n[[array]]\nname = \"a\"";
    let said = Config::parse(text).unwrap_err().message;
    for word in ["verbose", "region", "identifier", "name its file"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(said.lines().count(), 4);
}

/// SV-READ-1
#[test]
fn each_mistake_of_a_file_is_told_once_with_its_line() {
    let text = r#"
listen = 9000
listen_port = 9000
log = "verbose"
index_cache = true

[limits]
connections = "many"
memory = "1 MiB"
memroy = 5

[[drive]]
create = { zones = 4 }

[[drive]]
path = 5
colour = "red"
create = { zones = "x", shape = 1 }

[[drive]]
path = "x"
[[drive]]
path = "x"

[[array]]
drives = ["y", 5]
name = "a"

[[drive]]
create = { zones = false }
"#;
    let said = Config::parse(text).unwrap_err().message;
    let expected = [
        "line 2: listen: ",
        "line 3: listen_port: unknown field",
        "line 5: index_cache: invalid type: boolean `true`, expected a number of bytes, or text such as `256 MiB`",
        "line 8: limits.connections: invalid type: string \"many\", expected a whole number",
        "line 10: limits.memroy: unknown field",
        "line 12: drive: missing field `path`",
        "line 16: drive.path: ",
        "line 17: drive.colour: unknown field",
        "line 18: drive.create.zones: ",
        "line 18: drive.create.shape: unknown field",
        "line 26: array.drives: ",
        "line 29: drive: missing field `path`",
        "line 30: drive.create.zones: ",
        "the drive x is named twice",
        "`verbose` is no level",
    ];
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{line}: {expected}");
    }
    let types = [" u32", " u64", "usize", "struct ", "enum ", "PathBuf"];
    assert!(types.iter().all(|name| !said.contains(name)), "{said}");
}

#[test]
fn all_mistakes_of_syntax_are_told() {
    let said = Config::parse("region = \"a\nlog == \"info\"\n[limits\nconnections = 1\n").unwrap_err().message;
    let lines: Vec<_> = said.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["line 1", "line 2", "line 3"], "{said}");
}

/// Mistakes in the files of several arrays are reported together.
#[test]
fn the_files_of_arrays_are_all_looked_at() {
    let folder = std::env::temp_dir().join(format!("shingle-array-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.toml"), "drives = 5\nbufer = []\n").unwrap();
    std::fs::write(folder.join("b.toml"), "drives = [\"x\", \"x\"]\n").unwrap();
    let array = |name: &str| {
        format!("[[array]]\nname = \"{name}\"\nclass = \"{}\"\nfile = \"{name}.toml\"\n", name.to_uppercase())
    };
    let mut config = Config::parse(&[array("a"), array("b")].concat()).unwrap();
    config.data = folder.clone();
    let said = config.arrays().unwrap_err().message;
    std::fs::remove_dir_all(&folder).unwrap();
    for word in ["line 1: drives: ", "line 2: bufer", "b.toml: ", "named twice"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("missing"), "it is there: {said}");
}

#[test]
fn a_drive_of_a_volume_is_in_no_array_that_a_file_describes() {
    let folder = std::env::temp_dir().join(format!("shingle-array-volume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.toml"), "drives = [\"x\", \"y\"]\n").unwrap();
    let mut config = Config::parse("[[array]]\nname = \"a\"\nfile = \"a.toml\"\n[[volume]]\ndrive = \"y\"").unwrap();
    config.data = folder.clone();
    let said = config.arrays().unwrap_err().message;
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(said.contains("array `a` and for [[volume]]"), "{said}");
}

#[test]
fn levels_of_the_log_are_known_words() {
    for text in ["info", "off", "WARN", "info,shingle_object_store=debug", "error, s3s=trace"] {
        assert!(Config::parse(&format!("log = \"{text}\"")).is_ok(), "{text}");
    }
}

#[test]
fn everything_can_be_left_out() {
    let config = Config::parse("").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
    assert!(config.admin.is_none());
    let drives = config.drives();
    assert_eq!(drives.len(), 2);
    assert_eq!(drives[0].path, Path::new("shingle-data/drive-0.zoned"));
    assert!(Shape::default().geometry().is_ok());
}

#[test]
fn everything_can_be_set() {
    let text = r#"
        listen = "[::1]:9000"
        data = "/srv/shingle"
        region = "eu-test-1"
        domain = "s3.test"
        log = "debug"
        access_log = "access.jsonl"
        admin = "127.0.0.1:9001"
        allow_missing_drives = true
        drive_wait = "2 min"
        index_cache = 1048576
        [[drive]]
        path = "a.zoned"
        [[drive]]
        path = "/mnt/b.zoned"
        create = { zone_size = "64 MiB", zone_capacity = "48 MiB", zones = 32, conventional_zones = 0, open_zones_max = 14, active_zones_max = 14 }
        [limits]
        connections = 8
        memory = "64 MiB"
        head_timeout_s = 1
        stall_timeout_s = 2
        reader_rate_min = "4 KiB"
        writer_rate_min = 0
        shutdown_grace_s = 3
    "#;
    let config = Config::parse(text).unwrap();
    let drives = config.drives();
    assert_eq!(drives[0].path, Path::new("/srv/shingle/a.zoned"));
    assert_eq!(drives[1].path, Path::new("/mnt/b.zoned"));
    let geometry = drives[1].create.unwrap().geometry().unwrap();
    assert_eq!(geometry.zone_capacity.bytes(), 48 << 20);
    assert_eq!(geometry.active_zones_max, Some(14));
    assert_eq!(config.access_log(), Some(Destination::File("/srv/shingle/access.jsonl".into())));
    assert_eq!(config.drive_wait, Some(Duration::from_secs(120)));
    assert_eq!((config.limits.reader_rate_min, config.limits.writer_rate_min), (4096, 0));
    assert_eq!((config.limits.memory, config.memory().share()), (64 << 20, 1364 << 10));
}

#[test]
fn names_of_drives_are_not_looked_for_in_the_data_directory() {
    let config = Config::parse("[[drive]]\npath = \"serial:Z1\"\n[[drive]]\npath = \"./serial:Z1\"").unwrap();
    let drives = config.drives();
    assert_eq!(drives[0].path, Path::new("serial:Z1"));
    assert_eq!(drives[1].path, Path::new("shingle-data/./serial:Z1"));
}

#[test]
fn with_arrays_no_drives_are_made_and_no_drive_is_in_two_places() {
    let config = Config::parse("[[array]]\nname = \"shelf\"\ndrives = [\"x\", \"serial:Z1\"]").unwrap();
    assert!(config.drives().is_empty());
    let arrays = config.arrays().unwrap();
    assert_eq!(arrays[0].drives, [Path::new("shingle-data/x"), Path::new("serial:Z1")]);
    assert_eq!((arrays[0].class(), arrays[0].degraded, arrays[0].rebuild_rate), ("STANDARD_IA", true, None));
    let rate = "[[array]]\nname = \"shelf\"\ndrives = [\"x\"]\nrebuild_rate = \"50 MiB\"";
    assert_eq!(Config::parse(rate).unwrap().arrays().unwrap()[0].rebuild_rate, Some(50 << 20));
    let scrub = |text: &str| {
        let text = format!("[[array]]\nname = \"shelf\"\ndrives = [\"x\"]\n{text}");
        Config::parse(&text).map(|config| config.arrays[0].scrub_interval.map(|time| time.as_secs()))
    };
    assert_eq!(scrub("").unwrap(), Some(30 * 24 * 3600));
    for (text, seconds) in
        [("90 days", 90 * 24 * 3600), ("1 day", 86_400), ("12h", 43_200), ("2 s", 2), ("1week", 604_800)]
    {
        assert_eq!(scrub(&format!("scrub_interval = \"{text}\"")).unwrap(), Some(seconds), "{text}");
    }
    assert_eq!(scrub("scrub_interval = \"off\"").unwrap(), None);
    for wrong in ["", "30", "days", "0 days", "-1 day", "3 months", "1000000 days", "99999999999999999999 s"] {
        assert!(scrub(&format!("scrub_interval = \"{wrong}\"")).unwrap_err().message.contains("no time"), "{wrong}");
    }
    let shared = "[[drive]]\npath = \"x\"\n[[array]]\nname = \"shelf\"\ndrives = [\"x\"]";
    assert!(Config::parse(shared).unwrap().arrays().unwrap_err().message.contains("[[drive]]"));
    let shared = "[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"b\"\nclass = \"B\"\ndrives = [\"x\"]";
    assert!(Config::parse(shared).unwrap().arrays().unwrap_err().message.contains("array `a`"));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let cases = [
        ("listen = \"127.0.0.1:9000\"\nlisten_port = 1", "line 2", "listen_port"),
        ("\n\nlisten = \"nowhere\"", "line 3", "socket address"),
        ("index_cache = \"12 parsecs\"", "line 1", "12 parsecs"),
        ("[[drive]]\npath = \"x\"\ncreate = { zones = 4, colour = 1 }", "line 3", "colour"),
        ("[limits]\nconnections = \"many\"", "line 2", "many"),
        ("listen = ", "line 1", ""),
    ];
    for (text, line, word) in cases {
        let error = Config::parse(text).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Config);
        assert!(error.message.contains(line) && error.message.contains(word), "{text}: {error}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cases = [
        ("[[drive]]\npath = \"x\"\n[[drive]]\npath = \"x\"", "twice"),
        ("[[drive]]\npath = \"x\"\ncreate = { zone_size = 5000 }", "multiple"),
        ("[[drive]]\npath = \"x\"\ncreate = { zones = 2, conventional_zones = 3 }", "more conventional"),
        ("[[drive]]\npath = \"uuid:12\"", "identifier"),
        ("[[drive]]\npath = \"serial:\"", "without a serial"),
        ("[[drive]]\npath = \"serial:Z1\"\ncreate = { zones = 64 }", "only emulated"),
        ("region = \"a b\"", "region"),
        ("limits = { connections = 0 }", "nobody"),
        ("limits = { memory = \"16 MiB\" }", "too little for 1024 connections: 128 MiB"),
        ("limits = { stall_timeout_s = 0 }", "stall_timeout_s is 0"),
        ("limits = { head_timeout_s = 0 }", "head_timeout_s is 0"),
        ("domain = \"s3.example.com:9000\"", "no domain name"),
        ("log = \"verbose\"", "`verbose` is no level"),
        ("log = \"info,shingle_server=loud\"", "`loud` is no level"),
        ("log = \"\"", "no level"),
        ("log = \"3\"", "no level"),
        ("log = \"=info\"", "no name"),
        ("access_log = \"\"", "access_log"),
        ("[[volume]]\ndrive = \"a\"\n[[volume]]\ndrive = \"x\"\nname = \"a@b\"", "a snapshot of `a`"),
        ("[[volume]]\ndrive = \"x\"\n[[blue]]\nname = \"b\"\ndrive = \"x\"", "for a volume and for objects"),
        ("[[array]]\nname = \"a b\"\ndrives = [\"x\"]", "letters"),
        ("[[array]]\nname = \"a\"", "name its file"),
        ("[[array]]\nname = \"a\"\nfile = \"f\"\ndrives = [\"x\"]", "not both"),
        ("[[array]]\nname = \"a\"\ndrives = [\"x\", \"x\"]", "twice"),
        ("[[array]]\nname = \"us-east-1\"\ndrives = [\"x\"]", "region"),
        ("[[array]]\nname = \"a\"\nclass = \"GLACIER\"\ndrives = [\"x\"]", "GLACIER_IR"),
        ("[[array]]\nname = \"a\"\nclass = \"cold\"\ndrives = [\"x\"]", "capital"),
        (
            "[[array]]\nname = \"a b\"\nclass = \"cold\"",
            "letters, digits and dashes\narray `a b`: class `cold` is invalid",
        ),
        ("[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"a\"\ndrives = [\"y\"]", "two arrays"),
        ("[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"b\"\ndrives = [\"y\"]", "same class"),
    ];
    for (text, word) in cases {
        let error = Config::parse(text).unwrap_err();
        assert!(error.message.contains(word), "{text}: {error}");
    }
}
