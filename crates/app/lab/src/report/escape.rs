//! Text in a page.

/// Text as it stands in HTML.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // A line does not begin with the unit of a share.
    text.replace('\'', "&#39;").replace('"', "&quot;").replace(" %", "&nbsp;%")
}
