//! Text for the ready server: its address, the keys' file, and for a person commands to try. Never the secret.

use std::net::SocketAddr;
use std::path::Path;

/// The lines. The first begins with `Ready:` and names the endpoint, so that scripts can wait for it. Commands are for
/// a `person` at a terminal, not for a journal.
pub(crate) fn text(
    endpoint: SocketAddr,
    admin: Option<SocketAddr>,
    volumes: &[String],
    credentials: &Path,
    region: &str,
    person: bool,
) -> String {
    let keys = shell_quoted(&credentials.to_string_lossy());
    let admin = admin.map_or(String::new(), |admin| format!("Metrics: http://{admin}/metrics\n"));
    let volumes: String = volumes.iter().map(|uri| format!("Volume: {uri}\n")).collect();
    let head = format!("Ready: http://{endpoint} (S3, region {region})\n{admin}{volumes}Keys: {keys}");
    if !person {
        return format!("{head}, which this user and root can read\n");
    }
    let key = |name: &str| format!("\"$(sed -n 's/^{name} = \"\\(.*\\)\"$/\\1/p' {keys})\"");
    let (access, secret) = (key("access_key"), key("secret_key"));
    format!(
        r#"{head}, which only you can read. To try it, paste:

  export AWS_ACCESS_KEY_ID={access}
  export AWS_SECRET_ACCESS_KEY={secret}
  export AWS_DEFAULT_REGION={region} AWS_ENDPOINT_URL=http://{endpoint}
  aws s3 mb s3://first
  aws s3 cp --recursive /usr/share/doc/base-files s3://first/doc
  aws s3 ls --recursive s3://first

or, with the same keys:

  rclone ls --s3-env-auth --s3-provider Other --s3-endpoint http://{endpoint} :s3:first

Ctrl-C stops the server.
"#
    )
}

fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shell_quoted("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(shell_quoted("it's here"), "'it'\\''s here'");
        for person in [true, false] {
            let text =
                text(([127, 0, 0, 1], 9000).into(), None, &[], Path::new("d/credentials.toml"), "us-east-1", person);
            assert!(text.starts_with("Ready: http://127.0.0.1:9000 "));
            assert!(text.contains("Keys: d/credentials.toml"));
            assert_eq!(text.contains("Ctrl-C"), person);
        }
    }
}
