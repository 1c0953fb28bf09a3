//! Conditions on reading: which of two dates and two ETags decide, as RFC 9110 orders them.

use s3s::dto::{ETagCondition, Timestamp};

/// The four conditions a read can have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Conditions<'a> {
    pub(crate) if_match: Option<&'a ETagCondition>,
    pub(crate) if_none_match: Option<&'a ETagCondition>,
    pub(crate) if_modified_since: Option<&'a Timestamp>,
    pub(crate) if_unmodified_since: Option<&'a Timestamp>,
}

/// Result of checking the conditions against an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

impl Conditions<'_> {
    /// Of an object with this ETag, last modified then (whole seconds, as clients are told).
    pub(crate) fn verdict(&self, etag: &str, modified: &Timestamp) -> Verdict {
        let matches = |condition: &ETagCondition| condition.as_etag().is_none_or(|given| given.value() == etag);
        match (self.if_match, self.if_unmodified_since) {
            (Some(condition), _) if !matches(condition) => return Verdict::Failed,
            (None, Some(since)) if modified > since => return Verdict::Failed,
            _ => {}
        }
        match (self.if_none_match, self.if_modified_since) {
            (Some(condition), _) if matches(condition) => Verdict::NotModified,
            (None, Some(since)) if modified <= since => Verdict::NotModified,
            _ => Verdict::Proceed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::dto::TimestampFormat;

    #[test]
    fn etags_come_before_dates() {
        let at = |seconds: &str| Timestamp::parse(TimestampFormat::EpochSeconds, seconds).unwrap();
        let tag = |tag: &str| tag.parse::<ETagCondition>().unwrap();
        let (same, other, any) = (tag("\"aa\""), tag("\"bb\""), tag("*"));
        let (before, now, after) = (at("99"), at("100"), at("101"));
        let none = Conditions::default();
        use Verdict::{Failed, NotModified, Proceed};
        let cases = [
            (none, Proceed),
            (Conditions { if_match: Some(&same), ..none }, Proceed),
            (Conditions { if_match: Some(&any), ..none }, Proceed),
            (Conditions { if_match: Some(&other), ..none }, Failed),
            (Conditions { if_none_match: Some(&same), ..none }, NotModified),
            (Conditions { if_none_match: Some(&any), ..none }, NotModified),
            (Conditions { if_none_match: Some(&other), ..none }, Proceed),
            (Conditions { if_modified_since: Some(&before), ..none }, Proceed),
            (Conditions { if_modified_since: Some(&now), ..none }, NotModified),
            (Conditions { if_unmodified_since: Some(&now), ..none }, Proceed),
            (Conditions { if_unmodified_since: Some(&before), ..none }, Failed),
            (Conditions { if_match: Some(&same), if_unmodified_since: Some(&before), ..none }, Proceed),
            (Conditions { if_none_match: Some(&other), if_modified_since: Some(&after), ..none }, Proceed),
            (Conditions { if_match: Some(&other), if_none_match: Some(&same), ..none }, Failed),
        ];
        for (index, (conditions, verdict)) in cases.into_iter().enumerate() {
            assert_eq!(conditions.verdict("aa", &now), verdict, "case {index}");
        }
    }
}
