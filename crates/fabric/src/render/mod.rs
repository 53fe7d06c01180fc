//! Shows a machine: as text in aligned columns, and as a drawing.
//!
//! Nothing is computed here but how two places are linked in the eyes of a reader; routes of transfers are chosen
//! elsewhere.

mod forest;
mod layout;
mod path;
mod profile;
mod svg;
mod table;
mod wires;

pub use profile::profile_table;
pub use svg::svg;
pub use table::table;

use crate::{GB_PER_S, LinkKind};

/// Bandwidth in GB/s: three digits.
fn gb_per_s(bytes_per_s: f64) -> String {
    let value = bytes_per_s / GB_PER_S;
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// Bytes in the largest binary unit of which there is one.
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// A link's kind in a word.
fn kind_word(kind: LinkKind) -> String {
    match kind {
        LinkKind::Pcie { generation, width } => format!("PCIe{generation}x{width}"),
        LinkKind::NvLink { count } => format!("NVLink x{count}"),
        LinkKind::Socket => "socket".to_string(),
        LinkKind::Attachment => "attached".to_string(),
        LinkKind::Network => "network".to_string(),
    }
}

#[cfg(test)]
mod tests;
