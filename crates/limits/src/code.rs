//! The program's own code, as far as it is in memory.

#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};

/// Lets go of the pages of this program's code; those that are run again come back from the page cache, some microseconds
/// each. What starts a process and plans its query is 30 MB that no row ever meets, under limits of which that is much.
/// Where the system does not say where the code lies, nothing happens.
pub fn let_code_go() {
    let here = let_code_go as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some((start, end)) =
        maps.lines().filter_map(code_range).find(|(start, end)| (*start..*end).contains(&here))
    else {
        return;
    };
    // SAFETY: the range is a private mapping of a file that nobody can write through: its pages are those of the file, and a
    // thread that runs into one that is gone waits until it is back. Refusal only costs memory.
    let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed) };
}

/// The addresses of a mapping that is run and not written, from a line of `/proc/self/maps`.
fn code_range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (rights == "r-xp").then_some((address(start)?, address(end)?))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn resident_file_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    #[test]
    fn code_is_run_again_after_it_went() {
        let before = resident_file_bytes();
        let_code_go();
        assert!(resident_file_bytes() < before, "{before} bytes");
        assert_eq!(format!("{:?}", (1.5_f64.sqrt(), "text")), "(1.224744871391589, \"text\")");
    }

    #[test]
    fn code_is_what_is_run_and_not_written() {
        assert_eq!(code_range("7f00-8f00 r-xp 00026000 fe:00 326269 /usr/lib/x"), Some((0x7f00, 0x8f00)));
        assert_eq!(code_range("7f00-8f00 r--p 00026000 fe:00 326269 /usr/lib/x"), None);
        assert_eq!(code_range("7f00-8f00 rwxp 00000000 00:00 0"), None);
    }
}
