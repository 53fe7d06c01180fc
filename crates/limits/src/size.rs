//! Sizes in bytes as people write and read them.

/// Bytes in the largest decimal unit that leaves a digit before the point.
pub fn bytes_text(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// A size such as `64MiB`, `2GB` or `1000`, in bytes.
///
/// # Errors
///
/// Says what is no size, and which units there are.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim().find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.trim().len());
    let (number, unit) = text.trim().split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        other => return Err(format!("unknown unit '{other}'; use B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a size such as 512MiB or 4GB"))?;
    let bytes = number * factor as f64;
    if bytes < 1.0 { Err(format!("'{text}' is not a positive size")) } else { Ok(bytes as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_a_readable_unit() {
        assert_eq!(bytes_text(999), "999 B");
        assert_eq!(bytes_text(1_500), "1.5 kB");
        assert_eq!(bytes_text(999_960_000), "1.0 GB");
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_size("1000"), Ok(1000));
        assert_eq!(parse_size("2 GB"), Ok(2_000_000_000));
        assert_eq!(parse_size("1.5KiB"), Ok(1536));
        assert!(parse_size("4 parsecs").unwrap_err().contains("parsecs"));
        assert!(parse_size("0").is_err());
        assert!(parse_size("-1GB").is_err());
    }
}
