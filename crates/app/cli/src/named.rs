//! Objects by bucket and key: their names, what commands tell of them, and bytes that become one.

use std::str::FromStr;

use serde_json::{Value, json};
use shingle_base::printable;
use shingle_runtime::Runtime;
use shingle_s3_gateway::EntityTag;
use shingle_store_api::{ObjectInfo, ObjectWriter};

use crate::failure::Outcome;
use crate::output::{Progress, size};
use crate::transfer::Input;

/// An object, as listings name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

impl FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => Err("an object is named by its bucket and its key: photos/2024/one.jpg"),
        }
    }
}

impl Name {
    /// For people.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", printable(self.bucket.as_bytes()), printable(self.key.as_bytes()))
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "bucket": self.bucket, "key": self.key })
    }
}

/// An object, for programs.
pub(crate) fn object_json(name: &Name, info: &ObjectInfo) -> Value {
    json!({ "bucket": name.bucket, "key": name.key, "size_bytes": info.size, "etag": info.etag, "class": info.class,
            "modified_unix_ns": info.modified_unix_ns, "version": info.version, "part_bytes": info.part_sizes,
            "metadata": info.metadata })
}

/// Tells all that is known of an object.
pub(crate) fn tell(name: &Name, info: &ObjectInfo, json: bool) {
    if json {
        say!("{}", object_json(name, info));
        return;
    }
    say!("object    {}", name.shown());
    say!("size      {}", size(info.size));
    say!("etag      {}", printable(info.etag.as_bytes()));
    say!("modified  {}", shingle_server::utc(info.modified_unix_ns / 1_000_000_000));
    if let Some(class) = &info.class {
        say!("class     {class}");
    }
    if !info.part_sizes.is_empty() {
        say!("parts     {}", info.part_sizes.len());
    }
    for (field, value) in &info.metadata {
        say!("{}: {}", printable(field.as_bytes()), printable(value.as_bytes()));
    }
}

/// Hands all of an input to a writer. Returns the ETag.
///
/// # Errors
/// Those of reading, and of the writer.
pub(crate) async fn copy_in(
    rt: &Runtime,
    input: &mut Input,
    name: &Name,
    writer: &mut dyn ObjectWriter,
) -> Outcome<String> {
    let (mut etag, mut progress) = (EntityTag::default(), Progress::new());
    loop {
        let piece = input.next(rt).await?;
        if piece.is_empty() {
            return Ok(etag.finish());
        }
        etag.update(&piece);
        writer.write(piece).await?;
        input.show(&name.shown(), &mut progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_bucket_and_a_key_which_may_hold_slashes() {
        let name = |bucket: &str, key: &str| Ok(Name { bucket: bucket.to_owned(), key: key.to_owned() });
        assert_eq!("photos/2024/one.jpg".parse(), name("photos", "2024/one.jpg"));
        assert_eq!("b//".parse(), name("b", "/"));
        for wrong in ["", "bucket", "bucket/", "/key"] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }
}
