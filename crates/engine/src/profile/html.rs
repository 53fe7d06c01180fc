//! The profile of a query as a page: the data as JSON, and what draws it, in one file.
//!
//! ```text
//!   page.html   the frame; page.css its looks, dark and light
//!   data        the JSON of the profile, which a program may take out again
//!   *.js        numbers with units (text.js), the plan (plan.js), bytes and links (bytes.js), memory and time (time.js)
//! ```
//!
//! Nothing is fetched, so that the page opens where there is no network, years later. A policy in its head forbids it.

use super::{ProfileNode, QueryProfile};

const FRAME: &str = include_str!("page/page.html");
const LOOKS: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("page/text.js"),
    include_str!("page/plan.js"),
    include_str!("page/graph.js"),
    include_str!("page/bytes.js"),
    include_str!("page/time.js"),
    include_str!("page/page.js"),
];

/// The page of `profile`.
pub(super) fn page(profile: &QueryProfile) -> String {
    let scripts = SCRIPTS.concat();
    let json = profile.to_json();
    let parts =
        [("{looks}", LOOKS), ("{data}", &json), ("{plan}", &plan_text(profile)), ("{scripts}", &scripts)];
    let mut page = String::with_capacity(FRAME.len() + json.len() + 65_536);
    let mut rest = FRAME;
    for (mark, text) in parts {
        // The frame is ours, and a test looks at it.
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// The plan as text, for readers without scripts.
fn plan_text(profile: &QueryProfile) -> String {
    let mut text = String::new();
    write_node(&profile.plan, 0, &mut text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn write_node(node: &ProfileNode, depth: usize, text: &mut String) {
    let rows = node.actual_rows.map_or_else(|| "?".to_owned(), |rows| rows.to_string());
    let detail = node.detail.lines().next().unwrap_or_default();
    let place = node.place.name();
    text.push_str(&format!("{:depth$}{} [{place}] rows={rows} {detail}\n", "", node.name, depth = depth * 2));
    node.children.iter().for_each(|child| write_node(child, depth + 1, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_has_a_place_for_each_part_in_order() {
        let places = ["{looks}", "{data}", "{plan}", "{scripts}"].map(|mark| FRAME.find(mark).unwrap());
        assert!(places.is_sorted());
    }

    #[test]
    fn nothing_of_the_page_is_elsewhere() {
        for part in SCRIPTS.into_iter().chain([FRAME, LOOKS]) {
            let outside = ["http://", "https://", "@import", "url(", "fetch(", " src=", "href=\"/"];
            for forbidden in outside {
                let found = part.replace("http://www.w3.org/2000/svg", "").contains(forbidden);
                assert!(!found, "{forbidden} in {}…", &part[..40]);
            }
            assert!(!part.contains("</script>") || part == FRAME);
        }
    }
}
